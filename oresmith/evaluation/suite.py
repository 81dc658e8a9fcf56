"""Which rollouts belong to which problem of a suite, and which samples are missing.

A row of ours names its problem in its column `problem`, and must state the problem's own words; any other trace is
matched by the problem's id or its query. Samples keep their numbers where a configuration says how many there are, and
are otherwise numbered in the order of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oresmith.arena.problems import ProblemIndex
from oresmith.arena.tools import clean
from oresmith.errors import OresmithError
from oresmith.evaluation.played import Played, Unreadable
from oresmith.evaluation.problems import Case, case_of, problem_set_sha256
from oresmith.leakage.keys import problem_keys


class Attempts(NamedTuple):
    """All samples of one problem."""

    case: Case
    key: str
    """The problem's name wherever it comes from (`leakage.keys`), hex."""
    cluster: str
    samples: list[Played | None]
    """By number; None for one that is missing."""

    @property
    def rewards(self) -> list[dict[str, Any]]:
        """One a product that is asked for."""
        reward = self.case.problem.reward
        return reward if isinstance(reward, list) else [] if reward is None else [reward]


class Suite(NamedTuple):
    """A set of problems with its rollouts."""

    attempts: list[Attempts]
    """Sorted by the problems' names."""
    unused: dict[str, int]
    """Why -> lines that are no rollout of any of the problems."""

    def problems_sha256(self) -> str:
        """Names the set of problems."""
        return problem_set_sha256(one.case for one in self.attempts)


def gather(
    cases: Sequence[Case],
    clusters: Mapping[str, str],
    found: Iterable[Played | Unreadable],
    configuration: Mapping[str, Any] | None = None,
) -> Suite:
    """Put rollouts and problems together.

    Args:
        cases: all problems that could have been asked.
        clusters: leak cluster by key; a problem that is not in it is one of its own.
        found: the rollouts.
        configuration: of our own rollouts; the problems are then those that it names.

    Raises:
        OresmithError: no rollout of any problem; and with a configuration, rollouts that are not what it says: another
            set of problems, a sample that stands twice, or a line that cannot be read.
    """
    unused: Counter[str] = Counter()
    taken: dict[str, list[Played]] = {}
    finder = _Finder(cases)
    for one in found:
        name = one.reason if isinstance(one, Unreadable) else finder.find(one)
        if isinstance(one, Played) and name in finder.cases:
            taken.setdefault(name, []).append(one)
            continue
        unused[name] += 1
        if configuration is not None:
            raise OresmithError("no rollout of the problems", where=f"{one.file}:{one.line}", got=name)
    if not taken:
        raise OresmithError(
            "no trace is an attempt at one of the problems",
            got=", ".join(f"{why} {count}" for why, count in sorted(unused.items())) or "no trace",
            todo="give the problem file that the rollouts were played from",
        )
    if configuration is not None:
        cases = _configured(cases, taken, configuration)
    samples = None if configuration is None else int(configuration["samples"])
    attempts = [
        _attempts(case, clusters, taken.get(case.name, []), samples)
        for case in sorted(cases, key=lambda case: case.name)
    ]
    return Suite(attempts, dict(sorted(unused.items())))


def cases_of_table(table: Path, names: Iterable[str | None]) -> tuple[list[Case], dict[str, str]]:
    """Problems of data/cluster/problems.parquet by name, and the leak cluster of each.

    Raises:
        OresmithError: no such table.
    """
    import polars as pl

    if not table.is_file():
        raise OresmithError("there is no table of problems", where=str(table), todo="run `dvc repro cluster`")
    rows = pl.read_parquet(table).filter(pl.col("problem").is_in(sorted({name for name in names if name})))
    cases = [case_of(row) for row in rows.iter_rows(named=True)]
    return cases, dict(zip(rows["problem"].to_list(), rows["cluster"].to_list(), strict=True))


def clusters_of(cases: Iterable[Case]) -> dict[str, str]:
    """The leak cluster of each problem by key, where no pipeline has clustered them."""
    from oresmith.leakage.clusters import ClusterParams, cluster

    # However much of a suite is one problem in disguise: its rollouts are still to be scored.
    return dict(cluster([case.problem for case in cases], ClusterParams(largest_share=1.0)).assignments())


class _Finder:
    def __init__(self, cases: Iterable[Case]) -> None:
        self.cases = {case.name: case for case in cases}
        self._index = ProblemIndex()
        self._names: dict[int, str] = {}
        self._filled = False

    def find(self, one: Played) -> str:
        """Name of the rollout's problem, or why it has none here."""
        if one.name is None:
            return self._search(one)
        case = self.cases.get(one.name)
        if case is None:
            return "no_such_problem"
        query = case.problem.query or ""
        return one.name if one.query in (query, clean(query)) else "another_query"

    def _search(self, one: Played) -> str:
        if not self._filled:
            self._filled = True
            for case in self.cases.values():
                self._index.add(case.problem, case.name)
                self._names[id(case.problem)] = case.name
        problem = self._index.find(one.problem_id, one.query)
        return "no_such_problem" if problem is None else self._names.get(id(problem), "no_such_problem")


def _configured(cases: Sequence[Case], taken: Mapping[str, Any], configuration: Mapping[str, Any]) -> list[Case]:
    """The problems that were played: those of the rows or, where rows are missing, all."""
    wanted = configuration["problems"]["sha256"]
    for chosen in ([case for case in cases if case.name in taken], list(cases)):
        if problem_set_sha256(chosen) == wanted:
            return chosen
    raise OresmithError(
        "the problems are not those that were played",
        expected=f"{configuration['problems']['count']} problems, set {wanted[:16]}",
        got=f"rollouts of {len(taken)} of {len(cases)} problems",
        todo="give the problem file that the rollouts were played from",
    )


def _attempts(case: Case, clusters: Mapping[str, str], played: list[Played], samples: int | None) -> Attempts:
    key = problem_keys(case.problem).problem
    cluster = clusters.get(key, key)
    if samples is None:
        return Attempts(case, key, cluster, list(played) or [None])
    numbered = {one.sample: one for one in played}
    if len(numbered) < len(played) or not numbered.keys() <= set(range(samples)):
        raise OresmithError(
            "the samples are not those that the configuration names",
            where=f"problem {case.name}",
            expected=f"each of 0 to {samples - 1} at most once",
            got=", ".join(str(one.sample) for one in played[:20]),
        )
    return Attempts(case, key, cluster, [numbered.get(number) for number in range(samples)])
