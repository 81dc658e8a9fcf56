"""Which guarded gold products a dialogue touches, in whatever shape its calls name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from oresmith.evidence.structure import RECOMMEND, VIEW
from oresmith.leakage.keys import problem_keys
from oresmith.records import Problem, Trajectory

MAX_IDS = 1000
"""Ids read from one call; the arena's tools take ten."""
_LONGEST_KEPT = 64
"""Characters; a hostile id of megabytes must not stay in the cache."""


class Touched(NamedTuple):
    """What a trajectory does with guarded gold products."""

    recommends: list[str]
    """Keys of those that any of its calls recommends, sorted."""
    views_since: int | None
    """The earliest place in time at which a product that it views was guarded; None where it views none."""


def gold_key(product_id: str | int | float) -> str:
    """The key of a gold product id, as the keys of its problem hold it; "" for what can be no id."""
    keys = problem_keys(Problem(reward={"product_id": product_id})).gold
    return keys[0] if keys else ""


_cached_key = lru_cache(maxsize=1 << 16)(gold_key)


def touched(trajectory: Trajectory, golds: Mapping[str, int]) -> Touched:
    """Find the guarded products in the calls of a trajectory.

    Args:
        trajectory: any.
        golds: `problems.guarded_golds`.
    """
    if not golds:
        return Touched([], None)
    recommends = {key for key in _keys(trajectory, RECOMMEND) if key in golds}
    return Touched(
        sorted(recommends), min((golds[key] for key in _keys(trajectory, VIEW) if key in golds), default=None)
    )


def _keys(trajectory: Trajectory, tool: str) -> Iterator[str]:
    for message in trajectory.messages:
        for call in message.tool_calls:
            if call.name == tool:
                for product_id in _ids(call.arguments):
                    short = not isinstance(product_id, str) or len(product_id) <= _LONGEST_KEPT
                    yield _cached_key(product_id) if short else gold_key(product_id)


def _ids(arguments: str) -> list[str | int | float]:
    """The ids of one call: text with commas, a list, or a single number. Never raises."""
    try:
        value: Any = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return []
    ids = value.get("product_ids") if isinstance(value, dict) else None
    parts = ids.split(",", MAX_IDS) if isinstance(ids, str) else ids if isinstance(ids, list) else [ids]
    return [part for part in parts[:MAX_IDS] if isinstance(part, str | int | float) and not isinstance(part, bool)]
