"""The stages `index` and `rollout` on a pool of the pipeline: what is played, in which shop, and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from oresmith.arena.search import Searcher
from oresmith.arena.world import documents
from oresmith.blocks.atomic import load_manifest
from oresmith.errors import OresmithError, ParameterError
from oresmith.evaluation.evaluate import load_configuration
from oresmith.evaluation.problems import problem_set_sha256, problems_of_pool
from oresmith.evaluation.records import ROLLOUT_SCHEMA
from oresmith.evaluation.writing import read_rollouts
from oresmith.leakage.keys import problem_keys
from oresmith.params import Params, load_params
from oresmith.records import Problem
from schemas.clusters import ASSIGNMENTS, PROBLEMS
from stages import index, rollout, snapshots
from tests.evaluation.scripted import Scripted, expert, never, small_shop
from tests.pipeline.project import Project

DATE = "2026-06-02"


def pools(problems: Sequence[Problem], places: Sequence[tuple[str, str | None]], shop: str | None = "shop") -> None:
    """Tables as `cluster` and `split` write them, of as much as a rollout reads."""
    rows, assigned = [], []
    for problem, (pool, held_out) in zip(problems, places, strict=True):
        name = problem_keys(problem).problem
        reward = msgspec.json.encode(problem.reward).decode()
        known = {"problem": name, "problem_id": problem.problem_id, "query": problem.query, "reward": reward}
        rows.append(known | {"category": "product", "difficulty": "L1", "snapshot": shop, "cluster": name})
        assigned.append({"problem": name, "pool": pool, "held_out": held_out, "cluster": name})
    for path, table, schema in (
        ("cluster/problems.parquet", rows, PROBLEMS),
        ("split/assignments.parquet", assigned, ASSIGNMENTS),
    ):
        Path("data", path).parent.mkdir(parents=True, exist_ok=True)
        full = [{name: row.get(name) for name in schema.names} for row in table]
        pq.write_table(pa.Table.from_pylist(full, schema=schema), Path("data", path))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A snapshot with a catalogue and one without, frozen and indexed."""
    made = Project(tmp_path)
    made.add_lines("shop", {"a.jsonl": b'{"messages":[{"role":"user","content":"x"}]}\n'}, catalogue="catalogue.jsonl")
    products = b"".join(msgspec.json.encode(one) + b"\n" for one in documents(5, 400))
    (tmp_path / "snapshots/shop/catalogue.jsonl").write_bytes(products + b'{"product_id":"x"}\n')
    made.add_lines("bare", {"b.jsonl": b'{"messages":[{"role":"user","content":"x"}]}\n'})
    made.write_params(split={"held_out": DATE}, rollout={"batch": 4})
    monkeypatch.chdir(tmp_path)
    for entry in load_params().snapshots:
        snapshots.run(load_params(), entry)
    for name in ("shop", "bare"):
        index.run(load_params(), name)
    return made


def play(made: Project, engine: Scripted | None = None, **changes: Any) -> tuple[Params, Path]:
    made.write_params(rollout=changes)
    params = load_params()
    shop, problems = small_shop()
    engine = engine or Scripted(expert(problems, shop), context=100_000)
    target = rollout.run(params, "base", lambda settings, name, model: engine).target
    assert engine.closed
    return params, target


def played(target: Path) -> list[str | None]:
    return sorted(one.problem.problem_id or "" for one in read_rollouts(target))


def test_only_the_open_held_out_pool_is_played(project: Project):
    problems = small_shop()[1]
    others = [("train", None), ("dev", None), ("heldout", "2025-01-01"), ("quarantine", None), ("benchmark:b", None)]
    pools(problems, [("heldout", DATE), *others, ("heldout", DATE)])
    _, target = play(project)
    assert target == Path("data/rollout/base")
    assert played(target) == ["p-0", "p-6"]
    stated = load_configuration(target)
    assert stated["problems"] == {
        "pool": f"heldout {DATE}",
        "count": 2,
        "left_out": {},
        "sha256": hashlib.sha256(
            "".join(sorted(f"{problem_keys(one).problem}\n" for one in (problems[0], problems[6]))).encode()
        ).hexdigest(),
    }
    assert stated["model"]["name"] == "base"
    assert set(stated["shops"]) == {"shop"}
    assert orjson.loads(Path("data/observed/rollout-base.json").read_bytes())["samples"] == 2
    assert {one.name for one in Path("data/rollout").iterdir()} == {"base", ".rollout-base.lock"}
    rows = list(read_rollouts(target))
    assert {one.extra["columns"]["problem"] for one in rows} == {
        problem_keys(problems[0]).problem,
        problem_keys(problems[6]).problem,
    }
    assert all(one.extra["columns"]["snapshot"] == "shop" and one.problem.difficulty == "L1" for one in rows)
    assert load_manifest(target, ROLLOUT_SCHEMA)["files"]


def test_the_dev_pool_is_played_where_it_is_asked_for(project: Project):
    pools(small_shop()[1], [("heldout", DATE), ("dev", None), ("dev", None), *[("train", None)] * 4])
    assert played(play(project, pool="dev")[1]) == ["p-1", "p-2"]


def test_a_limit_takes_a_stable_subset_and_says_what_it_left_out(project: Project):
    pools(small_shop()[1], [("dev", None)] * 7)
    taken = [{case.name for case in problems_of_pool(Path("data"), "dev", None, limit).cases} for limit in range(1, 8)]
    assert [len(names) for names in taken] == [1, 2, 3, 4, 5, 6, 7]
    assert all(less < more for less, more in pairwise(taken))
    pools(small_shop()[1][::-1], [("dev", None)] * 7)
    again = problems_of_pool(Path("data"), "dev", None, 3)
    assert {case.name for case in again.cases} == taken[2]
    assert again.left_out == {"limit": 4}
    assert problem_set_sha256(again.cases) == problem_set_sha256(again.cases[::-1])
    assert len(played(play(project, Scripted(never), pool="dev", problems=3)[1])) == 3


def test_an_empty_pool_is_refused_by_the_parameters_name(project: Project):
    pools(small_shop()[1], [("train", None)] * 7)
    with pytest.raises(OresmithError, match=f"rollout.pool: heldout {DATE}: there is no problem to play"):
        play(project)
    with pytest.raises(OresmithError, match=r"rollout\.pool: dev"):
        play(project, pool="dev")
    project.write_params(split={"held_out": None})
    with pytest.raises(OresmithError, match=r"rollout\.pool with split\.held_out"):
        play(project, pool="heldout")
    done = project.stage("rollout", "base")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "rollout.pool" in done.stderr


def test_problems_of_a_snapshot_without_a_catalogue_are_left_out_and_counted(project: Project):
    problems = small_shop()[1]
    for shop in ("bare", None):
        pools(problems, [("heldout", DATE)] * 7, shop)
        with pytest.raises(OresmithError, match="no_catalogue 7"):
            play(project)
    pools([Problem(query="", reward=problems[0].reward), *problems[1:3]], [("heldout", DATE)] * 3)
    _, target = play(project)
    assert load_configuration(target)["problems"]["left_out"] == {"no_query": 1}


def test_without_clusters_the_missing_stage_is_named(project: Project):
    with pytest.raises(OresmithError, match="dvc repro"):
        play(project)


def test_an_unknown_model_is_refused_with_the_known_ones(project: Project):
    pools(small_shop()[1], [("heldout", DATE)] * 7)
    for arguments, words in ((["other"], "no such model"), ([], "the model's name"), (["a", "b"], "the model's name")):
        done = project.stage("rollout", *arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert words in done.stderr


def test_the_model_is_looked_for_where_its_entry_says(project: Project):
    seen: list[Path | None] = []

    def engines(settings: Any, name: str, model: Path | None) -> Scripted:
        seen.append(model)
        return Scripted(never)

    pools(small_shop()[1], [("heldout", DATE)] * 7)
    project.params["models"] = [{"name": "base", "from": "base"}, {"name": "mine", "path": "/models/mine"}]
    project.write_params()
    for name in ("base", "mine"):
        rollout.run(load_params(), name, engines)
    Path("data/base/model").mkdir(parents=True)
    rollout.run(load_params(), "base", engines)
    assert seen == [Path("data/base"), Path("/models/mine"), Path("data/base/model")]


def test_the_same_catalogue_is_indexed_to_the_same_bytes(project: Project):
    before = project.tree("data/index")
    assert index.run(load_params(), "shop").rejected == {"not_a_product": 1}
    assert project.tree("data/index") == before
    hidden = {path.name: path.read_bytes() for path in Path("data/index/shop/catalogue").glob(".*")}
    index.run(load_params(), "shop")
    assert {path.name: path.read_bytes() for path in Path("data/index/shop/catalogue").glob(".*")} == hidden
    with Searcher.open(Path("data/index/shop/catalogue")) as shop:
        assert len(shop) == 400


def test_a_snapshot_without_a_catalogue_leaves_a_marker(project: Project):
    stated = orjson.loads(Path("data/index/bare/index.json").read_bytes())
    assert stated == {"snapshot": "bare", "documents": 0, "catalogue_sha256": None, "rejected": {}}
    assert not Path("data/index/bare/catalogue").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rollout": {"pool": "train"}}, ["rollout.pool", "train"]),
        ({"rollout": {"samples": 4}}, ["rollout.samples", "greedy"]),
        ({"rollout": {"problems": 0}}, ["rollout.problems"]),
        ({"rollout": {"max_context": 256}}, ["rollout.max_new_tokens", "fills the context"]),
        ({"rollout": {"engine": "openai"}}, ["rollout.url"]),
        ({"rollout": {"url": "http://x/v1"}}, ["rollout.url", "engine: openai"]),
        ({"rollout": {"engine": "openai", "url": "file:///x"}}, ["rollout.url"]),
        ({"rollout": {"vllm_python": "p"}}, ["rollout.vllm_python", "engine: vllm"]),
        ({"rollout": {"view": "full/1"}}, ["rollout.view"]),
        ({"rollout": {"prompt": "../x"}}, ["rollout.prompt"]),
        ({"models": [{"name": "a", "from": "b", "path": "c"}]}, ["models[0]", "not both"]),
        ({"models": [{"name": "a"}]}, ["models[0]", "`from` or `path`"]),
        ({"models": [{"name": "a", "from": "b"}] * 2}, ["models", "share a name"]),
        ({"models": [{"name": "a", "form": "b"}]}, ["models[0].form", "unknown"]),
        ({"models": [{"name": "A b", "from": "b"}]}, ["models[0].name"]),
        ({"models": []}, ["models"]),
    ],
)
def test_parameters_that_cannot_work_are_refused_by_their_key(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
):
    good = {"snapshots": [{"name": "a", "path": "p", "provenance": "p/provenance.yaml"}]}
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(good | changes))
    with pytest.raises(ParameterError) as refused:
        load_params(path)
    for word in words:
        assert word in str(refused.value)


def test_a_server_needs_no_model_directory(tmp_path: Path):
    good = {
        "snapshots": [{"name": "a", "path": "p", "provenance": "p/provenance.yaml"}],
        "rollout": {"engine": "openai", "url": "http://127.0.0.1:8000/v1"},
        "models": [{"name": "served"}],
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(good))
    assert rollout.model_directory(load_params(tmp_path / "params.yaml").models[0]) is None


def test_levels_choose_the_problems_and_the_others_are_counted(project: Project):
    problems = small_shop()[1]
    pools(problems, [("train", None), *[("heldout", DATE)] * 6], "shop")
    path = Path("data/cluster/problems.parquet")
    table = pl.read_parquet(path).with_columns(
        pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("L2")).otherwise("difficulty").alias("difficulty")
    )
    table.write_parquet(path)
    every = problems_of_pool(Path("data"), "heldout", DATE, None)
    easy = problems_of_pool(Path("data"), "heldout", DATE, None, ["L1"])
    assert {case.problem.difficulty for case in easy.cases} == {"L1"}
    assert easy.left_out["level"] == len(every.cases) - len(easy.cases) > 0
    assert easy.pool == f"heldout {DATE}, L1"
