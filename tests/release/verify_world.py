"""A small release that verifies: two pools, a guarded benchmark, two scripted models, the tiny model's directory.

It is put together here from what the stages write, without cards; `mended` makes every list and hash fit again after an
edit, so that a defect is found for what it is and not for its hash alone.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from oresmith.arena.search import Searcher
from oresmith.arena.tools import Toolbox
from oresmith.evaluation.engines.model import model_identity
from oresmith.evaluation.problems import problems_of_pool
from oresmith.evaluation.records import ChatReply, ChatRequest, Sampling
from oresmith.evaluation.suite import cases_of_table
from oresmith.evaluation.writing import _array
from oresmith.models.directory import check_directory
from oresmith.param_release import Gate
from oresmith.param_release import Release as ReleaseParams
from oresmith.params import Params, load_params
from oresmith.release.bundle import write_manifests
from oresmith.release.cards.footer import with_footer
from oresmith.release.cards.numbers import CardNumber
from oresmith.release.layout import CONFIGS, ROLLOUTS
from oresmith.release.manifest import GateResult, list_files
from oresmith.release.products import write_products
from oresmith.stage import DATA
from oresmith.training.expert import Expert
from oresmith.validation.funnel import FUNNEL_SCHEMA
from stages import (
    audit,
    base,
    cluster,
    compare,
    corpus,
    evidence,
    gate,
    index,
    normalize,
    rollout,
    score,
    snapshots,
    split,
)
from stages.score import catalogue_of
from tests.audit.forger import Forger
from tests.corpus.build import add_world
from tests.pipeline.project import Project
from tests.training.players import NOTHING
from tests.training.project import inside
from tests.worlds import honest, make_world

SNAPSHOT, DATE, BENCH = "one", "2026-05-02", "public-suite"
SPLIT = f"heldout_{DATE.replace('-', '_')}"
MODELS = ("first", "second")
GATES = tuple(GateResult(name=name, state="passed", detail="holds") for name in get_args(Gate))
Rows = list[dict[str, Any]]


class HeldoutPlayer:
    """Plays the held-out pool by the terse policy; `errs` makes every other problem a failure."""

    name = "player"
    context = 2**20

    def __init__(self, errs: bool) -> None:
        self.errs = errs
        cases = problems_of_pool(DATA, "heldout", DATE, None).cases
        self._place = {case.name: number for number, case in enumerate(cases)}
        self._shops = {shop: Searcher.open(DATA / "index" / shop / "catalogue") for shop in {c.shop for c in cases}}
        self._expert = Expert(cases, {shop: Toolbox(one) for shop, one in self._shops.items()}, 1, "terse")

    def chat(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[ChatReply]:
        return [self._changed(reply) for reply in self._expert.chat(requests, sampling)]

    def _changed(self, reply: ChatReply) -> ChatReply:
        fails = self.errs and self._place[reply.key.split("/")[0]] % 2
        text = NOTHING if fails else reply.text
        return msgspec.structs.replace(reply, text=text, prompt_tokens=9, completion_tokens=3)

    def identity(self) -> dict[str, Any]:
        told = model_identity(check_directory(DATA / "base"))
        return {"engine": self.name, "errs": self.errs, **told}

    def close(self) -> None:
        for shop in self._shops.values():
            shop.close()


def finished_project(root: Path) -> Project:
    """All stages up to `compare`, in this process."""
    project = Project(root)
    world = make_world(7, problems=24)
    problems = list(world.problems.values())
    good = [honest(world, problem, place).line for place, problem in enumerate(problems)]
    weak = [honest(world, problem, 99, succeed=False).line for problem in problems]
    add_world(project, SNAPSHOT, world, {"good-1.jsonl": good, "weak-1.jsonl": weak, "odd-1.jsonl": [b"{", b"[]"]})
    (root / "releases").mkdir()
    (root / "releases/ledger.jsonl").write_text("")
    suite = root / "suite.jsonl"
    suite.write_bytes(b"".join(msgspec.json.encode(problem) + b"\n" for problem in problems[:3]))
    sha256 = hashlib.sha256(suite.read_bytes()).hexdigest()
    project.params["models"] = [{"name": name, "from": "base"} for name in MODELS]
    project.write_params(
        evidence={"tokenizer": "none"},
        cluster={"benchmarks": [{"name": BENCH, "kind": "problems", "path": "suite.jsonl", "sha256": sha256}]},
        split={"held_out": DATE, "heldout_share": 0.3, "dev_share": 0.2},
        base={"model": "tiny", "dtype": "float32"},
        rollout={"batch": 4, "max_context": 4096},
    )
    with inside(project):
        params = load_params()
        for entry in params.snapshots:
            snapshots.run(params, entry)
        normalize.run(params, SNAPSHOT)
        evidence.run(params, SNAPSHOT)
        for stage in (gate, cluster, split, corpus, audit, base):
            stage.run(params)
        index.run(params, SNAPSHOT)
        for name in MODELS:
            player = HeldoutPlayer(errs=name == "first")
            rollout.run(params, name, lambda settings, name, model, player=player: player)
            score.run(params, name)
        compare.run(params)
    return project


def assembled(project: Project, out: Path) -> Path:
    """The bundle of a finished project."""
    with inside(project):
        dataset, model = out / "dataset", out / "model"
        for config in CONFIGS:
            if (DATA / "corpus" / config).is_dir():
                shutil.copytree(DATA / "corpus" / config, dataset / config)
        shutil.copytree(DATA / "audit/certificate", dataset / "certificate")
        for source in ("audit/contamination.tsv", "audit/verify_certificate.py"):
            shutil.copy(DATA / source, dataset)
        shutil.copy("metrics/compare.json", dataset)
        model.mkdir()
        shutil.copy("metrics/compare.json", model)
        (dataset / "funnel.json").write_text(json.dumps(funnel_of(dataset), indent=1))
        for place, name in enumerate(MODELS):
            played = dataset / ROLLOUTS / f"{SPLIT}-{place:03d}-{name}-00000.parquet"
            for source, target in (
                (DATA / "score" / name / "scores.json", dataset / f"scores/{name}.json"),
                (DATA / "score" / name / "scores.json", model / f"scores/{name}.json"),
                (DATA / "score" / name / "rows.parquet", dataset / f"scores/{name}.parquet"),
                (DATA / "rollout" / name / "rollouts.parquet", played),
            ):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        for path in sorted((DATA / "base").iterdir()):
            if path.name != "manifest.json":
                shutil.copyfile(path, model / path.name)
        (dataset / "README.md").write_text(dataset_card(dataset))
        (model / "README.md").write_text(with_footer("# A model\n", []))
        table = DATA / "cluster/problems.parquet"
        folders = [DATA / "rollout" / name for name in MODELS]
        write_products(folders, lambda names: cases_of_table(table, names)[0], catalogue_of, dataset)
    return mended(out)


def dataset_card(dataset: Path) -> str:
    """A card with every config and one number."""
    globs: dict[str, dict[str, str]] = {}
    for config in CONFIGS:
        for path in sorted((dataset / config).glob("*.parquet")):
            split = path.name.partition("-")[0]
            globs.setdefault(config, {})[split] = f"{config}/{split}-*.parquet"
    configs = [
        {"config_name": config, "data_files": [{"split": split, "path": path} for split, path in splits.items()]}
        for config, splits in globs.items()
    ]
    read = json.loads((dataset / "funnel.json").read_text())["read"]
    number = {"card": "dataset.md", "where": "Funnel, line 2, column 12", "text": f"{read:,}", "value": read}
    stated = CardNumber(**number, file="funnel.json", key="/read", format="count")
    head = yaml.safe_dump({"license": "other", "configs": configs}, sort_keys=False)
    return with_footer(f"---\n{head}---\n# A dataset\n\n## Funnel\n\nLines read: {read:,}\n", [stated])


def funnel_of(dataset: Path) -> dict[str, Any]:
    """`funnel.json` as stage validate writes it, from the accounts of the certificate."""
    accounts = json.loads((dataset / "certificate/certificate.json").read_text())["accounts"]
    files = [
        {name: one[name] for name in ("snapshot", "file", "read", "trajectories", "subtask", "withheld")}
        | {"rejects": one["rejected"]}
        for one in accounts
    ]
    total: dict[str, Any] = {name: sum(file[name] for file in files) for name in ("read", "trajectories", "subtask")}
    for name in ("withheld", "rejects"):
        keys = {key for file in files for key in file[name]}
        total[name] = {key: sum(file[name].get(key, 0) for file in files) for key in sorted(keys)}
    return {"schema": FUNNEL_SCHEMA, **total, "files": files}


def mended(bundle: Path, *, certificate: bool = False) -> Path:
    """Every list and hash fits the files again, as somebody would make it who publishes a defect."""
    if certificate:
        forger = Forger(bundle / "dataset")
        forger.edit_certificate(lambda found: found.update(files=[f for f in found["files"] if _is_there(bundle, f)]))
        forger.rehash()
        forger.recount()
    for path in bundle.rglob("release.json"):
        path.unlink()
    parts = {kind: list_files(bundle / kind) for kind in ("dataset", "model")}
    params = Params(snapshots=[], release=ReleaseParams(version="0.1.0"))
    write_manifests(bundle, params, dataset=parts["dataset"], model=parts["model"], gates=GATES, previous=None)
    return bundle


def _is_there(bundle: Path, file: dict[str, Any]) -> bool:
    return (bundle / "dataset" / file["path"]).is_file()


@cache
def _built(folder: Path) -> Path:
    (folder / "project").mkdir()
    return assembled(finished_project(folder / "project"), folder / "bundle")


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle; made once in a process, however many modules import this fixture. Not to be changed."""
    folder = tmp_path_factory.getbasetemp() / "released"
    if not folder.exists():
        folder.mkdir()
    return _built(folder)


@pytest.fixture
def bundle(released: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(released, tmp_path / "bundle"))


def public_queries() -> list[str]:
    """Queries of the guarded benchmark's problems."""
    return [str(problem["query"]) for problem in list(make_world(7, problems=24).problems.values())[:3]]


def first(bundle: Path, config: str, split: str = "") -> Path:
    """The first data file of a config (and split)."""
    return sorted((bundle / "dataset" / config).glob(f"{split}*.parquet"))[0]


def edit(path: Path, change: Callable[[Rows], Rows]) -> None:
    """Change the rows of a Parquet file; JSON columns are text meanwhile."""
    table = pq.read_table(path)
    rows = change(table.to_pylist())
    columns = [_array([row[field.name] for row in rows], field.type) for field in table.schema]
    pq.write_table(pa.Table.from_arrays(columns, schema=table.schema), path)


def edit_json(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON file in place."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value, indent=1))
