"""Clusters of problems: everything that is one problem in disguise, joined by keys that are equal and wordings that are
near. Each join keeps its kind and value, so that a person can see why two problems stand together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from oresmith.errors import OresmithError
from oresmith.leakage.edges import KINDS, Edge, EdgeKind, Glue, Links
from oresmith.leakage.neardup import NearPairs, NearParams, near_pairs
from oresmith.leakage.table import I64, KeyTable, Ragged, hex_of, star_edges, starts_of
from oresmith.records import Problem, Record

GivenPair = tuple[str, str, float]
"""Two problems by name and their similarity."""


class ClusterParams(Record, frozen=True):
    """What joins two problems, and how large a cluster may become."""

    min_constraints: int = 3
    """Constraints that a specification must state to be a key."""
    min_pairs: int = 1
    """How many of them must be attribute or SKU pairs."""
    near: NearParams = NearParams()
    largest_share: float = 0.05
    """Share of all problems that one cluster may hold."""
    largest_floor: int = 50
    """Problems that one cluster may hold whatever its share: a bound on shares means nothing in a handful."""


class ClusterReport(Record, frozen=True):
    """Figures of one clustering; counts are of distinct problems."""

    problems: int
    clusters: int
    sizes: dict[int, int]
    """Size -> clusters of that size."""
    edges: dict[EdgeKind, int]
    largest: int
    largest_share: float
    glue: tuple[Glue, ...]
    """Of the largest cluster, the most frequent first, ten at most."""
    one_value_pairs: int
    """Pairs over the wording threshold whose token sets differ in one word on each side; joined only where their gold
    titles are the same, since that word can be a colour or the product itself."""
    unexamined_pairs: int
    """Candidate pairs left out because too many wordings share a band; 0 unless a template dominates."""
    merged: int
    """Ids that earlier clusters gave up for an older one's, ever."""


@dataclass(frozen=True)
class Clusters:
    """Problems in stable order (earlier batches first, by name within one) and the cluster of each."""

    params: ClusterParams
    table: KeyTable
    label: I64
    """Row of the first problem of each row's cluster."""
    aliases: dict[str, str]
    """Former cluster id -> the id it goes by now."""
    links: Links
    near: NearPairs
    """All pairs of near wordings, as rows of the table; `links` has those of them that join something."""
    report: ClusterReport

    def assignments(self) -> Iterator[tuple[str, str]]:
        """(problem name, cluster id) of each problem; the id is the name of the cluster's first problem."""
        names = self.table.names()
        return ((name, names[first]) for name, first in zip(names, self.label.tolist(), strict=True))

    def members(self) -> dict[str, list[str]]:
        """Cluster id -> names of its problems, first problem first."""
        found: dict[str, list[str]] = {}
        for name, cluster_id in self.assignments():
            found.setdefault(cluster_id, []).append(name)
        return found

    def edges(self) -> Iterator[Edge]:
        """Every edge, ordered by kind and rows."""
        names = self.table.names()
        for a, b, kind, value in self.links.described(self.table):
            yield Edge(a=names[a], b=names[b], kind=kind, value=value)


def cluster(
    problems: Iterable[Problem] | KeyTable, params: ClusterParams | None = None, given: Iterable[GivenPair] = ()
) -> Clusters:
    """Cluster problems.

    Args:
        problems: in any order, read once and not held; repeats are one problem. Or their keys, read before in any
            number of pieces (`KeyTable.concat`).
        params: defaults as in `ClusterParams`.
        given: pairs found by other means, joined as they are; those that name no problem here are passed over. This is
            where the pairs of a sentence-embedding model enter.

    Errors: OresmithError naming the glue when a cluster is over the bound.
    """
    table = problems if isinstance(problems, KeyTable) else KeyTable.read(problems)
    return _build(table.unique(), params or ClusterParams(), given, None)


def extend(existing: Clusters, problems: Iterable[Problem] | KeyTable, given: Iterable[GivenPair] = ()) -> Clusters:
    """Add problems to clusters, under the same parameters.

    A cluster that grows keeps its id. Where a new problem joins clusters, they go on under the oldest's id, and the
    others become its aliases; nothing that was together is ever separated.

    Errors: as `cluster`.
    """
    fresh = (problems if isinstance(problems, KeyTable) else KeyTable.read(problems)).unique()
    known = set(existing.table.names())
    unseen = np.array([row for row, name in enumerate(fresh.names()) if name not in known], dtype=np.int64)
    table = KeyTable.concat([existing.table, fresh.take(unseen)])
    return _build(table, existing.params, given, existing)


class _Forest:
    """Union-find whose roots are the least rows."""

    def __init__(self, count: int) -> None:
        self.parent = list(range(count))

    def find(self, row: int) -> int:
        parent = self.parent
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    def join(self, a: int, b: int) -> bool:
        """Whether they were apart until now."""
        a, b = self.find(a), self.find(b)
        self.parent[max(a, b)] = min(a, b)
        return a != b

    def labels(self) -> I64:
        return np.fromiter(map(self.find, range(len(self.parent))), dtype=np.int64, count=len(self.parent))


def _build(table: KeyTable, params: ClusterParams, given: Iterable[GivenPair], before: Clusters | None) -> Clusters:
    forest, parts = _Forest(len(table)), list(key_links(table, params))
    for part in parts:
        for a, b in zip(part.a.tolist(), part.b.tolist(), strict=True):
            forest.join(a, b)
    sets, members = wordings(table)
    found = near_pairs(table.words.take(sets), title_words(table, members), params.near)
    pairs = found._replace(a=sets[found.a], b=sets[found.b])
    parts.append(_spanning(forest, pairs.a, pairs.b, pairs.jaccard, EdgeKind.WORDING))
    parts.append(_given(forest, table, given))
    parts.append(_earlier(forest, before))
    links, label = Links.concat(parts), forest.labels()
    aliases = _aliases(before, table, label)
    firsts, counts = np.unique(label, return_counts=True)
    sizes, of_size = np.unique(counts, return_counts=True)
    kinds = np.bincount(links.kind, minlength=len(KINDS)).tolist()
    largest = int(counts.max(initial=0))
    report = ClusterReport(
        problems=len(table),
        clusters=len(firsts),
        sizes=dict(zip(sizes.tolist(), of_size.tolist(), strict=True)),
        edges={kind: count for kind, count in zip(KINDS, kinds, strict=True) if count},
        largest=largest,
        largest_share=largest / max(len(table), 1),
        glue=links.where(label[links.a] == firsts[counts.argmax()]).glue(table) if largest > 1 else (),
        one_value_pairs=pairs.one_value,
        unexamined_pairs=pairs.unexamined,
        merged=len(aliases),
    )
    _refuse_glue(report, params)
    return Clusters(params=params, table=table, label=label, aliases=aliases, links=links, near=pairs, report=report)


def key_links(table: KeyTable, params: ClusterParams) -> Iterator[Links]:
    """Edges from the first to every other row of each equal key, kind by kind: linear in the number of keys."""
    everyone = np.arange(len(table), dtype=np.int64)
    for kind in (EdgeKind.QUERY, EdgeKind.BASE, EdgeKind.TOKENS):
        first, other, _ = star_edges(table.keys[kind.value], everyone)
        yield Links.of(kind, first, other)
    yield Links.of(EdgeKind.GOLD, *star_edges(table.gold.values, table.gold.owners()))
    stated = (table.counts[:, 0] >= params.min_constraints) & (table.counts[:, 1] >= params.min_pairs)
    first, other, _ = star_edges(np.where(stated[:, None], table.keys["spec"], np.uint64(0)), everyone)
    yield Links.of(EdgeKind.SPEC, first, other)


def wordings(table: KeyTable) -> tuple[I64, Ragged]:
    """The first row of each distinct token set, and all rows that have it: those are joined by their key already."""
    everyone = np.arange(len(table), dtype=np.int64)
    first_of = everyone.copy()
    first, other, _ = star_edges(table.keys["tokens"], everyone)
    first_of[other] = first
    stated: I64 = np.flatnonzero(table.keys["tokens"].any(axis=1))
    members = stated[np.argsort(first_of[stated], kind="stable")]
    starts = starts_of(first_of[members])
    return members[starts], Ragged(np.append(starts, len(members)), members)


def title_words(table: KeyTable, members: Ragged) -> Callable[[int], frozenset[int]]:
    """What is known of the product of a token set: the title words of any row that has it."""

    @lru_cache(maxsize=1 << 12)
    def known(number: int) -> frozenset[int]:
        return frozenset(table.titles.take(members.row(number)).values.tolist())

    return known


def _spanning(forest: _Forest, a: I64, b: I64, similarity: NDArray[np.float64], kind: EdgeKind) -> Links:
    """Of many pairs the nearest ones that suffice to join what they join."""
    a, b = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((b, a, -similarity))
    pairs = zip(a[order].tolist(), b[order].tolist(), strict=True)
    kept = order[np.fromiter((forest.join(x, y) for x, y in pairs), dtype=bool, count=len(order))]
    return Links.of(kind, a[kept], b[kept], np.rint(similarity[kept] * 1e6).astype(np.int64))


def _given(forest: _Forest, table: KeyTable, given: Iterable[GivenPair]) -> Links:
    pairs = list(given)
    row_of = {name: row for row, name in enumerate(table.names())} if pairs else {}
    found = [(row_of[a], row_of[b], value) for a, b, value in pairs if a in row_of and b in row_of]
    rows = np.array([pair[:2] for pair in found], dtype=np.int64).reshape(-1, 2)
    values = np.array([pair[2] for pair in found], dtype=np.float64)
    return _spanning(forest, rows[:, 0], rows[:, 1], values, EdgeKind.GIVEN)


def _earlier(forest: _Forest, before: Clusters | None) -> Links:
    """What was together stays together, also where no edge of today says why."""
    firsts = before.label.tolist() if before else []
    torn = [(first, row) for row, first in enumerate(firsts) if forest.join(first, row)]
    rows = np.array(torn, dtype=np.int64).reshape(-1, 2)
    return Links.of(EdgeKind.EARLIER, rows[:, 0], rows[:, 1])


def _aliases(before: Clusters | None, table: KeyTable, label: I64) -> dict[str, str]:
    if before is None:
        return {}
    firsts = np.unique(before.label)
    moved = firsts[label[firsts] != firsts]
    old, new = hex_of(table.keys["problem"][moved]), hex_of(table.keys["problem"][label[moved]])
    aliases = dict(zip(old, new, strict=True))
    return {alias: aliases.get(known, known) for alias, known in before.aliases.items()} | aliases


def _refuse_glue(report: ClusterReport, params: ClusterParams) -> None:
    bound = max(params.largest_floor, int(params.largest_share * report.problems))
    if report.largest <= bound:
        return
    held = "; ".join(
        f"{glue.edges} by {glue.kind} {glue.value[:40]} (such as {glue.example[0][:12]} and {glue.example[1][:12]})"
        for glue in report.glue[:3]
    )
    raise OresmithError(
        "one cluster holds too many problems to be one problem",
        where="cluster",
        expected=f"at most {bound} of {report.problems} problems in a cluster",
        got=f"{report.largest}, joined {held}",
        todo="look at what joins them; remove the faulty problems, or raise cluster.largest_share",
    )
