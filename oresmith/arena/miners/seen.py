"""What a policy has seen of the shop: listings and details from its own calls' results, and how they fit a wish."""

from __future__ import annotations

from typing import Any, NamedTuple

from oresmith.arena.miners.brief import Wish
from oresmith.arena.miners.policy import Call, Results
from oresmith.arena.miners.wording import value_words, words_of

Listing = dict[str, Any]


_BESIDE = frozenset("inspired alternative replacement guard spare compatible like similar dupe".split())
"""Words of titles that sell something beside the thing that they name."""


class Point(NamedTuple):
    """One thing that a wish asks for."""

    kind: str
    """pair, price or service."""
    key: str
    value: str


class Verdict(NamedTuple):
    """How a product fits the points of a wish that one minds."""

    met: list[Point]
    missed: list[Point]
    open: list[Point]
    """Cannot be told before the details are seen."""

    @property
    def whole(self) -> bool:
        """Everything is known and met."""
        return not self.missed and not self.open

    @property
    def share(self) -> float:
        """Met points over all; what is open counts half."""
        total = len(self.met) + len(self.missed) + len(self.open)
        return (len(self.met) + len(self.open) / 2) / total if total else 1.0


def points(wish: Wish) -> list[Point]:
    """Everything a wish asks for, in its order: pairs, price, services."""
    found = [Point("pair", key, value) for key, value in wish.pairs]
    if wish.prices:
        found.append(Point("price", "price", price_range(*wish.bounds)))
    return found + [Point("service", "service", service) for service in wish.services]


def price_range(low: float | None, high: float | None) -> str:
    """The price filter of the search tool, "low-high" with open sides."""
    return f"{plain(low)}-{plain(high)}"


def plain(amount: float | None) -> str:
    """An amount without exponent and without needless decimals; "" for None."""
    if amount is None:
        return ""
    return str(int(amount)) if amount == int(amount) else f"{amount:.2f}".rstrip("0")


class Seen:
    """Everything the results showed, by product id."""

    def __init__(self) -> None:
        self.listings: dict[str, Listing] = {}
        self.details: dict[str, dict[str, Any]] = {}
        self.words: dict[str, frozenset[str]] = {}

    def take(self, calls: list[Call], results: Results) -> None:
        """Remember the results of searches and views; "Error: .." and anything else of another shape is passed over."""
        for (name, _), result in zip(calls, results, strict=False):
            kept = self.listings if name == "find_product" else self.details if name.startswith("view") else None
            if kept is None or not isinstance(result, list):
                continue
            for product in result:
                product_id = product["product_id"]
                kept[product_id] = product
                if name == "find_product" and product_id not in self.words:
                    self.words[product_id] = frozenset(words_of(product["title"]))

    def verdict(self, product_id: str, wish: Wish, minded: frozenset[Point] | None = None) -> Verdict:
        """Judge a listed product by what was seen of it.

        Args:
            product_id: of a listing.
            wish: what is asked for.
            minded: the points that count; all where None.
        """
        listing, details = self.listings[product_id], self.details.get(product_id)
        verdict = Verdict([], [], [])
        held = _held(wish, details) if details is not None else None
        for point in points(wish):
            if minded is not None and point not in minded:
                continue
            if point.kind == "pair":
                good = None if held is None else (point.key, point.value) in held
            elif point.kind == "service":
                good = point.value in listing["service"]
            else:
                low, high = wish.bounds
                price = listing["price"]
                good = (low is None or price >= low) and (high is None or price <= high)
            (verdict.open if good is None else verdict.met if good else verdict.missed).append(point)
        return verdict

    def appeal(self, product_id: str, words: list[str], wish: Wish) -> float:
        """How promising a listing looks by its title: the share of the words asked for, and of the values."""
        title, text = self.words[product_id], self.listings[product_id]["title"].lower()
        values = [value.lower() for _, value in wish.pairs]
        share = sum(word in title for word in words) / max(len(words), 1)
        if values:
            share += 0.5 * sum(word in title for word in value_words(wish)) / max(len(value_words(wish)), 1)
            share += 0.5 * sum(value in text for value in values) / len(values)
        return share - 0.4 * (not title.isdisjoint(_BESIDE.difference(words)))


def _held(wish: Wish, details: dict[str, Any]) -> set[tuple[str, str]]:
    """The pairs of the wish that a product has, by its best SKU together with its attributes."""
    attributes = details.get("attributes") or {}
    own = {pair for pair in wish.pairs if pair[1] in attributes.get(pair[0], ())}
    best = own
    for sku in (details.get("sku_options") or {}).values():
        held = own | {pair for pair in wish.pairs if sku.get(pair[0]) == pair[1]}
        best = held if len(held) > len(best) else best
    return best
