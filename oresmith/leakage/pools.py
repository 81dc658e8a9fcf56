"""Which pool each problem belongs to: decided for whole clusters, once, and for ever.

What an earlier release decided holds. A new cluster follows the wishes of its problems, else a seeded hash of its id,
within its category. Where problems of two pools turn out to be one, nobody moves: the new ones are quarantined.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from oresmith.errors import OresmithError, ParameterError
from oresmith.leakage.clusters import ClusterParams
from oresmith.leakage.keys import ProblemKeys
from oresmith.leakage.ledger import (
    BENCHMARK,
    DATE,
    DEV,
    HELDOUT,
    QUARANTINE,
    TRAIN,
    VAULT,
    Decided,
    LedgerLine,
    earlier_lines,
    place_of,
    states_enough,
)
from oresmith.leakage.table import I64, KeyTable
from oresmith.leakage.vault import Vault
from oresmith.records import Record

NO_GOLD = "no_gold"
_WISH = re.compile(r"train|dev|heldout|benchmark:[A-Za-z0-9._-]{1,80}")


class PoolParams(Record, frozen=True):
    """Sizes of the pools, as shares of the new clusters of each category; what is left is train."""

    heldout_share: float = 0.1
    dev_share: float = 0.05
    held_out: str | None = None
    """Date (YYYY-MM-DD) of the held-out pool that this release fills; with None no cluster is drawn for one."""
    seed: str = "oresmith"
    require_gold: bool = True
    """Quarantine new clusters of which no problem states a gold product: nobody can say what they leak. Nothing is
    recorded of these, so that they can be assigned once their reward is known."""


class Fact(Record, frozen=True):
    """What a source says of a problem."""

    category: str | None = None
    wishes: tuple[str, ...] = ()
    """Of "train", "dev", "heldout" and "benchmark:<name>"; honoured when the cluster is first seen."""


class Assignment(Record, frozen=True):
    """The pool of one problem."""

    problem: str
    cluster: str
    """The cluster that it was assigned with: where clusters merged since, the older one's id is `component`."""
    component: str
    """The cluster that it stands in now."""
    pool: str
    """train, dev, heldout, quarantine or benchmark:<name>; of several benchmarks all names, joined by "+"."""
    held_out: str | None = None
    joined: tuple[str, ...] = ()
    """Why a problem is quarantined: the pools that it would join (a held-out one with its date, "heldout@..."), "vault"
    where that forbids it, "no_gold" where nothing else is known."""
    new: bool = False
    """Assigned by this release."""
    benchmarks: tuple[str, ...] = ()
    """Names of the benchmarks that the problem's cluster belongs to, now or by the ledger."""
    vault: bool = False
    """The problem's cluster matches the vault: whatever its pool, nothing may use it."""


class Split(NamedTuple):
    """All assignments in the order of the clusters' table, and the ledger lines that this release adds."""

    assignments: list[Assignment]
    lines: list[LedgerLine]


class Grouping(Protocol):
    """What an assignment needs of `clusters.Clusters`."""

    @property
    def params(self) -> ClusterParams:
        """Which keys join."""

    @property
    def table(self) -> KeyTable:
        """Keys of the problems, in stable order."""

    @property
    def label(self) -> I64:
        """Row of the first problem of each row's cluster."""

    @property
    def aliases(self) -> dict[str, str]:
        """Former cluster id -> the id it goes by now."""


class _Cluster(NamedTuple):
    cluster_id: str
    aliases: tuple[str, ...]
    members: list[ProblemKeys]
    category: str | None
    wishes: frozenset[str]
    places: set[str]
    fresh: list[ProblemKeys]


def assign(
    clusters: Grouping,
    facts: Mapping[str, Fact],
    ledger: Iterable[LedgerLine],
    release: str,
    *,
    params: PoolParams | None = None,
    vault: Vault | None = None,
) -> Split:
    """Assign every problem of the clusters to a pool.

    Args:
        clusters: of all snapshots, each extending the one before, so that ids are stable.
        facts: by problem name; a problem without one has no category and no wish.
        ledger: checked lines (`read_ledger`); those of `release` and later ones are not looked at.
        release: the release at hand, X.Y.Z.
        params: sizes, seed and the date of the held-out pool.
        vault: problems that nothing is assigned to.

    Returns:
        One assignment a problem. A problem that the ledger knows keeps its pool. A new problem of a known cluster
        inherits that cluster's; where its cluster reaches two pools (a benchmark is one, too) or the vault, it is
        quarantined, and what it reached is recorded. A benchmark's own cluster is a pool of its kind and never train:
        whether its rows may be used all the same is for `trainable`.

    Errors: ParameterError for impossible sizes or dates, OresmithError for an unknown wish, and for a wish to be held
    out while no held-out pool is open.
    """
    used = params or PoolParams()
    _check(used)
    known = Decided(earlier_lines(ledger, release), clusters.params)
    groups = list(_clusters(clusters, facts, known))
    drawn = _draw(groups, used)
    lines: list[LedgerLine] = []
    found: dict[str, Assignment] = {}
    for group in groups:
        forbidden = vault is not None and any(
            vault.holds(keys, states_enough(keys, clusters.params)) for keys in group.members
        )
        pool, held_out, joined = _decide(group, drawn, used, forbidden)
        names = _benchmarks(group)
        fresh = {keys.problem for keys in group.fresh}
        for keys in group.members:
            line = known.of_problem.get(keys.problem)
            found[keys.problem] = Assignment(
                problem=keys.problem,
                cluster=line.cluster if line else group.cluster_id,
                component=group.cluster_id,
                pool=line.pool if line else pool,
                held_out=line.held_out if line else held_out,
                joined=line.joined if line else joined,
                new=keys.problem in fresh,
                benchmarks=names,
                vault=forbidden,
            )
        if group.fresh and joined != (NO_GOLD,):
            lines.append(
                LedgerLine(
                    release=release,
                    cluster=group.cluster_id,
                    pool=pool,
                    held_out=held_out,
                    category=group.category,
                    problems=tuple(sorted(group.fresh, key=lambda keys: keys.problem)),
                    joined=joined,
                    aliases=group.aliases,
                )
            )
    lines.sort(key=lambda line: line.cluster)
    return Split([found[name] for name in clusters.table.names()], lines)


def trainable(assignment: Assignment, allow_benchmark: Iterable[str] = ()) -> bool:
    """Whether rows of the problem may stand in the training data: of pool train or of a benchmark, and every benchmark
    that the cluster belongs to allowed by name. A row that is trainable and has `benchmarks` must carry the flag."""
    allowed = set(allow_benchmark)
    kind = assignment.pool == TRAIN or _is_benchmark(assignment.pool)
    return kind and not assignment.vault and allowed.issuperset(assignment.benchmarks)


def pool_counts(split: Split) -> dict[str, int]:
    """Problems by pool, held-out ones by date ("heldout@2026-05-01"); a pool that is empty is not there."""
    counts = Counter(place_of(one.pool, one.held_out) for one in split.assignments)
    return dict(sorted(counts.items()))


def _check(params: PoolParams) -> None:
    shares = {"heldout_share": params.heldout_share, "dev_share": params.dev_share}
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise ParameterError("not a share", where=f"split.{name}", expected="0 to 1", got=str(share))
    if params.held_out is not None and DATE.fullmatch(params.held_out) is None:
        raise ParameterError("not a date", where="split.held_out", expected="YYYY-MM-DD", got=params.held_out[:80])
    if sum(shares.values()) >= 1:
        raise ParameterError(
            "the pools leave nothing to train on", where="split", expected="shares that add up to less than 1"
        )


def _clusters(clusters: Grouping, facts: Mapping[str, Fact], known: Decided) -> Iterator[_Cluster]:
    members: dict[int, list[ProblemKeys]] = defaultdict(list)
    for first, keys in zip(clusters.label.tolist(), clusters.table.rows(), strict=True):
        members[first].append(keys)
    aliases: dict[str, list[str]] = defaultdict(list)
    for alias, cluster_id in clusters.aliases.items():
        aliases[cluster_id].append(alias)
    for group in members.values():
        cluster_id = group[0].problem
        names = tuple(sorted(aliases.get(cluster_id, ())))
        told = [facts[keys.problem] for keys in group if keys.problem in facts]
        _check_wishes(cluster_id, told)
        yield _Cluster(
            cluster_id=cluster_id,
            aliases=names,
            members=group,
            category=next((fact.category.lower() for fact in told if fact.category), None),
            wishes=frozenset(wish for fact in told for wish in fact.wishes),
            places=known.places((cluster_id, *names), group),
            fresh=[keys for keys in group if keys.problem not in known.of_problem],
        )


def _check_wishes(cluster_id: str, told: list[Fact]) -> None:
    for wish in (wish for fact in told for wish in fact.wishes):
        if _WISH.fullmatch(wish) is None:
            raise OresmithError(
                "a problem wishes for a pool that there is not",
                where=cluster_id,
                expected=f"{TRAIN}, {DEV}, {HELDOUT} or {BENCHMARK}<name> (letters, digits, '.', '_', '-')",
                got=wish[:80],
            )


def _benchmarks(group: _Cluster) -> tuple[str, ...]:
    """Names of the benchmarks of a cluster, by wish or by the ledger."""
    named = group.wishes | group.places
    return tuple(sorted({name for pool in named if _is_benchmark(pool) for name in pool[len(BENCHMARK) :].split("+")}))


def _draw(groups: list[_Cluster], params: PoolParams) -> dict[str, str]:
    """Pool of each cluster that nothing else decides: by the rank of its hash within its category."""
    strata: dict[str, list[tuple[bytes, str]]] = defaultdict(list)
    for group in groups:
        stated = not params.require_gold or any(keys.gold for keys in group.members)
        if stated and group.fresh and not group.places and not group.wishes:
            category = group.category or ""
            text = f"{params.seed}\0{category}\0{group.cluster_id}"
            strata[category].append((hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), group.cluster_id))
    drawn: dict[str, str] = {}
    for ranked in strata.values():
        ranked.sort()
        heldout = round(len(ranked) * params.heldout_share) if params.held_out else 0
        dev = round(len(ranked) * params.dev_share)
        for rank, (_, cluster_id) in enumerate(ranked):
            drawn[cluster_id] = HELDOUT if rank < heldout else DEV if rank < heldout + dev else TRAIN
    return drawn


def _decide(
    group: _Cluster, drawn: Mapping[str, str], params: PoolParams, forbidden: bool
) -> tuple[str, str | None, tuple[str, ...]]:
    """Pool and date of a cluster's new problems, and the pools that they would have joined."""
    reached, names = set(group.places), _benchmarks(group)
    if any(map(_is_benchmark, group.wishes)) and not any(map(_is_benchmark, reached)):
        reached.add(BENCHMARK + "+".join(names))
    if forbidden:
        reached.add(VAULT)
    if len(reached) > 1 or VAULT in reached:
        return QUARANTINE, None, tuple(sorted(reached - {QUARANTINE}))
    if reached:
        pool, _, date = reached.pop().partition("@")
        return pool, date or None, ()
    pool = _wished(group, params) or drawn.get(group.cluster_id, TRAIN)
    if params.require_gold and pool != HELDOUT and not any(keys.gold for keys in group.members):
        return QUARANTINE, None, (NO_GOLD,)
    return pool, params.held_out if pool == HELDOUT else None, ()


def _is_benchmark(place: str) -> bool:
    return place.startswith(BENCHMARK)


def _wished(group: _Cluster, params: PoolParams) -> str | None:
    """The pool that a new cluster's problems wish for; whoever was held out by anyone stays unseen."""
    pool = next((pool for pool in (HELDOUT, DEV, TRAIN) if pool in group.wishes), None)
    if pool == HELDOUT and params.held_out is None:
        raise OresmithError(
            "a problem wishes to be held out, but no held-out pool is open",
            where=group.cluster_id,
            todo="give the date of this release's pool in split.held_out",
        )
    return pool
