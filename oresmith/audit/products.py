"""Which products the calls of a trajectory recommend and view, read for leaks: in whatever shape the ids come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from oresmith.leakage.spec import gold_id

RECOMMEND, VIEW = "recommend_product", "view_product_information"
MAX_IDS = 1000
"""Ids read from one call; the arena's tools take ten."""


class Touched(NamedTuple):
    """Products of a trajectory, by canonical id (`spec.gold_id`)."""

    recommended: frozenset[str]
    """By any recommend_product call, the last one or not: a training row shows them all."""
    viewed: frozenset[str]


def touched(calls: Iterable[tuple[str, str]]) -> Touched:
    """Read the calls of a trajectory.

    Args:
        calls: (tool's name, arguments as JSON text) of each call.

    Returns:
        The products. Arguments that are no JSON object, and ids that are neither text nor number, name none; a list of
        ids counts as well as a text with commas, though the arena's scorer takes only the latter.
    """
    found: dict[str, set[str]] = {RECOMMEND: set(), VIEW: set()}
    for name, arguments in calls:
        if name in found:
            found[name].update(_ids(arguments))
    return Touched(frozenset(found[RECOMMEND]), frozenset(found[VIEW]))


def _ids(arguments: str) -> set[str]:
    try:
        value: Any = orjson.loads(arguments)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return set()
    ids = value.get("product_ids") if isinstance(value, dict) else None
    parts = ids.split(",", MAX_IDS) if isinstance(ids, str) else ids if isinstance(ids, list) else [ids]
    return {gold_id(part) for part in parts[:MAX_IDS]} - {""}
