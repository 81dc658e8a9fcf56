"""Problems: which of them the pipeline joined and where it put them, held against the clusters that were planted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import combinations, combinations_with_replacement, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import polars as pl

from oresmith.arena.problems import load_problems
from oresmith.audit.truth_file import PlantedProblem
from oresmith.audit.truth_misses import Listed, Miss, listed
from oresmith.errors import OresmithError
from oresmith.frozen import read_frozen
from oresmith.intervals import Rate, rate
from oresmith.leakage.keys import problem_keys
from oresmith.records import Record

Key = TypeVar("Key", bound=Hashable)
BASE, SAME_SPECIFICATION, MIXED = "base", "same_specification", "mixed"
PARTS = 20
"""Problems that a miss names."""


class JoinRates(Record, frozen=True):
    """Pairs of problems, pairwise."""

    recall: Rate
    """Joined, of the pairs that are truly one problem."""
    precision: Rate
    """Truly one problem, of the pairs that were joined."""


class ClusterRates(Record, frozen=True):
    """Clusters of problems. A pair is of the kind of its variant; see `pair_kind`."""

    problems: int
    """Distinct problems of which the truth speaks."""
    without_row: int
    """Of them, those that the pipeline does not know; they count as joined to nothing."""
    repeated: int
    """Lines of the truth about a problem that an earlier line is about."""
    one_problem_two_clusters: int
    """True clusters that are one, because a problem of one is, word for word, a problem of the other."""
    recall: Rate
    """Over all pairs but those of one specification."""
    precision: Rate
    """Over all joined pairs."""
    same_specification: JoinRates
    by_kind: dict[str, JoinRates]


class LeakRates(Record, frozen=True):
    """Pairs that are truly one problem and stand in two of the pools train, dev, heldout and benchmark."""

    pairs: Rate
    """Over all pairs but those of one specification; none may be."""
    same_specification: Rate
    by_pools: dict[str, int]
    """The two pools -> pairs, of either sort."""


class ProblemFigures(NamedTuple):
    """Everything about problems."""

    clusters: ClusterRates
    leaks: LeakRates
    misses: dict[str, Listed]


class Node(NamedTuple):
    """A distinct problem of the truth."""

    where: str
    """Its first snapshot and its id."""
    cluster: str
    """The true one."""
    variant: str
    found: str
    """The pipeline's cluster; of a problem that it does not know, a name of its own."""
    pool: str | None
    """train, dev, heldout or benchmark; None where nobody may use it (quarantine, vault) or nobody knows it."""


class Known(NamedTuple):
    """What the pipeline knows of all problems."""

    cluster: dict[str, str]
    """Problem name -> cluster."""
    pool: dict[str, str | None]
    """Problem name -> pool, as in `Node`."""
    by_id: dict[tuple[str, str], str]
    """Snapshot and problem id -> problem name, of the problems' first snapshots."""


def read_known(data: Path) -> Known:
    """Read data/cluster and data/split. Errors: OresmithError where a stage has not run."""
    paths = [data / "cluster" / "problems.parquet", data / "split" / "assignments.parquet"]
    for path in paths:
        if not path.is_file():
            raise OresmithError("the problems have no clusters or no pools", where=str(path), todo="run `dvc repro`")
    problems = pl.read_parquet(paths[0], columns=["problem", "problem_id", "snapshot", "cluster"])
    pools = pl.read_parquet(paths[1], columns=["problem", "pool", "vault", "trainable"])
    rows = problems.select("snapshot", "problem_id", "problem").drop_nulls().iter_rows()
    return Known(
        cluster=dict(problems.select("problem", "cluster").iter_rows()),
        pool={problem: use_of(*row) for problem, *row in pools.iter_rows()},
        by_id={(snapshot, problem_id): problem for snapshot, problem_id, problem in rows},
    )


def use_of(pool: str, vault: bool, trainable: bool) -> str | None:
    """For what a problem's rows may be used: train, dev, heldout or benchmark; None for nothing at all."""
    if vault or pool == "quarantine":
        return None
    return "train" if trainable else pool.split(":", maxsplit=1)[0]


def names_of(data: Path, snapshot: str, known: Known) -> dict[str, str]:
    """Problem id -> problem name in one snapshot: by its problem file, since another snapshot may hold a problem first.

    Without a problem file, by what the clusters say.
    """
    folder = data / "snapshots" / snapshot
    frozen = read_frozen(folder)
    if frozen.problems is None:
        return {problem_id: name for (other, problem_id), name in known.by_id.items() if other == snapshot}
    problems = load_problems(folder / frozen.problems.stored)
    return {one.problem_id: problem_keys(one).problem for one in problems if one.problem_id is not None}


class Nodes:
    """The distinct problems of all truths."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._nodes: dict[str, Node] = {}
        self._root: dict[str, str] = {}
        self.repeated = self.united = 0
        self.without_row = list[Miss]()

    def add(self, snapshot: str, planted: Iterable[PlantedProblem], names: Mapping[str, str]) -> None:
        """Take in what one snapshot's truth says of its problems."""
        for one in planted:
            where = f"{snapshot} {one.problem_id}"
            name = names.get(one.problem_id, "")
            if name not in self._known.cluster:
                name = where
                self.without_row.append(Miss(where=where, what=f"variant {one.variant}"))
            found, pool = self._known.cluster.get(name, where), self._known.pool.get(name)
            first = self._nodes.setdefault(name, Node(where, one.cluster, one.variant, found, pool))
            if first.where != where:
                self.repeated += 1
                self._unite(first.cluster, one.cluster)

    def __iter__(self) -> Iterator[Node]:
        for node in self._nodes.values():
            yield node._replace(cluster=self._find(node.cluster))

    def _find(self, cluster: str) -> str:
        while cluster in self._root:
            cluster = self._root[cluster]
        return cluster

    def _unite(self, one: str, other: str) -> None:
        first, second = self._find(one), self._find(other)
        if first != second:
            self._root[second] = first
            self.united += 1


def pair_kind(one: str, other: str) -> str:
    """The kind of a pair by the variants of its problems.

    One of the same specification makes the pair of that kind, since nothing else may join them; two other kinds of
    variants make it mixed; the base adds nothing.
    """
    kinds = {one, other} - {BASE}
    if SAME_SPECIFICATION in kinds:
        return SAME_SPECIFICATION
    return MIXED if len(kinds) > 1 else kinds.pop() if kinds else BASE


def pairs_by_kind(variants: Mapping[str, int]) -> Counter[str]:
    """How many pairs of each kind a group holds. Args: problems of the group by variant."""
    pairs: Counter[str] = Counter()
    for one, other in combinations_with_replacement(sorted(variants), 2):
        count = variants[one] * (variants[one] - 1) // 2 if one == other else variants[one] * variants[other]
        pairs[pair_kind(one, other)] += count
    return pairs


def figures(nodes: Nodes) -> ProblemFigures:
    """All figures of problems."""
    every = list(nodes)
    true, found, both = Counter[str](), Counter[str](), Counter[str]()
    for groups, counted in (
        (_grouped(every, lambda one: (one.cluster, "")), true),
        (_grouped(every, lambda one: ("", one.found)), found),
        (_grouped(every, lambda one: (one.cluster, one.found)), both),
    ):
        for group in groups.values():
            counted.update(pairs_by_kind(Counter(one.variant for one in group)))
    kinds = {kind: _joined(true[kind], found[kind], both[kind]) for kind in sorted(true | found)}
    stated = [kind for kind in true if kind != SAME_SPECIFICATION]
    clusters = ClusterRates(
        problems=len(every),
        without_row=len(nodes.without_row),
        repeated=nodes.repeated,
        one_problem_two_clusters=nodes.united,
        recall=rate(sum(both[kind] for kind in stated), sum(true[kind] for kind in stated)),
        precision=rate(both.total(), found.total()),
        same_specification=kinds.pop(SAME_SPECIFICATION, _joined(0, 0, 0)),
        by_kind=kinds,
    )
    leaks, leaked = _leaks(every, true)
    misses = {
        "problem_without_row": listed(nodes.without_row),
        "cluster_split": listed(_parted(every, lambda one: one.cluster, lambda one: one.found)),
        "cluster_merged": listed(_parted(every, lambda one: one.found, lambda one: one.cluster)),
        "leak": listed(leaked[False]),
        "leak_same_specification": listed(leaked[True]),
    }
    return ProblemFigures(clusters, leaks, misses)


def _joined(true: int, found: int, both: int) -> JoinRates:
    return JoinRates(recall=rate(both, true), precision=rate(both, found))


def _grouped(nodes: Iterable[Node], key: Callable[[Node], Key]) -> dict[Key, list[Node]]:
    groups: dict[Key, list[Node]] = defaultdict(list)
    for node in nodes:
        groups[key(node)].append(node)
    return groups


def _parted(nodes: list[Node], whole: Callable[[Node], str], part: Callable[[Node], str]) -> Iterator[Miss]:
    """Groups that fall into several parts, each told by one problem of each part."""
    for group in _grouped(nodes, whole).values():
        parts = _grouped(group, part)
        if len(parts) > 1:
            told = (f"{members[0].where} ({members[0].variant}, {len(members)})" for members in parts.values())
            yield Miss(where=group[0].where, what=" | ".join(islice(told, PARTS)))


def _leaks(nodes: list[Node], true: Mapping[str, int]) -> tuple[LeakRates, dict[bool, list[Miss]]]:
    """Pairs in two pools, and each true cluster that has one: under True those of one specification alone."""
    leaks, by_pools = Counter[bool](), Counter[str]()
    places: dict[bool, list[Miss]] = {False: [], True: []}
    for group in _grouped(nodes, lambda one: one.cluster).values():
        counted = Counter((one.variant, one.pool) for one in group if one.pool is not None)
        here = Counter[bool]()
        for ((one, pool), n), ((other, elsewhere), m) in combinations(sorted(counted.items(), key=str), 2):
            if pool != elsewhere:
                here[pair_kind(one, other) == SAME_SPECIFICATION] += n * m
                by_pools["/".join(sorted((str(pool), str(elsewhere))))] += n * m
        if here:
            told = (f"{node.where} ({node.variant}) in {node.pool}" for node in group if node.pool is not None)
            places[False not in here].append(Miss(where=group[0].where, what=" | ".join(islice(told, PARTS))))
        leaks.update(here)
    same = true.get(SAME_SPECIFICATION, 0)
    rates = LeakRates(
        pairs=rate(leaks[False], sum(true.values()) - same),
        same_specification=rate(leaks[True], same),
        by_pools=dict(sorted(by_pools.items())),
    )
    return rates, places
