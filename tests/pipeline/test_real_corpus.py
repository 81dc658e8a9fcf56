"""The real traces are all of public test problems: by default none may be trained on, and the tool says so plainly."""

import hashlib
import json

import polars as pl
import pytest

from tests.pipeline.project import Project
from tests.shared import CATALOGUE, PROBLEMS, SHARED, SN15, needs_shared

TRACES = ("reference", "reference_newruntime", "miner_b")
ALL_STAGES = ("snapshots", "normalize", "evidence", "gate", "cluster", "split", "corpus", "audit", "validate")
CATEGORIES = ("product", "shop", "voucher")


def benchmarks():
    paths = {name: SHARED / "shoppingbench" / f"synthesize_{name}_test.jsonl" for name in CATEGORIES}
    return [
        {
            "name": f"shoppingbench-{name}",
            "kind": "shoppingbench",
            "path": str(path),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for name, path in paths.items()
    ]


def real_project(root, **changes):
    project = Project(root)
    files = {f"{name}.jsonl.gz": (SN15 / f"traces_{name}.jsonl.gz").read_bytes() for name in TRACES}
    source = project.add_lines("real", files, problems="problems.jsonl.gz", catalogue="catalogue.jsonl.gz")
    (source / "problems.jsonl.gz").write_bytes(PROBLEMS.read_bytes())
    (source / "catalogue.jsonl.gz").write_bytes(CATALOGUE.read_bytes())
    (root / "releases").mkdir()
    (root / "releases/ledger.jsonl").write_text("")
    gate = {"unknown_tools": "pass", "outcome_missing": "pass"}
    project.write_params(cluster={"benchmarks": benchmarks()}, evidence={"tokenizer": "none"}, gate=gate, **changes)
    return project


def metrics(project, name):
    return json.loads((project.root / f"metrics/{name}.json").read_text())


@needs_shared
@pytest.mark.timeout(600)
def test_by_default_no_train_row_is_left_and_the_run_says_why(tmp_path):
    project = real_project(tmp_path)
    project.run(*ALL_STAGES)
    gate, split, corpus = (metrics(project, name) for name in ("gate", "split", "corpus"))
    assert gate["accepted"] > 100
    assert split["trainable"] == 0
    assert set(corpus["configs"]) <= {"rejects"}
    assert sum(corpus["report"]["withheld"].values()) == corpus["report"]["read"] == gate["accepted"]
    said = project.stage("corpus")
    assert said.returncode == 0 and "benchmark" in said.stdout
    assert metrics(project, "cluster")["benchmark_problems_in_snapshots"] == 750

    project.write_params(split={"allow_benchmark": [one["name"] for one in benchmarks()]})
    project.run("split", "corpus", "audit", "validate")
    rows = pl.concat(
        [pl.read_parquet(path) for path in sorted((tmp_path / "data/corpus/trajectories").glob("train-*.parquet"))]
    )
    assert rows.height > 100
    assert rows["benchmark_flag"].all()
