"""All problems that a run knows of: those of the snapshots, in their order, and those of the guarded benchmarks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from oresmith.arena.problems import ProblemIndex, load_problems
from oresmith.errors import OresmithError
from oresmith.frozen import read_frozen
from oresmith.leakage.keys import problem_keys
from oresmith.param_data import Benchmark
from oresmith.records import Problem


class Known(msgspec.Struct):
    """One distinct problem and where it was met."""

    problem: Problem
    snapshot: str | None
    """The first snapshot that holds it; None where only a benchmark does."""
    wishes: set[str]
    benchmarks: set[str]


class _Snapshot(NamedTuple):
    name: str
    file: ProblemIndex
    wishes: set[str]
    batch: list[Problem]


class Universe:
    """Problems by name (`ProblemKeys.problem`), grouped in batches: one a snapshot, the benchmarks last."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.batches: list[list[Problem]] = []
        self._names: dict[tuple[str | None, str | None, str], str | None] = {}

    def add_snapshot(self, name: str, data: Path) -> pl.DataFrame:
        """Take in a snapshot's problems: those of its problem file and those that its trajectories attempt.

        Args:
            name: of the snapshot.
            data: the pipeline's data directory.

        Returns:
            Columns of `schemas.clusters.ATTEMPTS`, one row a trajectory in (file, line) order.
        """
        folder = data / "snapshots" / name
        frozen = read_frozen(folder)
        index = load_problems(folder / frozen.problems.stored) if frozen.problems else ProblemIndex()
        wishes = {frozen.pool} if frozen.pool else set()
        batch: list[Problem] = []
        for problem in index:
            self._note(problem, name, wishes, batch)
        rows = pl.read_parquet(sorted((data / "normalize" / name / "index").glob("*.parquet"))).sort("file", "line")
        columns = (rows["problem_id"].to_list(), rows["query"].to_list(), rows["own_problem"].to_list())
        self._names.clear()
        met = _Snapshot(name, index, wishes, batch)
        names = [self._attempt(met, *row) for row in zip(*columns, strict=True)]
        self.batches.append(batch)
        return rows.select(pl.lit(name).alias("snapshot"), "file", "line", "trajectory_id").with_columns(
            pl.Series("problem", names, dtype=pl.String)
        )

    def add_benchmarks(self, benchmarks: Iterable[Benchmark]) -> None:
        """Take in the problems of the guarded benchmarks.

        Raises:
            OresmithError: a file that is missing, cannot be read, or is not the one whose hash is pinned.
        """
        batch: list[Problem] = []
        for benchmark in benchmarks:
            for problem in load_benchmark(benchmark):
                self._note(problem, None, {f"benchmark:{benchmark.name}"}, batch).benchmarks.add(benchmark.name)
        self.batches.append(batch)

    def _attempt(self, met: _Snapshot, problem_id: str | None, query: str | None, own: str | None) -> str | None:
        """Name of the problem that a trajectory attempts; None where its problem file or the row knows of none."""
        asked = (problem_id, query, own or "")
        if asked not in self._names:
            found = met.file.find(problem_id, query)
            if found is None and len(met.file):
                # The snapshot lists its problems: one that only a trace knows cannot be scored, and whoever writes
                # traces could otherwise glue clusters together with queries of their own making.
                self._names[asked] = None
                return None
            if found is None:
                stated = msgspec.json.decode(own, type=Problem) if own else None
                found = stated or Problem(problem_id=problem_id, query=query)
            keys = problem_keys(found)
            if keys.known:
                self._note(found, met.name, met.wishes, met.batch)
            self._names[asked] = keys.problem if keys.known else None
        return self._names[asked]

    def _note(self, problem: Problem, snapshot: str | None, wishes: set[str], batch: list[Problem]) -> Known:
        name = problem_keys(problem).problem
        known = self.known.get(name)
        if known is None:
            known = self.known[name] = Known(problem, snapshot, set(), set())
            batch.append(problem)
        known.wishes |= wishes
        return known


def load_benchmark(benchmark: Benchmark) -> Iterator[Problem]:
    """The problems of one benchmark file, whose content must be the pinned one.

    Raises:
        OresmithError: no such file, another content, or an unreadable one.
    """
    path = Path(benchmark.path)
    where = f"cluster.benchmarks: {benchmark.name}: {path}"
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise OresmithError(
            "the benchmark file cannot be read",
            where=where,
            got=error.strerror or type(error).__name__,
            todo="put it there, or take the benchmark out of cluster.benchmarks (its problems are then not guarded)",
        ) from error
    if digest != benchmark.sha256:
        raise OresmithError(
            "the benchmark file is not the pinned one",
            where=where,
            expected=benchmark.sha256,
            got=digest,
            todo="restore the file; pin the new content only after you have looked at what changed",
        )
    yield from load_problems(path)
