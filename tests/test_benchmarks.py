"""The benchmarks run, on inputs too small to say anything about speed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import data, measure
from tests.worlds import BIG, big_envelopes


def test_bench_envelopes_are_of_the_stated_size_and_all_different() -> None:
    lines = list(big_envelopes(60, distinct=20))
    assert len(set(lines)) == len(lines) == 60
    assert all(BIG[0] <= len(line) <= BIG[1] for line in lines)
    assert lines == list(big_envelopes(60, distinct=20))


def test_a_bench_snapshot_is_made_once_and_then_reused(tmp_path: Path) -> None:
    home = data.snapshot(tmp_path, 24, 12)
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    assert data.snapshot(tmp_path, 24, 12) == home
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before
    assert sum(path.read_bytes().count(b"\n") for path in data.trace_files(home)) == 24


def test_a_failure_in_a_fresh_process_is_raised_with_its_cause() -> None:
    with pytest.raises(RuntimeError, match="no_such_part"):
        measure.in_fresh_process("benchmarks.no_such_part:work", ready="json")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["throughput", "evidence", "gate", "scaling"])
def test_each_benchmark_measures_every_contender(name: str, tmp_path: Path) -> None:
    section = import_module(f"benchmarks.{name}").bench(measure.Settings(tmp_path, rows=40, repeats=1))
    assert section.numbers
    assert not [note for note in section.notes if note.startswith("skipped")]
    assert all(len(row) == len(section.columns) for row in section.rows)
