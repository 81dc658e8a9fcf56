"""A small project whose stages have run, written file by file: what the cards read, and nothing else.

`hostile` stands wherever a source, a miner or a user of the pipeline chooses a text.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from oresmith.params import load_params
from oresmith.release.cards.make import make_cards
from oresmith.release.cards.sources import sources
from schemas.corpus import CONFIGS, arrow_schema
from schemas.rollouts import ARROW

POOL, SPLIT = "heldout@2026-06-02", "heldout_2026_06_02"
MODELS = ("base", "tuned")
SHAPE = {
    "trajectories": {"train": 6, "dev": 2},
    "sft": {"train": 6, "validation": 2},
    "kto": {"train": 9},
    "grpo": {"train": 4},
    "heldout": {SPLIT: 3},
    "heldout_gold": {SPLIT: 3},
    "rejects": {"rejected": 5},
}


def project(root: Path, hostile: str = "plain", **release: Any) -> Path:
    """Write the project. `release` changes its namespace of parameters."""
    params = {
        "snapshots": [{"name": "one", "path": "snapshots/one", "provenance": "snapshots/one/provenance.yaml"}],
        "models": [{"name": "base", "from": "base"}, {"name": "tuned", "from": "sft/1"}],
        "split": {"held_out": "2026-06-02"},
        "release": {"version": "0.1.0", "title": "A shop", "summary": "Rows of a shop."} | release,
    }
    root.mkdir(parents=True, exist_ok=True)
    (root / "params.yaml").write_text(yaml.safe_dump(params), "utf-8")
    (root / "releases").mkdir(exist_ok=True)
    files = _corpus(root, hostile)
    _dataset(root, hostile, files)
    _models(root, hostile)
    return root


def make(root: Path) -> Path:
    """Make the cards of a project in its data/cards/."""
    cards = root / "data/cards"
    shutil.rmtree(cards, ignore_errors=True)
    cards.mkdir(parents=True)
    make_cards(load_params(root / "params.yaml"), cards, root)
    return cards


def bundle(root: Path, out: Path) -> Path:
    """The cards and the files that they cite, as they are published."""
    cards = root / "data/cards"
    for source in sources(load_params(root / "params.yaml"), root):
        for origin in source.origins:
            for place, path in enumerate(sorted(root.glob(origin.as_posix()))):
                folder = out / source.repository / Path(source.path).parent
                name = Path(source.path).name
                if "*" in name:
                    played = f"{SPLIT}-{place:03d}-{path.parent.name}.parquet"
                    name = played if path.name == "rollouts.parquet" else path.name
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, folder / name)
    named = {"dataset.md": "dataset/README.md", "changelog.md": "dataset/CHANGELOG.md", "model.md": "model/README.md"}
    for card, path in named.items():
        shutil.copyfile(cards / card, out / path)
    shutil.copyfile(cards / "croissant.json", out / "dataset/croissant.json")
    shutil.copytree(cards / "eval_results", out / "model/.eval_results")
    return out


def write(path: Path, value: object) -> None:
    """A JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1), "utf-8")


def change(path: Path, *place: str | int, to: Any) -> None:
    """Set one value of a JSON file."""
    tree = json.loads(path.read_text("utf-8"))
    at = tree
    for part in place[:-1]:
        at = at[part]
    at[place[-1]] = to
    write(path, tree)


def _value(kind: pa.DataType, name: str, row: int, hostile: str) -> Any:
    chosen = {
        "validator": hostile,
        "race_id": hostile,
        "licence": hostile,
        "miner": f"{row % 3}",
        "agent_version": f"agent-{row % 2}{hostile}",
        "problem": f"p{row % 4}",
        "cluster": f"c{row % 3}",
        "judge_status": "judged" if row % 2 else "missing",
        "judge_era": None,
    }
    if name in chosen:
        return chosen[name]
    if pa.types.is_list(kind):
        return [json.dumps({"role": "user", "content": hostile})] if isinstance(kind.value_type, pa.JsonType) else []
    if isinstance(kind, pa.JsonType):
        return json.dumps({"text": hostile})
    simple = {pa.int64(): row, pa.float64(): 0.5, pa.bool_(): row % 2 == 0}
    return simple.get(kind, f"{name}-{row}")


def _table(schema: pa.Schema, rows: int, hostile: str) -> pa.Table:
    columns = []
    for field in schema:
        values = [_value(field.type, field.name, row, hostile) for row in range(rows)]
        columns.append(pa.array(values, _plain(field.type)).cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.JsonType):
        return kind.storage_type
    return pa.list_(_plain(kind.value_type)) if pa.types.is_list(kind) else kind


def _corpus(root: Path, hostile: str) -> list[dict[str, Any]]:
    files = []
    for config, splits in SHAPE.items():
        assert config in CONFIGS
        for split, rows in splits.items():
            path = root / "data/corpus" / config / f"{split}-000-one-00000.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(_table(arrow_schema(config), rows, hostile), path, compression="zstd")
            name = f"{config}/{path.name}"
            told = {"path": name, "config": config, "split": split, "rows": rows, "bytes": path.stat().st_size}
            files.append(told | {"sha256": f"{len(files):064x}"})
    for model in MODELS:
        path = root / "data/rollout" / model / "rollouts.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(_table(ARROW, 3, hostile), path)
    return files


def _dataset(root: Path, hostile: str, files: list[dict[str, Any]]) -> None:
    data = root / "data"
    span = {"from": "2026-06-01T00:00:00Z", "to": "2026-06-02T00:00:00Z"}
    declared = {"race_id": hostile, "suite": hostile}
    write(
        data / "snapshots/one/snapshot.json",
        {"name": "one", "source": hostile, "licence": hostile, "time_range": span, "versions": {"judge": hostile}}
        | {"files": [{"file": "a", "bytes": 10, "provenance": declared}], "tree_sha256": "1" * 64, "pool": None},
    )
    write(
        data / "validate/funnel.json",
        {"read": 1234, "trajectories": 8, "subtask": 1, "withheld": {POOL: 3}}
        | {"rejects": {"outcome": 1000, hostile: 222}, "files": [{"snapshot": "one", "file": "a", "read": 1234}]},
    )
    shapes = [
        {"config": config, "split": split, "rows": rows, "problems": rows, "clusters": rows, "bytes": 100 * rows}
        for config, splits in SHAPE.items()
        for split, rows in splits.items()
    ]
    write(
        data / "validate/validation.json",
        {"configs": shapes, "version": {"previous": None, "changes": {}, "reserialised": False, "least": None}},
    )
    counts = {
        config: {split: {"rows": rows, "problems": rows, "clusters": rows} for split, rows in splits.items()}
        for config, splits in SHAPE.items()
    }
    claim = {"by": "cluster", "left": "train", "left_size": 4, "right": POOL, "right_size": 3, "shared": 0}
    write(
        data / "audit/certificate/certificate.json",
        {"release": "0.1.0", "files": files, "counts": counts, "claims": [claim], "misfiled": 2}
        | {"clusters": {"pools": {"train": {"problems": 4, "clusters": 4}, POOL: {"problems": 3, "clusters": 3}}}}
        | {"contamination": {POOL: {hostile: {"withheld": 7}}}, "parameters": {"gate": {"outcome": "success"}}}
        | {"benchmarks": {hostile: {"problems": 5, "published": 1, "allowed": True}}},
    )
    keys = ["config\trow_id\tproblem\tcluster", *(f"sft\tr{row}\tp{row}\tc{row // 2}" for row in range(7))]
    (data / "audit/certificate/keys.tsv").write_text("\n".join(keys) + "\n", "utf-8")


def _figures(k: int, n: int, hostile: str) -> dict[str, Any]:
    rate = {"k": k, "n": n, "share": k / n, "low": 0.0, "high": 0.9, "method": "wilson"}
    mean = {"value": k / n, "n": n, "clusters": n, "low": None, "high": None, "error": 0.0, "method": "none"}
    return {
        "problems": n,
        "clusters": n,
        "rollouts": n,
        "asr": rate,
        "detectable": {"problems": n, "different_problems": 0.5, "same_problems": None, "discordant": 0.0},
        "means": {"rule": mean},
        "used": {"invented": rate | {"k": 0, "share": 0.0}},
        "failures": {hostile: rate},
    }


def _models(root: Path, hostile: str) -> None:
    data = root / "data"
    for k, model in enumerate(MODELS):
        figures = _figures(k, 3, hostile)
        conditions = {"scorer": "oresmith-strict/1", "titles": None}
        told = {"model": model, "conditions": conditions, "noted": {"samples": 1}, "overall": figures}
        write(data / "score" / model / "scores.json", told | {"by_category": {"product": figures, hostile: figures}})
        value = {"value": 1.25, "n": 4, "low": 1.0, "high": 1.5}
        tasks = {"english": {"skipped": None, "n": 4, "bits_per_byte": value, hostile: figures["asr"]}}
        write(data / "lmeval" / model / "results.json", {"model": model, "tasks": tasks})
    one = {"figure": "asr", "group": hostile, "n": 3, "difference": 0.33, "low": -0.1, "high": 0.7}
    tested = one | {"test": "swaps", "p_holm": 0.00004, "claim": hostile}
    untested = one | {"test": None, "p_holm": None, "claim": None}
    pair = {"first": "base", "second": "tuned", "forced": [hostile], "unpaired": {hostile: 2}, "noted": []}
    write(root / "metrics/compare.json", {"models": MODELS, "pairs": [pair | {"differences": [tested, untested]}]})
    facts = {
        "origin": hostile,
        "licence": hostile,
        "notes": [hostile],
        "architecture": "LlamaForCausalLM",
        "parameters": 134515008,
        "dtypes": ["BF16"],
        "context": 8192,
        "vocabulary": 49152,
        "template": "hermes/1",
        "template_sha256": "2" * 64,
        "tokenizer_sha256": "3" * 64,
    }
    write(data / "sft/1/model/oresmith_model.json", facts)
    write(data / "base/oresmith_model.json", facts)
    listed = [{"path": "model/config.json", "sha256": "4" * 64}, {"path": "training.json", "sha256": "5" * 64}]
    write(data / "sft/1/manifest.json", {"files": listed})
    write(data / "base/manifest.json", {"files": [{"path": "config.json", "sha256": "6" * 64}]})
    write(
        data / "sft/1/training.json",
        {"step": "sft", "name": "sft/1", "skipped": None, "seed": 1, "steps": 2, "tokens": 500, "supervised": 100}
        | {"start": {"from": "base", "weights_sha256": "7" * 64, "facts": facts}, "extra": {}}
        | {"rows": {"rows": 4, "problems": 4, "clusters": 3}, "loss": {"first": 1.5, "last": 0.25}}
        | {"parameters": {"sft": {"learning_rate": 0.0015, "url": hostile}, "seed": 1}, "versions": {"torch": "2"}}
        | {"rendering": {"rejected": {"too_long": 1}}, "leaks": [{"viewed": {POOL: 1}}]},
    )
