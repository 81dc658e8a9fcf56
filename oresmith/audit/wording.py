"""Whether a row is about the problem that it is filed under: by the keys of its own query, and of its reward."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import lru_cache

import orjson

from oresmith.audit.claims import SIDES, guarded_places, key_values
from oresmith.audit.keys_table import Catalog, KeysRow
from oresmith.audit.rows import ShardRow
from oresmith.errors import OresmithError
from oresmith.leakage import ClusterParams, LedgerLine, ProblemKeys, problem_keys
from oresmith.leakage.ledger import DEV
from oresmith.records import Problem

_KINDS = ("query", "base", "tokens")
_WHOLE = ("grpo", "heldout_gold")
"""Configs whose rows hold the whole problem."""
_LONGEST_KEPT = 10_000


class Wordings:
    """Derives the keys of each row from its own columns.

    A trace can be filed under another problem's id (`other` counts those). That is no leak, unless what it really asks
    is guarded; only its wording can tell, since a trace holds no reward.

    Args:
        known: the ledger, by problem.
        lines: the ledger.
        params: which specifications are keys.
        allowed: benchmarks that may be trained on.
    """

    def __init__(
        self, known: Catalog, lines: Iterable[LedgerLine], params: ClusterParams, allowed: Collection[str]
    ) -> None:
        self.other = 0
        self._known = known
        self._guarded: dict[tuple[str, str], set[str]] = defaultdict(set)
        for line in lines:
            for place in guarded_places(line, allowed):
                for keys in line.problems:
                    for kind, key in key_values(keys, line.cluster, params):
                        if kind in _KINDS:
                            self._guarded[kind, key].add(place)

    def visit(self, row: ShardRow, keys: KeysRow) -> None:
        """See a row.

        Raises:
            OresmithError: a problem whose keys are not those of its row, or a row for training or choosing settings
                whose wording is that of a guarded problem.
        """
        query, config = row.values.get("query"), row.shard.config
        if not keys.problem or not isinstance(query, str):
            return
        where, known = f"{row.shard.path}: row {row.number}", self._known[keys.problem].keys
        if config in _WHOLE:
            derived = _whole(row)
            if derived.problem != known.problem:
                raise OresmithError(
                    "a row's query and reward are another problem than its keys say",
                    where=where,
                    expected=known.problem,
                    got=derived.problem,
                )
            return
        derived = _keys_of(query) if len(query) <= _LONGEST_KEPT else problem_keys(Problem(query=query))
        if derived.query == known.query:
            return
        self.other += 1
        side = SIDES.get(row.shard.split)
        for kind in _KINDS if side else ():
            for place in sorted(self._guarded.get((kind, getattr(derived, kind)), ())):
                if not (side == DEV and not place.startswith("heldout")):
                    raise OresmithError(
                        f"a row of {side} asks what a problem of {place} asks, whatever it is filed under",
                        where=where,
                        got=f"{kind} {getattr(derived, kind)}",
                        todo="the source filed this trace under another problem: take it out of the snapshot",
                    )


@lru_cache(maxsize=1 << 14)
def _keys_of(query: str) -> ProblemKeys:
    return problem_keys(Problem(query=query))


def _whole(row: ShardRow) -> ProblemKeys:
    values = row.values
    try:
        reward, voucher = (
            None if values.get(name) is None else orjson.loads(values[name]) for name in ("reward", "voucher")
        )
    except orjson.JSONDecodeError as error:
        where = f"{row.shard.path}: row {row.number}"
        raise OresmithError("a row's reward or voucher is no JSON", where=where, got=str(error)[:80]) from error
    return problem_keys(
        Problem(problem_id=values.get("problem_id"), query=values["query"], reward=reward, voucher=voucher)
    )
