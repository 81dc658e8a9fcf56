"""What a release claims to keep apart: training from held-out problems, guarded benchmarks and dev, by every key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from oresmith.audit.keys_table import Catalog
from oresmith.audit.ledgers import benchmarks_of
from oresmith.errors import OresmithError
from oresmith.leakage import ClusterParams, LedgerLine, ProblemKeys
from oresmith.leakage.ledger import BENCHMARK, DEV, HELDOUT, TRAIN, states_enough

KINDS = ("cluster", "query", "base", "tokens", "gold", "spec")
"""What two sides must not share."""
SIDES = {"train": TRAIN, "dev": DEV, "validation": DEV}
"""Split -> side; the split of a held-out pool is named after it."""


def claims(
    published: Mapping[tuple[str, str], set[str]],
    known: Catalog,
    lines: Iterable[LedgerLine],
    params: ClusterParams,
    allowed: Collection[str],
) -> list[dict[str, Any]]:
    """Every intersection that a release claims to be empty, each checked.

    Args:
        published: (config, split) -> names of the problems of its rows.
        known: what the ledger says of each problem.
        lines: the ledger.
        params: which specifications are keys.
        allowed: benchmarks that may be trained on.

    Returns:
        For train against each held-out pool, each guarded benchmark and dev, for dev against each held-out pool, and
        for each of `KINDS`: how many values either side has, and that they share none.

    Errors: OresmithError for an intersection that is not empty.
    """
    sides: dict[str, set[str]] = {TRAIN: set(), DEV: set()}
    for (_, split), names in published.items():
        if split in SIDES:
            sides[SIDES[split]] |= names
    guarded: dict[str, dict[str, set[str]]] = {}
    for line in lines:
        for place in guarded_places(line, allowed):
            _add(guarded.setdefault(place, {kind: set() for kind in KINDS}), line.problems, line.cluster, params)
    found: list[dict[str, Any]] = []
    for left, names in sides.items():
        keys: dict[str, set[str]] = {kind: set() for kind in KINDS}
        for name in names:
            _add(keys, (known[name].keys,), known[name].cluster, params)
        for right, held in sorted(guarded.items()):
            if left == DEV and not right.startswith(HELDOUT):
                continue
            found += (_claim(left, right, kind, keys[kind], held[kind]) for kind in KINDS)
    return found


def guarded_places(line: LedgerLine, allowed: Collection[str]) -> list[str]:
    """The sets that training must not meet, of which a ledger line's problems are: held-out pools, dev, benchmarks."""
    places = [f"{BENCHMARK}{name}" for name in sorted(benchmarks_of(line)) if name not in allowed]
    return [*places, line.place] if line.pool in (HELDOUT, DEV) else places


def _claim(left: str, right: str, kind: str, keys: set[str], held: set[str]) -> dict[str, Any]:
    shared = keys & held
    if shared:
        raise OresmithError(
            f"{left} and {right} share a problem's {kind}, so nothing can be certified",
            where=f"{kind} {min(shared)}",
            got=f"{len(shared)} in common",
            todo="find the rows of that key in certificate/keys.tsv and the ledger; take the training problem out",
        )
    return {"left": left, "right": right, "by": kind, "left_size": len(keys), "right_size": len(held), "shared": 0}


def key_values(keys: ProblemKeys, cluster: str, params: ClusterParams) -> Iterator[tuple[str, str]]:
    """(kind, value) of everything that two sides must not share, for one problem."""
    yield "cluster", cluster
    spec = keys.spec if states_enough(keys, params) else ""
    for kind, value in (("query", keys.query), ("base", keys.base), ("tokens", keys.tokens), ("spec", spec)):
        if value:
            yield kind, value
    for gold in keys.gold:
        yield "gold", gold


def _add(sets: dict[str, set[str]], problems: Iterable[ProblemKeys], cluster: str, params: ClusterParams) -> None:
    for keys in problems:
        for kind, value in key_values(keys, cluster, params):
            sets[kind].add(value)
