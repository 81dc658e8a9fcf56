"""Appending a snapshot: the earlier ones keep their bytes and their decisions."""

import polars as pl

from tests.pipeline.project import Project
from tests.worlds import envelope_line, honest


def lines(world, seeds):
    return b"".join(envelope_line(honest(world, problem, seed).envelope) + b"\n" for problem, seed in seeds)


def test_a_later_snapshot_adds_rows_and_touches_no_earlier_decision(tmp_path):
    project = Project(tmp_path)
    project.add_snapshot("demo")
    project.write_params()
    project.run()
    before = project.tree()
    old = pl.read_parquet(tmp_path / "data/gate/decisions.parquet")
    project.add_snapshot("again")  # the same rows once more: all of them newcomers
    project.write_params()
    project.run()
    after = project.tree()
    kept = {name: sha for name, sha in before.items() if "/gate/" not in name}
    assert {name: after[name] for name in kept} == kept
    new = pl.read_parquet(tmp_path / "data/gate/decisions.parquet")
    assert new.filter(pl.col("snapshot") == "demo").equals(old)
    newcomers = new.filter((pl.col("snapshot") == "again") & pl.col("accepted"))
    assert newcomers.is_empty()
