"""What a call of `find_product` asks for, read from values of any type: nothing here raises.

A parameter that is not text counts as the text that HTTP would have carried (1 as "1"); what HTTP carries in no one way
(lists, objects, null) counts as absent. Half surrogates, which UTF-8 cannot hold, read as "?". What is malformed is
passed over, as ShoppingBench's own server does: a price that is no "low-high", an unknown sort and an unknown service
filter nothing. A page that is not 1 to 5 gives nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from oresmith.arena.documents import SERVICES

PAGES = 5
PAGE_SIZE = 10
KEPT = PAGES * PAGE_SIZE
"""Hits that are left after the filters; sorting and paging see these alone."""
SORTS = ("priceasc", "pricedesc", "order")
"""Any other sort is by relevance; `order` is the number sold, most first."""

QUERY_CHARACTERS = 4096
"""Of a query; what follows is not read."""
_SHORT = 1024
"""Characters of any other parameter; a longer one is malformed."""


@dataclass(frozen=True)
class Wanted:
    """The filters of one call; a product must pass all of them."""

    shop_id: str | None = None
    low: float | None = None
    high: float | None = None
    """Price bounds, both inclusive."""
    services: tuple[str, ...] = ()
    """All must be offered; in the order of `SERVICES`."""

    def __bool__(self) -> bool:
        """Whether anything is filtered."""
        return self != _ANYTHING

    @classmethod
    def read(cls, shop_id: Any, price: Any, service: Any) -> Wanted:
        """The filters as the parameters give them."""
        low, high = _bounds(plain(price))
        offered = plain(service).split(",")
        return cls(plain(shop_id) or None, low, high, tuple(name for name in SERVICES if name in offered))


_ANYTHING = Wanted()


def plain(value: Any, most: int = _SHORT) -> str:
    """A parameter as text that UTF-8 can hold; "" where it is absent, and where it is longer than `most` characters."""
    if isinstance(value, bool | float) or (isinstance(value, int) and value.bit_length() < 64):
        value = str(value)
    if not isinstance(value, str) or len(value) > most:
        return ""
    return value.encode("utf-8", "replace").decode("utf-8")


def query_text(value: Any) -> str:
    """The text of a query, cut at `QUERY_CHARACTERS`.

    Characters of a query syntax need no care here: the analyser takes them for spaces, and nothing parses the text.
    """
    return plain(value[:QUERY_CHARACTERS] if isinstance(value, str) else value, QUERY_CHARACTERS)


def page_number(value: Any) -> int | None:
    """A page from 1 to `PAGES`; None for everything else, and for a missing one."""
    text = plain(value)
    return int(text) if text.isdecimal() and 1 <= int(text) <= PAGES else None


def _bounds(text: str) -> tuple[float | None, float | None]:
    parts = text.split("-")
    return (_number(parts[0]), _number(parts[1])) if len(parts) == 2 else (None, None)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
