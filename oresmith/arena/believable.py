"""Is a world believable? Its figures beside those of another catalogue with its problems.

Medians are compared: a world passes for believable where each is within a factor of `FACTOR` of the other's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from oresmith.arena.documents import Document, Shop
from oresmith.records import Problem

FACTOR = 2.0
PAGES, NOT_FOUND = 5, 51
"""Pages that a search has, and the rank that stands for a product on none of them."""

REFERENCE: Mapping[str, float] = {
    "title_characters": 87,
    "title_words": 13,
    "attributes": 3,
    "sku_options": 2,
    "price": 231,
    "constraints": 3,
    "gold_rank": 3,
}
"""Medians of the 4,818 products and 750 problems of ORO's public suite form of ShoppingBench (Apache-2.0): real titles,
prices and constraints; attributes and SKU options that no constraint names were filled in there. The ranks are those of
this project's search over those products."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How a figure is spread."""

    count: int
    low: float
    """10% are at most this."""
    median: float
    high: float
    """90% are at most this."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a catalogue, and the problems over it, look like."""

    products: int
    problems: int
    spreads: dict[str, Spread]
    """Of products: `title_characters`, `title_words`, `attributes` (keys), `sku_options`, `price` (PHP). Of the rewards
    of problems: `constraints` (as the strict scorer counts them, without the title), and `gold_rank`: the place of the
    gold product, from 1, among the hits of the whole query without filters, `NOT_FOUND` where it is not among them."""


class Likeness(NamedTuple):
    """One figure of two catalogues."""

    name: str
    ours: float
    theirs: float
    ratio: float
    """Ours by theirs; 1 where both are 0, infinite where only theirs is."""
    believable: bool
    """Within `FACTOR`."""


def believable(documents: Iterable[Document], problems: Iterable[Problem] = (), shop: Shop | None = None) -> Figures:
    """Measure a catalogue and its problems, in one pass and in memory that does not grow with their number.

    Args:
        documents: the products.
        problems: over these products; may be left out.
        shop: a search over these products; without it `gold_rank` is left out.
    """
    seen: dict[str, Counter[float]] = {}
    products = asked = 0
    for document in documents:
        products += 1
        for name, value in _of_product(document):
            seen.setdefault(name, Counter())[value] += 1
    for problem in problems:
        asked += 1
        rewards = [reward for reward in _listed(problem.reward) if isinstance(reward, dict)]
        for reward in rewards:
            seen.setdefault("constraints", Counter())[count_constraints(reward)] += 1
        for rank in _ranks(problem, rewards, shop) if shop is not None else ():
            seen.setdefault("gold_rank", Counter())[rank] += 1
    spreads = {name: _spread(counts) for name, counts in seen.items()}
    return Figures(products=products, problems=asked, spreads=spreads)


def medians(figures: Figures) -> dict[str, float]:
    """The median of every figure."""
    return {name: spread.median for name, spread in figures.spreads.items()}


def compare(ours: Mapping[str, float], theirs: Mapping[str, float] = REFERENCE) -> list[Likeness]:
    """Set medians beside those of another catalogue, figure by figure; what only one of them has is left out."""
    found = []
    for name, reference in theirs.items():
        if name in ours:
            ratio = _ratio(ours[name], reference)
            found.append(Likeness(name, ours[name], reference, ratio, 1 / FACTOR <= ratio <= FACTOR))
    return found


def count_constraints(reward: Mapping[str, Any]) -> int:
    """The constraints of a reward: price ranges, services, pairs of key and value; what is malformed counts none."""
    skus = sum(len(options) for options in _listed(reward.get("sku_options")) if isinstance(options, dict))
    pairs = sum(
        len(_listed(values))
        for attribute in _listed(reward.get("attributes"))
        if isinstance(attribute, dict)
        for values in attribute.values()
    )
    ranges = sum(len(part) for part in _listed(reward.get("price")) if isinstance(part, dict))
    return skus + pairs + ranges + len(_listed(reward.get("service")))


def _of_product(document: Document) -> tuple[tuple[str, float], ...]:
    return (
        ("title_characters", len(document.title)),
        ("title_words", len(document.title.split())),
        ("attributes", len(document.attributes)),
        ("sku_options", len(document.sku_options)),
        ("price", document.price),
    )


def _ranks(problem: Problem, rewards: list[dict[str, Any]], shop: Shop) -> list[int]:
    ids: list[object] = []
    for page in range(1, PAGES + 1):
        ids += [hit["product_id"] for hit in shop.find_product(problem.query or "", page=page)]
    golds = [reward.get("product_id") for reward in rewards]
    return [ids.index(gold) + 1 if gold in ids else NOT_FOUND for gold in golds]


def _listed(value: Any) -> list[Any]:
    """A list as it is, one object as a list of one, everything else as none."""
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def _spread(counts: Counter[float]) -> Spread:
    count = counts.total()
    low, middle, high = (_quantile(counts, place) for place in (0.1 * count, 0.5 * count, 0.9 * count))
    return Spread(count=count, low=low, median=middle, high=high)


def _quantile(counts: Counter[float], place: float) -> float:
    """The least value that `place` of the values do not exceed."""
    seen = 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= place:
            return value
    raise AssertionError("no value at all")


def _ratio(ours: float, theirs: float) -> float:
    if theirs == 0:
        return 1.0 if ours == 0 else float("inf")
    return ours / theirs
