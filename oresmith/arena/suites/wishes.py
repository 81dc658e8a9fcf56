"""What a problem asks of one product: constraints taken from the gold document, and the reward that states them."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from oresmith.arena.catalogue import Product
from oresmith.arena.documents import Document
from oresmith.arena.scoring_items import judge_item

_T = TypeVar("_T")
_NOTHING = frozenset(("no brand", "none", "n/a", "na", "null", "not specified", "others", "other", "-", "0"))
"""Values that say nothing: nobody asks for them."""
_LONGEST = 40
"""Characters of a value that somebody would still say."""


class Constraint(NamedTuple):
    """One thing that a reward states and a query says."""

    kind: str
    """attribute, sku, price or service."""
    key: str
    """Of the attribute or SKU option; the operator of a price; "" of a service."""
    value: str = ""
    """The value asked for; the name of a service."""
    low: int | None = None
    high: int | None = None
    """Bounds of a price in pesos, inclusive."""


class Wish(NamedTuple):
    """One wanted product: the gold document, what the request calls it, and what it states of it."""

    gold: Document
    noun: str
    constraints: tuple[Constraint, ...]

    def reward(self) -> dict[str, Any]:
        """The reward of this product, in the form of sn15.md section 2, constraints in the order of the wish."""
        stated: dict[str, Any] = {"product_id": self.gold.product_id, "title": [self.gold.title]}
        options = {c.key: c.value for c in self.constraints if c.kind == "sku"}
        attributes = [{c.key: [c.value]} for c in self.constraints if c.kind == "attribute"]
        prices = [{c.key: [c.low, c.high]} for c in self.constraints if c.kind == "price"]
        services = [c.value for c in self.constraints if c.kind == "service"]
        fields = {"sku_options": [options] if options else [], "attributes": attributes}
        fields |= {"service": services, "price": prices}
        return stated | {field: value for field, value in fields.items() if value}

    @property
    def filters(self) -> tuple[str | None, str | None]:
        """The `price` and `service` parameters of `find_product` that say what the wish says of both."""
        price = next((c for c in self.constraints if c.kind == "price"), None)
        sides = ["" if side is None else str(side) for side in (price.low, price.high)] if price else []
        services = [c.value for c in self.constraints if c.kind == "service"]
        return "-".join(sides) or None, ",".join(services) or None


def draw(options: Sequence[_T], *key: object) -> _T:
    """One of the options, the same for the same key on every machine, whatever was drawn before."""
    digest = hashlib.blake2b("\x1f".join(map(str, key)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return options[int.from_bytes(digest, "big") % len(options)]


def stream(*key: object) -> random.Random:
    """Draws that the key alone decides, on every machine."""
    return random.Random("/".join(map(str, key)))  # noqa: S311 (reproducible draws, no secret)


def stated_of(reward: dict[str, Any]) -> dict[str, Any]:
    """A reward with its constraints alone: no product is the gold one, no title is asked for."""
    return {"product_id": "", **{key: value for key, value in reward.items() if key not in ("product_id", "title")}}


def meets(product: Product, stated: dict[str, Any]) -> float:
    """Share of the stated constraints (`stated_of`) that a product meets; 0 where none is stated."""
    return judge_item(product, stated, None).rule


def count_of(stated: dict[str, Any]) -> int:
    """How many constraints the scorer counts in a reward."""
    pairs = sum(len(options) for options in stated.get("sku_options", ()))
    pairs += sum(len(values) for entry in stated.get("attributes", ()) for values in entry.values())
    return pairs + sum(map(len, stated.get("price", ()))) + len(stated.get("service", ()))


def sayable(value: str) -> bool:
    """Whether a value can stand in a request: short, printable, and saying something."""
    plain = value.strip()
    return (
        plain == value
        and 0 < len(plain) <= _LONGEST
        and plain.isprintable()
        and "`" not in plain
        and any(character.isalnum() for character in plain)
        and plain.casefold() not in _NOTHING
    )


def pair_constraints(document: Document, rng: random.Random) -> list[Constraint]:
    """The attribute pairs and those of one SKU, shuffled; of a key that both have, one pair."""
    skus = [document.sku_options[number] for number in sorted(document.sku_options)]
    sku = rng.choice(skus) if skus else {}
    found = {
        key: Constraint("attribute", key, rng.choice(values))
        for key, values in sorted(document.attributes.items())
        if values and sayable(key)
    }
    found |= {key: Constraint("sku", key, value) for key, value in sorted(sku.items()) if sayable(key)}
    pairs = [constraint for constraint in found.values() if sayable(constraint.value)]
    rng.shuffle(pairs)
    return pairs


def price_constraint(price: float, rng: random.Random) -> Constraint | None:
    """A range around a price, in whole pesos; None where a price is too small for one."""
    if price < 5:
        return None
    low = max(1, math.floor(price * rng.uniform(0.45, 0.97)))
    high = math.ceil(price * rng.uniform(1.03, 1.7))
    mode = rng.choices(("greater than", "between", "less than"), (5, 4, 3))[0]
    if mode == "greater than":
        return Constraint("price", mode, low=low)
    return Constraint("price", mode, low=low, high=high) if mode == "between" else Constraint("price", mode, high=high)
