"""Who sells what: streets of shops whose ranges overlap, and what one shop is like."""

from __future__ import annotations

from typing import NamedTuple

from oresmith.arena.documents import SERVICES
from oresmith.arena.world.drawing import some, stream
from oresmith.arena.world.names import Names
from oresmith.arena.world.vocabulary import Category, categories

FAMILIES_PER_STREET = 48
SHOPS_PER_STREET = 20
_CATEGORIES_PER_STREET = 12
_LEAST_RANGE, _MOST_RANGE = 3, 7
"""Categories of one shop."""
_HABITS = (0.2, 0.36, 0.42, 0.16)
"""How likely a shop offers each of `SERVICES` as a rule."""


class ShopKeeper(NamedTuple):
    """A shop as far as its listings show it."""

    shop_id: str
    services: int
    """What it offers as a rule: bit n stands for `SERVICES[n]`."""


class Street(NamedTuple):
    """The shops of `FAMILIES_PER_STREET` product lines, which follow each other in the world."""

    categories: tuple[Category, ...]
    sellers: dict[int, tuple[ShopKeeper, ...]]
    """By number of a category: the shops that have it in their range, at least three."""


def street(seed: int, number: int, names: Names) -> Street:
    """Lay out the street of this number.

    Streets deal their categories from a shuffled deck, so that all have had their turn before one comes twice.
    """
    deal = len(categories()) // _CATEGORIES_PER_STREET
    deck = some(stream(seed, f"deck/{number // deal}"), categories(), len(categories()))
    first = number % deal * _CATEGORIES_PER_STREET
    chosen = deck[first : first + _CATEGORIES_PER_STREET]
    draw = stream(seed, f"street/{number}")
    carriers: dict[int, list[ShopKeeper]] = {category.number: [] for category in chosen}
    for place in range(SHOPS_PER_STREET):
        services = sum(1 << bit for bit, chance in enumerate(_HABITS) if draw() < chance)
        keeper = ShopKeeper(names.shop_id(number * SHOPS_PER_STREET + place), services)
        # Each shop's range begins one category after its neighbour's: no category is without shops.
        begun = range(place, place + _LEAST_RANGE)
        more = (int(draw() * len(chosen)) for _ in range(int(draw() * (_MOST_RANGE - _LEAST_RANGE + 1))))
        for other in {reach % len(chosen): None for reach in (*begun, *more)}:
            carriers[chosen[other].number].append(keeper)
    return Street(chosen, {category: tuple(sellers) for category, sellers in carriers.items()})


def services_of(mask: int) -> list[str]:
    """The services whose bits are set, in the order of `SERVICES`."""
    return [name for bit, name in enumerate(SERVICES) if mask >> bit & 1]
