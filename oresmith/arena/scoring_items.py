"""What the scorer finds in one recommended product, and what a voucher makes of a total.

The functions read problems and products as if they were well formed. Where one is not, they raise what Python raises,
and `score` turns that into ScoreError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from oresmith.arena.catalogue import Product
from oresmith.arena.scoring_steps import ScoreError

TitleSimilarity = Callable[[str, str], float]
"""Similarity of a product's title and a reward's title, at most 1."""


class Tally(NamedTuple):
    """How many of a reward's constraints of one kind a product meets."""

    hits: int
    total: int

    @property
    def share(self) -> float:
        """hits / total; 0 where nothing is stated."""
        return self.hits / self.total if self.total else 0.0


class Item(NamedTuple):
    """The verdict on one recommended product."""

    gold: bool
    rule: float
    fields: dict[str, float]
    """Share of met constraints by field: title, price, service, "sku & attrs"; 0 for one that does not count."""
    stated: tuple[str, ...]
    """The fields that count, in that order."""


class TitleRule(NamedTuple):
    """How the title of a product that is not the gold one is judged; without a rule it counts neither for nor against.

    A threshold belongs to its model: SN15 has 0.7 and ShoppingBench 0.5, each for a model of its own.
    """

    model: str
    """As it stands in the scorer's name."""
    threshold: float
    """Least similarity that counts as met."""
    similarity: TitleSimilarity


def judge_item(product: Product, reward: dict[str, Any], titles: TitleRule | None = None) -> Item:
    """Compare a product with a reward: rule 1 for the gold id, else met / stated constraints, 0 if none is stated.

    The fields of a gold product are judged like any other's, except the title.
    """
    gold = product.product_id == reward["product_id"]
    tallies = {
        "title": _title(product, reward, gold, titles),
        "price": _price(product, reward),
        "service": _service(product, reward),
        "sku & attrs": _variant(product, reward),
    }
    hits, totals = zip(*tallies.values(), strict=True)
    rule = 1.0 if gold else Tally(sum(hits), sum(totals)).share
    shares = {field: tally.share for field, tally in tallies.items()}
    return Item(gold, rule, shares, tuple(field for field, tally in tallies.items() if tally.total))


def total_price(products: list[Product]) -> float:
    """Return the sum of the prices, added up one by one: `sum` rounds otherwise from Python 3.12 on."""
    total = 0.0
    for product in products:
        total += stated(product.price, "price")
    return total


def shop_count(products: list[Product]) -> int:
    """Return from how many shops the products come."""
    return len({stated(product.shop_id, "shop_id") for product in products})


def within_budget(voucher: dict[str, Any], total: float, shops: int) -> bool:
    """Tell whether the total fits the budget, as it is or after the voucher; bounds are inclusive.

    The voucher applies if it is a platform's, or a shop's and all comes from one shop, and the total reaches its
    threshold.
    """
    if total <= voucher["budget"]:
        return True
    kind = voucher["voucher_type"]
    applies = kind == "platform" or (kind == "shop" and shops == 1)
    return bool(applies and total >= voucher["threshold"] and _discounted(voucher, total) <= voucher["budget"])


def stated(value: Any, field: str) -> Any:
    """Return a product's value; ScoreError where its document lacks the field."""
    if value is msgspec.UNSET:
        raise ScoreError("a recommended product's document lacks a field", where=field)
    return value


def _title(product: Product, reward: dict[str, Any], gold: bool, titles: TitleRule | None) -> Tally:
    """Every title of the gold product counts as met; another's by similarity, where one can be computed."""
    if "title" not in reward:
        return Tally(0, 0)
    if gold:
        return Tally(len(reward["title"]), len(reward["title"]))
    if titles is None:
        return Tally(0, 0)
    title = stated(product.title, "title")
    return _tally([titles.similarity(title, wanted) >= titles.threshold for wanted in reward["title"]])


def _price(product: Product, reward: dict[str, Any]) -> Tally:
    """Each range is a constraint; its bounds are inclusive."""
    if "price" not in reward:
        return Tally(0, 0)
    price = stated(product.price, "price")
    ranges = [entry for price_range in reward["price"] for entry in price_range.items()]
    return _tally([_in_range(price, mode, low, high) for mode, (low, high) in ranges])


def _in_range(price: Any, mode: str, low: Any, high: Any) -> bool:
    if mode == "less than":
        return bool(price <= high)
    if mode == "greater than":
        return bool(price >= low)
    return bool(mode == "between" and low <= price <= high)


def _service(product: Product, reward: dict[str, Any]) -> Tally:
    """Each service asked for is a constraint."""
    return _tally([service in stated(product.service, "service") for service in reward.get("service", ())])


def _variant(product: Product, reward: dict[str, Any]) -> Tally:
    """Each pair of key and value is a constraint, met in the best single SKU or in the attributes."""
    wanted = [pair for options in reward.get("sku_options", ()) for pair in options.items()]
    wanted += _attribute_pairs(reward.get("attributes", ()))
    attributes = set(_attribute_pairs([product.attributes] if product.attributes else []))
    skus = [set(sku.items()) for sku in product.sku_options.values()] if product.sku_options else []
    hits = [sum(pair in sku or pair in attributes for pair in wanted) for sku in [set(), *skus]]
    return Tally(max(hits), len(wanted))


def _attribute_pairs(attributes: Any) -> list[tuple[Any, Any]]:
    return [(key, value) for attribute in attributes for key, values in attribute.items() for value in values]


def _discounted(voucher: dict[str, Any], total: float) -> float:
    """Take off the face value, or the percentage but no more than the cap."""
    if voucher["discount_type"] == "fixed":
        return float(total - voucher["face_value"])
    if voucher["discount_type"] == "percentage":
        return float(max(total * (1 - voucher["discount"]), total - voucher["cap"]))
    raise ScoreError("unknown discount type of the problem's voucher", expected="fixed or percentage")


def _tally(verdicts: list[bool]) -> Tally:
    return Tally(sum(verdicts), len(verdicts))
