"""Leaks between two sets of rows, whatever made them: for `oresmith leakage check` and for the certificate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from oresmith.leakage.clusters import ClusterParams, Clusters, cluster
from oresmith.leakage.edges import EdgeKind
from oresmith.leakage.keys import ProblemKeys, Reading, read_problem
from oresmith.leakage.table import KeyTable
from oresmith.records import Problem, Record

CHAIN = "chain"
"""Kind of a leak through other problems: the two rows share a cluster, but nothing directly."""
_WORDINGS = (EdgeKind.QUERY, EdgeKind.BASE, EdgeKind.TOKENS, EdgeKind.WORDING)
"""From the strictest to the loosest: each implies the next, so only the strictest is told of two rows."""


class Row(NamedTuple):
    """A row of a data set and the problem that it is about."""

    row_id: str
    problem: Problem


class Leak(Record, frozen=True):
    """A training row whose problem is a held-out row's."""

    kind: str
    """Of `EdgeKind`, or `CHAIN`."""
    train_id: str
    heldout_id: str
    value: str
    """The key, gold product id or Jaccard similarity in common; of a chain, the cluster's id."""


class _Side(NamedTuple):
    ids: list[str]
    keys: list[ProblemKeys]
    golds: list[tuple[str, ...]]
    table: KeyTable


def _read(rows: Iterable[Row]) -> _Side:
    ids, keys, golds = list[str](), list[ProblemKeys](), list[tuple[str, ...]]()

    def readings() -> Iterator[Reading]:
        for row_id, problem in rows:
            reading = read_problem(problem)
            ids.append(row_id)
            keys.append(reading.keys())
            golds.append(reading.gold_ids)
            yield reading

    table = KeyTable.of(readings())
    return _Side(ids, keys, golds, table)


def _values(keys: ProblemKeys, golds: tuple[str, ...], params: ClusterParams) -> Iterator[tuple[EdgeKind, str]]:
    """What one row can share with another, key by key."""
    for kind, value in ((EdgeKind.QUERY, keys.query), (EdgeKind.BASE, keys.base), (EdgeKind.TOKENS, keys.tokens)):
        if value:
            yield kind, value
    for gold in golds:
        yield EdgeKind.GOLD, gold
    if keys.spec and keys.constraints >= params.min_constraints and keys.pairs >= params.min_pairs:
        yield EdgeKind.SPEC, keys.spec


def _near_tokens(clusters: Clusters) -> dict[str, list[tuple[str, float]]]:
    """Token-set key -> the near ones and their similarity."""
    tokens = [keys.tokens for keys in clusters.table.rows()]
    found: dict[str, list[tuple[str, float]]] = {}
    pairs = clusters.near
    for a, b, jaccard in zip(pairs.a.tolist(), pairs.b.tolist(), pairs.jaccard.tolist(), strict=True):
        found.setdefault(tokens[a], []).append((tokens[b], jaccard))
        found.setdefault(tokens[b], []).append((tokens[a], jaccard))
    return found


def find_leaks(train: Iterable[Row], heldout: Iterable[Row], params: ClusterParams | None = None) -> list[Leak]:
    """Find every training row whose problem stands among the held-out rows.

    Args:
        train: rows with their ids, in any order; many rows may have one problem.
        heldout: likewise.
        params: as for clustering; the bound on the largest cluster does not apply here.

    Returns:
        Leaks sorted by train id, kind and value. A training row is told once for each kind and value, against the
        least held-out id that has it (for near wordings: the nearest one), so the list grows with the training rows and
        not with the pairs. Of the kinds of wording, only the strictest is told of two rows.
    """
    used = params or ClusterParams()
    left, right = _read(train), _read(heldout)
    unbounded = msgspec.structs.replace(used, largest_share=1.0)
    clusters = cluster(KeyTable.concat([left.table, right.table]), unbounded)
    least: dict[tuple[str, str], str] = {}
    cluster_of = dict(clusters.assignments())

    def note(kind: str, value: str, row_id: str) -> None:
        known = least.get((kind, value))
        least[kind, value] = row_id if known is None else min(known, row_id)

    for row_id, keys, golds in zip(right.ids, right.keys, right.golds, strict=True):
        for kind, value in _values(keys, golds, used):
            note(kind, value, row_id)
        if keys.known:
            note(CHAIN, cluster_of[keys.problem], row_id)
    near = _near_tokens(clusters)
    leaks: list[Leak] = []
    for row_id, keys, golds in zip(left.ids, left.keys, left.golds, strict=True):
        leaks += _of_row(
            row_id,
            _matches(keys, golds, used, least, near),
            least.get((CHAIN, cluster_of[keys.problem])),
            cluster_of[keys.problem],
        )
    return sorted(set(leaks), key=lambda leak: (leak.train_id, leak.kind, leak.value, leak.heldout_id))


def _matches(
    keys: ProblemKeys,
    golds: tuple[str, ...],
    params: ClusterParams,
    least: dict[tuple[str, str], str],
    near: dict[str, list[tuple[str, float]]],
) -> Iterator[tuple[EdgeKind, str, str]]:
    """Kind, value and held-out id of what one training row shares directly, wordings from the strictest on."""
    for kind, value in _values(keys, golds, params):
        if (kind, value) in least:
            yield kind, value, least[kind, value]
    held = [
        (-jaccard, least[EdgeKind.TOKENS, tokens])
        for tokens, jaccard in near.get(keys.tokens, ())
        if (EdgeKind.TOKENS, tokens) in least
    ]
    if held:
        jaccard, row_id = min(held)
        yield EdgeKind.WORDING, f"{-jaccard:.4f}", row_id


def _of_row(
    row_id: str, matches: Iterable[tuple[EdgeKind, str, str]], chained: str | None, cluster_id: str
) -> list[Leak]:
    leaks: list[Leak] = []
    worded: set[str] = set()
    for kind, value, heldout_id in matches:
        if kind in _WORDINGS:
            if heldout_id in worded:
                continue
            worded.add(heldout_id)
        leaks.append(Leak(kind=kind.value, train_id=row_id, heldout_id=heldout_id, value=value))
    if not leaks and chained is not None:
        leaks.append(Leak(kind=CHAIN, train_id=row_id, heldout_id=chained, value=cluster_id))
    return leaks
