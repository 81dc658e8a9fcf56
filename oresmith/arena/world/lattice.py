"""A family of near-twins: places of a small lattice, each one step along one coordinate from an earlier one."""

from __future__ import annotations

from typing import NamedTuple

from oresmith.arena.world.drawing import Draw

FACETS = ("attribute", "attribute", "sku", "service", "price", "shop")
"""What a step along each coordinate changes; the two first are two keys of the attributes."""
SERVICE = FACETS.index("service")
_WEIGHTS = (0.26, 0.2, 0.19, 0.11, 0.11, 0.13)
_PRICE, _SHOP = FACETS.index("price"), FACETS.index("shop")
_FROM_FIRST, _OWN_PRICE = 0.5, 0.75
"""How likely a twin is one step from the first, and how likely a new price is that of the shop that came last."""
_TRIES = 64

Place = tuple[int, ...]


class Step(NamedTuple):
    """How a twin came to be."""

    place: Place
    parent: int
    """Number of the twin from which it is one step away; -1 for the first."""
    facet: int
    """Number of the coordinate; -1 for the first."""


def twins(draw: Draw, count: int, start: Place, sizes: Place) -> list[Step]:
    """Walk to `count` different places, fewer where the lattice is too small.

    Args:
        draw: the stream of the family.
        count: wished number of twins.
        start: where the first twin stands.
        sizes: places along each coordinate; that of `SERVICE` is a set of services, of which a step turns one.
    """
    bounds, total = [], 0.0
    for size, weight in zip(sizes, _WEIGHTS, strict=True):
        total += weight if size > 1 else 0.0
        bounds.append(total)
    steps, seen = [Step(start, -1, -1)], {start}
    elsewhere = 0
    for _ in range(count - 1):
        for _ in range(_TRIES):
            at, facet = draw() * total, 0
            while bounds[facet] <= at:
                facet += 1
            parent = 0 if draw() < _FROM_FIRST else int(draw() * len(steps))
            if facet == _PRICE and elsewhere and draw() < _OWN_PRICE:
                parent = elsewhere
            old = steps[parent].place
            size = sizes[facet]
            if facet == SERVICE:
                value = old[facet] ^ 1 << int(draw() * size)
            else:
                value = (old[facet] + 1 + int(draw() * (size - 1))) % size
            place = (*old[:facet], value, *old[facet + 1 :])
            if place not in seen:
                seen.add(place)
                if facet == _SHOP:
                    elsewhere = len(steps)
                steps.append(Step(place, parent, facet))
                break
    return steps
