"""A voice: how one agent version words what it thinks. Two versions share banks (`phrases`) and little else."""

from __future__ import annotations

import random
from typing import Any

from oresmith.arena.miners import phrases, phrases_closing
from oresmith.arena.miners.brief import Wish
from oresmith.arena.miners.phrases import Parts
from oresmith.arena.miners.seen import Listing, Point, Verdict, plain, points

KEPT_WORDINGS = 4
"""Wordings of each part that one voice uses."""
_BANKS: dict[str, Parts] = {
    name.lower(): bank
    for module in (phrases, phrases_closing)
    for name, bank in vars(module).items()
    if name.isupper() and isinstance(bank, tuple)
}
_PRICES = ("₱{}", "PHP {}", "{} pesos", "₱{} PHP", "{} PHP", "P{}")
_ITEMS = (
    "{id} ({title}, {price})",
    "{id} at {price}",
    '{id} "{title}" for {price}',
    "[{id}] {title} at {price}",
    "{title} ({id}, {price})",
    "product {id}, {title}, {price}",
    "{id} from shop {shop} ({price})",
    "{id}: {title}, {price}",
)
_PAIRS = ("{key} {value}", "{key}: {value}", "{key}={value}", "{value} as {key}", "{value} ({key})")
_SERVICES = {
    "official": ("the official store", "LazMall", "official shop"),
    "freeShipping": ("free shipping", "free delivery", "no shipping fee"),
    "COD": ("cash on delivery", "COD", "payment on delivery"),
    "flashsale": ("a flash sale", "LazFlash", "the flash deal"),
}
_FILTERS = (" ({})", " with {}", ", filtered by {}", " and the filters {}")
_JOINS = (", ", "; ", " / ", " + ")
_STARTS = ("", "", "", "Okay. ", "Right. ", "Hmm. ", "Alright. ", "Good. ", "Let me see. ", "Now. ")
_FLAWS = (
    "does not show {}",
    "lacks {}",
    "has no {}",
    "fails on {}",
    "misses {}",
    "comes without {}",
    "is not {}",
)
_REASONS = ("its title has {}", "it names {}", "the title mentions {}", "{} stand in its title", "it reads {}")


class Voice:
    """Words of one agent version.

    Args:
        dialect: fixes the version's habits; the same seed gives the same habits.
        draws: picks among them from sentence to sentence.
    """

    def __init__(self, dialect: random.Random, draws: random.Random) -> None:
        self._draws = draws
        self._kept = {
            name: tuple(tuple(dialect.sample(part, min(KEPT_WORDINGS, len(part)))) for part in parts)
            for name, parts in _BANKS.items()
        }
        self._price = dialect.choice(_PRICES)
        self._items = dialect.sample(_ITEMS, 3)
        self._pair = dialect.choice(_PAIRS)
        self._services = {service: dialect.choice(words) for service, words in _SERVICES.items()}
        self._filters = dialect.choice(_FILTERS)
        self._join = dialect.choice(_JOINS)
        self._starts = dialect.sample(_STARTS, 3)
        self._flaws = dialect.sample(_FLAWS, 3)
        self._reasons = dialect.sample(_REASONS, 3)
        self._title = dialect.choice((28, 40, 56, 72))

    def say(self, occasion: str, **slots: Any) -> str:
        """One thought for an occasion, a wording of each of its parts."""
        parts = self._kept[occasion]
        chosen = (self._draws.choice(part).format(**slots) for part in parts)
        return " ".join(text[:1].upper() + text[1:] for text in chosen)

    def start(self) -> str:
        """A word to begin with, mostly none."""
        return self._draws.choice(self._starts)

    def price(self, amount: float) -> str:
        """An amount of money."""
        return self._price.format(plain(amount))

    def title(self, listing: Listing) -> str:
        """The beginning of a title, cut between words."""
        title = str(listing["title"])
        if len(title) <= self._title:
            return title
        return title[: self._title].rpartition(" ")[0] + "..."

    def item(self, listing: Listing) -> str:
        """A product by id, price and perhaps title or shop."""
        return self._draws.choice(self._items).format(
            id=listing["product_id"],
            title=self.title(listing),
            price=self.price(listing["price"]),
            shop=listing["shop_id"],
        )

    def point(self, point: Point) -> str:
        """A constraint in words."""
        if point.kind == "service":
            return self._services.get(point.value, point.value)
        if point.kind == "price":
            return f"a price of {point.value}"
        return self._pair.format(key=point.key.replace("_", " "), value=point.value)

    def these(self, found: list[Point], most: int = 4) -> str:
        """Several constraints in words."""
        shown = self._join.join(self.point(point) for point in found[:most])
        return shown or "nothing else"

    def needs(self, wish: Wish) -> str:
        """All constraints of a wish."""
        wanted = points(wish)
        return self.these(wanted, 8) if wanted else "no further condition"

    def flaw(self, verdict: Verdict, listing: Listing, best: Listing) -> str:
        """What speaks against a product: what it misses, else that it is unproven, dearer or sold less."""
        if verdict.missed:
            point = verdict.missed[0]
            if point.kind == "price":
                return f"costs {self.price(listing['price'])}, outside {point.value}"
            return self._draws.choice(self._flaws).format(self.these(verdict.missed, 2))
        if verdict.open:
            return f"does not tell {verdict.open[0].key.replace('_', ' ')} in its listing"
        gap = listing["price"] - best["price"]
        if gap > 0:
            return f"meets the same but is {self.price(round(gap, 2))} dearer"
        if listing["sold_count"] < best["sold_count"]:
            return f"meets the same with {listing['sold_count']} sold against {best['sold_count']}"
        return f"fits as well but ranks below, at {self.price(listing['price'])}"

    def why(self, matched: list[str], listing: Listing, other: Listing) -> str:
        """Why one listing looks better than another."""
        if matched:
            return self._draws.choice(self._reasons).format(self._join.join(matched[:4]))
        if listing["sold_count"] > other["sold_count"]:
            return f"{listing['sold_count']} were sold, against {other['sold_count']}"
        return f"it ranks higher and costs {self.price(listing['price'])}"

    def filters(self, parameters: dict[str, Any]) -> str:
        """The filters of a search in words, "" where there are none."""
        said = [f"{key} {parameters[key]}" for key in ("price", "service", "sort") if key in parameters]
        return self._filters.format(" and ".join(said)) if said else ""

    def walk(self, listings: list[Listing], verdicts: list[Verdict]) -> str:
        """All candidates one by one, at length."""
        lines = []
        for number, (listing, verdict) in enumerate(zip(listings, verdicts, strict=True), 1):
            good = self.these(verdict.met) if verdict.met else "nothing yet"
            bad = f", against it {self.these(verdict.missed)}" if verdict.missed else ""
            unknown = f", unclear {self.these(verdict.open, 2)}" if verdict.open else ""
            lines.append(
                f"{number}) {self.item(listing)}, shop {listing['shop_id']}, {listing['sold_count']} sold: "
                f"for it {good}{bad}{unknown}."
            )
        return " ".join(lines)
