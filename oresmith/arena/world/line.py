"""A product line: what its twins have in common, and what each coordinate of their lattice offers to choose from."""

from __future__ import annotations

from typing import NamedTuple

from oresmith.arena.world.drawing import Draw, some
from oresmith.arena.world.lattice import Place
from oresmith.arena.world.names import BRANDS_PER_DEPARTMENT, Names
from oresmith.arena.world.streets import ShopKeeper, Street
from oresmith.arena.world.vocabulary import PRICE_STEPS, Category, Words

Attributes = dict[str, list[str]]
Options = dict[str, dict[str, str]]

_FACTORS = (0.68, 0.76, 0.84, 0.91, 1.1, 1.18, 1.27, 1.4, 1.6)
"""What other prices of a line are to its usual one; a line has every third of these."""
_UNBRANDED, _SAME_BRAND, _FLAGSHIP, _FREE_SHIPPING = 0.12, 0.25, 0.22, 0.5
_WITHOUT_OPTIONS, _GRID, _MIXED_UP, _SECOND_VALUE = 0.18, 0.75, 0.65, 0.08
_MOST_OPTIONS, _VARIANTS = 4, 4


class Axis(NamedTuple):
    """An attribute in which twins differ."""

    key: str
    values: Words
    """The values that twins of this line have; the first is the first twin's."""


class Line(NamedTuple):
    """One product line."""

    category: Category
    brand: str
    """As its maker writes it; empty for goods without a brand."""
    model: str
    code: str
    fixed: Attributes
    """What all twins state, the brand first; the axes stand in it with their first values."""
    axes: tuple[Axis, Axis]
    options: tuple[Options, ...]
    """The SKU options that a listing of this line can have; any two differ in one option."""
    prices: tuple[float, ...]
    """The usual price first; all different, in PHP."""
    sellers: tuple[ShopKeeper, ...]

    def sizes(self) -> Place:
        """Places along each coordinate of the lattice; 4 services."""
        one, other = self.axes
        return len(one.values), len(other.values), len(self.options), 4, len(self.prices), len(self.sellers)

    def stated(self, place: Place) -> Attributes:
        """The attributes of the twin at this place."""
        (one, values), (other, others) = self.axes
        return self.fixed | {one: [values[place[0]]], other: [others[place[1]]]}


def draw_line(draw: Draw, street: Street, names: Names, before: int) -> tuple[Line, int]:
    """Draw a line for this street.

    Args:
        draw: the stream of its family.
        street: its shops and categories.
        names: of the seed's world.
        before: the number of the brand of the line before, -1 for none; makers have several lines.

    Returns:
        The line, and its brand's number.
    """
    category = street.categories[int(draw() * len(street.categories))]
    number = category.department * BRANDS_PER_DEPARTMENT + int(BRANDS_PER_DEPARTMENT * draw() ** 3)
    if draw() < _SAME_BRAND and before // BRANDS_PER_DEPARTMENT == category.department:
        number = before
    brand = "" if draw() < _UNBRANDED else names.brand(number)
    model, code = names.model(draw(), draw())
    fixed, axes = _attributes(draw, category)
    if brand:
        fixed = {"brand": [brand.lower()], **fixed}
    sellers = some(draw, street.sellers[category.number], 2 + int(draw() * 4))
    if brand and draw() < _FLAGSHIP:
        services = 0b0011 if draw() < _FREE_SHIPPING else 0b0001
        sellers = (ShopKeeper(names.flagship_id(number), services), *sellers[:4])
    options, prices = _options(draw, category), _prices(draw, category.prices)
    return Line(category, brand, model, code, fixed, axes, options, prices, sellers), number


def _attributes(draw: Draw, category: Category) -> tuple[Attributes, tuple[Axis, Axis]]:
    """Three to five of the category's keys (sellers leave some out), two of them axes."""
    stated = category.attributes
    if category.lookalikes and draw() < _MIXED_UP:
        one, other, shared = category.lookalikes[int(draw() * len(category.lookalikes))]
        drawn = some(draw, shared, 3)
        turned = int(draw() * 3)
        axes = Axis(one, drawn), Axis(other, drawn[turned:] + drawn[:turned])
    else:
        (one, values), (other, others) = some(draw, stated, 2)
        axes = Axis(one, some(draw, values, 4)), Axis(other, some(draw, others, 3))
    found = {axis.key: [axis.values[0]] for axis in axes}
    for key, values in some(draw, [pair for pair in stated if pair[0] not in found], 1 + int(draw() * 3)):
        place = int(draw() * len(values))
        found[key] = [values[place]]
        if draw() < _SECOND_VALUE:
            found[key].append(values[(place + 1) % len(values)])
    return {key: found[key] for key, _ in stated if key in found}, axes


def _options(draw: Draw, category: Category) -> tuple[Options, ...]:
    """Lists of variants: combinations of two keys' values, or values of one; none for a part of the lines."""
    if draw() < _WITHOUT_OPTIONS:
        return ({},)
    turn = int(draw() * len(category.options))
    key, values = category.options[turn]
    if draw() < _GRID:
        other, others = category.options[turn - 1]
        columns = some(draw, others, 2)
        grid = [{key: row, other: column} for row in some(draw, values, 3) for column in columns]
    else:
        grid = [{key: value} for value in some(draw, values, 6)]
    return _variants(draw, some(draw, grid, len(grid)))


def _variants(draw: Draw, grid: tuple[dict[str, str], ...]) -> tuple[Options, ...]:
    """A few of the combinations, and the same with one of them exchanged for one that is left."""
    count = min(1 + int(draw() * _MOST_OPTIONS), len(grid) - 1)
    out = int(draw() * count)
    left = grid[count : count + _VARIANTS - 1]
    lists = [grid[:count], *((*grid[:out], other, *grid[out + 1 : count]) for other in left)]
    return tuple({str(number): option for number, option in enumerate(listed, 1)} for listed in lists)


def _prices(draw: Draw, quantiles: tuple[float, ...]) -> tuple[float, ...]:
    usual = quantiles[int(draw() * PRICE_STEPS)] * (0.95 + 0.1 * draw())
    first = int(draw() * 3)
    ending = draw()
    return tuple(dict.fromkeys(_written(usual * factor, ending) for factor in (1.0, *_FACTORS[first::3])))


def _written(price: float, ending: float) -> float:
    """A price as sellers end it: 199, 240, 87.5, 152.36."""
    if price < 30:
        return round(price * 2) / 2 if ending < 0.5 else float(round(price))
    if ending < 0.3:
        return float(round(price / 10) * 10 - 1)
    if ending < 0.7 or price < 100:
        return float(round(price))
    return round(price / 5) * 5.0 if ending < 0.85 else round(price, 2)
