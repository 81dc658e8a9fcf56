"""Two releases: the second appends a snapshot and opens a new held-out pool; nothing of the first one moves."""

import json
import shutil

import polars as pl
import pytest

from tests.pipeline.project import Project
from tests.worlds import envelope_line, honest, make_world

FROM_CLUSTER = ("cluster", "split", "corpus", "audit", "validate")
ALL = ("snapshots", "normalize", "evidence", "gate", *FROM_CLUSTER)


def other_world():
    """A source of another world: its problems are new."""
    world = make_world(29, problems=24)
    lines = [
        envelope_line(honest(world, problem, seed).envelope) for seed, problem in enumerate(world.problems.values())
    ]
    return {
        "traces": b"".join(line + b"\n" for line in lines),
        "problems": "".join(json.dumps(problem) + "\n" for problem in world.problems.values()),
        "catalogue": "".join(json.dumps(product) + "\n" for product in world.products.values()),
    }


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The project after release 0.1.0 was cut and 0.2.0 was built; with the bytes of 0.1.0."""
    project = Project(tmp_path_factory.mktemp("releases"))
    project.add_snapshot("demo")
    (project.root / "releases").mkdir()
    ledger = project.root / "releases/ledger.jsonl"
    ledger.write_text("")
    shares = {"heldout_share": 0.2, "dev_share": 0.2}
    project.write_params(
        evidence={"tokenizer": "none"},
        release={"version": "0.1.0"},
        split=shares | {"held_out": "2026-05-02"},
    )
    project.run(*ALL)
    first = project.tree()
    tables = {name: pl.read_parquet(project.root / f"data/{name}.parquet") for name in ("split/assignments",)}
    ledger.write_bytes((project.root / "data/split/ledger.next.jsonl").read_bytes())
    shutil.copytree(project.root / "data/audit/certificate", project.root / "releases/0.1.0")
    world = other_world()
    source = project.add_lines(
        "june", {"a.jsonl": world["traces"]}, problems="problems.jsonl", catalogue="catalogue.jsonl"
    )
    (source / "problems.jsonl").write_text(world["problems"])
    (source / "catalogue.jsonl").write_text(world["catalogue"])
    project.write_params(release={"version": "0.2.0"}, split=shares | {"held_out": "2026-06-01"})
    project.run(*ALL)
    return project, first, tables["split/assignments"]


def test_no_problem_of_the_first_release_moves(released):
    project, _, before = released
    after = pl.read_parquet(project.root / "data/split/assignments.parquet")
    kept = after.filter(pl.col("problem").is_in(before["problem"].implode()))
    columns = ["problem", "cluster", "pool", "held_out"]
    assert kept.select(columns).sort("problem").equals(before.select(columns).sort("problem"))
    assert not kept["new"].any()


def test_a_retired_held_out_pool_stays_as_its_own_dated_split(released):
    project, _, _ = released
    splits = json.loads((project.root / "metrics/corpus.json").read_text())["configs"]["heldout"]
    assert set(splits) == {"heldout_2026_05_02", "heldout_2026_06_01"}


def test_shards_of_the_first_release_keep_their_bytes(released):
    project, first, _ = released
    now = project.tree("data/corpus")
    shards = {name: sha for name, sha in first.items() if name.startswith("data/corpus/") and name.endswith(".parquet")}
    assert shards
    assert {name: now.get(name) for name in shards} == shards


def test_the_run_says_whether_the_version_is_high_enough(released):
    project, _, _ = released
    done = project.stage("validate")
    assert "after 0.1.0" in done.stdout and "0.2.0 is allowed" in done.stdout
    project.params["release"] = {"version": "0.1.1"}
    project.write_params()
    project.run("split", "corpus", "audit")
    assert "TOO LOW" in project.stage("validate").stdout
    project.params["release"] = {"version": "0.2.0"}
    project.write_params()
    project.run("split", "corpus", "audit", "validate")


def test_no_cluster_stands_in_two_pools(released):
    project, _, _ = released
    pools = pl.read_parquet(project.root / "data/split/assignments.parquet").filter(pl.col("pool") != "quarantine")
    places = pools.group_by("cluster").agg(pl.struct("pool", "held_out").n_unique().alias("n"))
    assert places["n"].max() == 1


def test_a_rebuild_of_the_first_release_gives_its_bytes_whatever_the_ledger_holds_since(released):
    project, first, _ = released
    ledger = project.root / "releases/ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes() + (project.root / "data/split/ledger.next.jsonl").read_bytes())
    later = project.params
    project.params = later | {"snapshots": later["snapshots"][:1]}
    project.write_params(
        release={"version": "0.1.0"}, split={"heldout_share": 0.2, "dev_share": 0.2, "held_out": "2026-05-02"}
    )
    project.run("gate", *FROM_CLUSTER)
    for folder in ("cluster", "split", "corpus", "audit", "validate"):
        rebuilt = project.tree(f"data/{folder}")
        assert rebuilt == {name: sha for name, sha in first.items() if name.startswith(f"data/{folder}/")}, folder
