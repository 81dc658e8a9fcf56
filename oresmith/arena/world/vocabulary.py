"""The words of the embedded world: categories with attribute keys, option keys, prices and sellers' phrases.

The files in `vocabulary/` are invented for this world. A department's file holds its categories; lists of words are
written as one string with `|` between them.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import msgspec

from oresmith.errors import OresmithError

FOLDER = Path(__file__).with_name("vocabulary")
PRICE_STEPS = 64
_SHARED = 3
"""Values that two keys must have in common before a shopper can mistake the one for the other."""

Words = tuple[str, ...]


class _RawCategory(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    price: float
    spread: float
    nouns: str
    spare: str
    words: str
    attributes: dict[str, str]
    options: dict[str, str]


class _Department(msgspec.Struct, forbid_unknown_fields=True):
    department: str
    audience: str
    categories: list[_RawCategory]


class Category(NamedTuple):
    """One category of the world."""

    number: int
    """Place among all categories; departments in the order of their files' names."""
    department: int
    path: str
    """As in a document: "Department > Group > Category"."""
    nouns: Words
    """What sellers call the thing, in title case."""
    spare: Words
    """Parts and accessories sold for it."""
    words: Words
    """What sellers promise; none of them is a value of an attribute of this category."""
    audience: Words
    attributes: tuple[tuple[str, Words], ...]
    """Keys with their values, lower case."""
    options: tuple[tuple[str, Words], ...]
    """Keys of SKU options with their values."""
    lookalikes: tuple[tuple[str, str, Words], ...]
    """Pairs of attribute keys that share values, with those values: what a search by words cannot tell apart."""
    prices: tuple[float, ...]
    """Quantiles of a log-normal price in PHP, evenly spaced in probability."""


@cache
def categories() -> tuple[Category, ...]:
    """Read all categories, once.

    Raises:
        OresmithError: a file of the vocabulary is missing or damaged, which means a damaged installation.
    """
    found: list[Category] = []
    files = sorted(FOLDER.glob("*.json"))
    for department, path in enumerate(files):
        try:
            raw = msgspec.json.decode(path.read_bytes(), type=_Department)
        except (OSError, msgspec.MsgspecError) as error:
            raise _damaged(path.name, str(error)[:200]) from error
        audience = _split(raw.audience)
        found += [
            _category(number, department, f"{raw.department} > {category.path}", category, audience)
            for number, category in enumerate(raw.categories, len(found))
        ]
    if not found:
        raise _damaged(FOLDER.name, "no file")
    return tuple(found)


def _category(number: int, department: int, path: str, raw: _RawCategory, audience: Words) -> Category:
    attributes = tuple((key, _split(values)) for key, values in raw.attributes.items())
    pairs = (
        (one, other, tuple(value for value in values if value in others))
        for (one, values), (other, others) in combinations(attributes, 2)
    )
    normal = NormalDist()
    return Category(
        number=number,
        department=department,
        path=path,
        nouns=_split(raw.nouns),
        spare=_split(raw.spare),
        words=_split(raw.words),
        audience=audience,
        attributes=attributes,
        options=tuple((key, _split(values)) for key, values in raw.options.items()),
        lookalikes=tuple((one, other, shared) for one, other, shared in pairs if len(shared) >= _SHARED),
        prices=tuple(
            raw.price * math.exp(raw.spread * normal.inv_cdf((step + 0.5) / PRICE_STEPS)) for step in range(PRICE_STEPS)
        ),
    )


def _damaged(where: str, got: str) -> OresmithError:
    return OresmithError(
        "a vocabulary of the embedded world cannot be read", where=where, got=got, todo="install oresmith again"
    )


def _split(text: str) -> Words:
    return tuple(text.split("|"))
