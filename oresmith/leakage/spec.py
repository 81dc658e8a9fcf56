"""What a problem's reward says, read from untrusted JSON: gold ids, gold titles and the canonical specification.

The shapes are those of ShoppingBench and SN15: one object for product, a list for shop and voucher, a whole product
document for web. Whatever has another shape is left out and flagged; nothing is guessed and nothing raises.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

from oresmith.leakage.text import fold, tokens, words

MAX_ITEMS = 1000
"""Items, pairs or values read from one reward; more than that is a malformed reward."""
_FIELD, _PAIR, _SIDE = "\x1d", "\x1e", "\x1f"
# White space to `str.split`, so that no label holds them.


class Spec(NamedTuple):
    """What the rewards of one problem state."""

    gold_ids: tuple[str, ...] = ()
    """Gold product ids, sorted, each once, as text."""
    title_words: frozenset[str] = frozenset()
    """Token set of the gold titles."""
    text: str = ""
    """The canonical specification: equal for equal constraints in any order; "" where none can be read."""
    constraints: int = 0
    """Constraints stated: one for each price range, service, attribute pair and SKU pair."""
    pairs: int = 0
    """How many of them are attribute or SKU pairs."""
    malformed: bool = False
    """Some part has a shape that a reward does not have; `text` is "" then."""


class _MalformedError(Exception):
    """Internal: the part at hand has another shape than a reward's."""


@lru_cache(maxsize=1 << 16)
def _label(text: str) -> str:
    return " ".join(fold(text).split())


def scalar(value: Any) -> str:
    """A JSON scalar as canonical text: 50, 50.0 and "50" are one. Raises `_MalformedError` on anything else."""
    if isinstance(value, str):
        return _label(value) if len(value) <= 256 else " ".join(fold(value).split())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 64 else hex(value)
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)
    raise _MalformedError


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise _MalformedError
    return value


def _entries(value: Any) -> list[tuple[Any, Any]]:
    """The items of a list of objects."""
    found: list[tuple[Any, Any]] = []
    for entry in _as_list(value):
        if not isinstance(entry, dict) or len(entry) > MAX_ITEMS:
            raise _MalformedError
        found.extend(entry.items())
    return found


def _pairs(value: Any) -> set[str]:
    """The (key, value) pairs of `attributes` ([{key: [values]}]) or `sku_options` ([{key: value}])."""
    found: set[str] = set()
    if value is None:
        return found
    for key, wanted in _entries(value):
        name = scalar(key) + _SIDE
        found.update([name + scalar(option) for option in (_as_list(wanted) if isinstance(wanted, list) else [wanted])])
    return found


def _prices(value: Any) -> set[str]:
    """The (low, high) bounds of `price` ([{"between": [low, high]}]); the operator's name adds nothing to them."""
    found: set[str] = set()
    if value is None:
        return found
    for _, bounds in _entries(value):
        if not isinstance(bounds, list) or len(bounds) != 2:
            raise _MalformedError
        found.add(_SIDE.join(["" if bound is None else scalar(bound) for bound in bounds]))
    return found


def _item_spec(item: dict[str, Any]) -> tuple[str, int, int]:
    """The canonical text of one reward item, its constraints and how many of these are pairs."""
    attributes, sku = _pairs(item.get("attributes")), _pairs(item.get("sku_options"))
    prices, services = _prices(item.get("price")), {scalar(service) for service in _as_list(item.get("service"))}
    pairs = len(attributes) + len(sku)
    text = _FIELD.join([_PAIR.join(sorted(part)) for part in (attributes, sku, prices, services)])
    return text, pairs + len(prices) + len(services), pairs


def gold_id(value: Any) -> str:
    """A product id as text, "" for what is none: ids come as text or as numbers."""
    if isinstance(value, bool):
        return ""
    try:
        return scalar(value)
    except _MalformedError:
        return ""


def _title(value: Any) -> str:
    parts = value[:MAX_ITEMS] if isinstance(value, list) else [value]
    return " ".join(part for part in parts if isinstance(part, str))


def read_reward(reward: Any) -> Spec:
    """Read a reward of any JSON shape.

    Returns:
        The ids and title words of every item that is an object, even where others are not; the canonical specification
        only where every part of every item has a reward's shape. A product document (web) states no constraints, so it
        has none.
    """
    items = reward if isinstance(reward, list) else [] if reward is None else [reward]
    objects = [item for item in items[:MAX_ITEMS] if isinstance(item, dict)]
    malformed = len(objects) != len(items)
    ids = {gold_id(item.get("product_id")) for item in objects}
    titles = tokens(words(fold(" ".join([_title(item.get("title")) for item in objects]))))
    try:
        parts = [_item_spec(item) for item in objects]
    except _MalformedError:
        parts, malformed = [], True
    constraints = 0 if malformed else sum([part[1] for part in parts])
    return Spec(
        gold_ids=tuple(sorted(ids - {""})),
        title_words=titles,
        text="\n".join(sorted([part[0] for part in parts])) if constraints else "",
        constraints=constraints,
        pairs=sum([part[2] for part in parts]) if constraints else 0,
        malformed=malformed,
    )
