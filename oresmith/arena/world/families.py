"""Families of listings: near-twins of one product line, with the accessories and look-alikes that crowd around them."""

from __future__ import annotations

from typing import NamedTuple

from oresmith.arena.documents import Document
from oresmith.arena.world.drawing import Draw, stream
from oresmith.arena.world.lattice import FACETS, Place, twins
from oresmith.arena.world.line import Attributes, Line, draw_line
from oresmith.arena.world.names import BRANDS_PER_DEPARTMENT, Names
from oresmith.arena.world.streets import Street, services_of
from oresmith.arena.world.wording import Wording, lookalike_title, spare_title, texts, title, wording

LEAST_TWINS, MOST_TWINS = 4, 14
_ACCESSORY, _LOOKALIKE = (0.5, 0.2), (0.5, 0.15)
"""How likely a family has one, and then a second."""


class Member(NamedTuple):
    """One listing and its place in the family."""

    document: Document
    role: str
    """twin, accessory or lookalike."""
    parent: int | None = None
    """The place in the family of the twin from which this one differs in its `facet` alone."""
    facet: str | None = None
    """attribute, sku, service, price or shop; None for the first twin and for those that are no twins."""


class Family(NamedTuple):
    """The listings around one product line, the twins first."""

    number: int
    line: Line
    members: tuple[Member, ...]


class Counter(NamedTuple):
    """Where the making of a world stands."""

    family: int
    """Number of the next family."""
    document: int
    """Number of its first document."""
    brand: int
    """Number of the brand of the family before; -1 for none."""


class _Maker(NamedTuple):
    """What all listings of a family are made with."""

    draw: Draw
    line: Line
    told: Wording
    names: Names


def draw_family(seed: int, at: Counter, street: Street, names: Names) -> tuple[Family, Counter]:
    """Make the family that the counter stands at; returns it with the counter after it."""
    draw = stream(seed, f"family/{at.family}")
    line, brand = draw_line(draw, street, names, at.brand)
    make = _Maker(draw, line, wording(draw, line), names)
    count = LEAST_TWINS + int((MOST_TWINS + 1 - LEAST_TWINS) * draw() ** 1.4)
    steps = twins(draw, count, (0, 0, 0, line.sellers[0].services, 0, 0), line.sizes())
    turned = int(draw() * len(steps))  # the first twin, which most others resemble, may stand anywhere
    members: list[Member] = []
    for place, parent, facet in steps[turned:] + steps[:turned]:
        document = _twin(make, place, names.product_id(at.document + len(members)))
        if parent < 0:
            members.append(Member(document, "twin"))
        else:
            members.append(Member(document, "twin", (parent - turned) % len(steps), FACETS[facet]))
    for chances, role, made in ((_ACCESSORY, "accessory", _accessory), (_LOOKALIKE, "lookalike", _lookalike)):
        for chance in chances:
            if draw() >= chance:
                break
            place = steps[int(draw() * len(steps))].place
            members.append(Member(made(make, place, names.product_id(at.document + len(members))), role))
    family = Family(at.family, line, tuple(members))
    return family, Counter(at.family + 1, at.document + len(members), brand)


def _twin(make: _Maker, place: Place, product_id: str) -> Document:
    line = make.line
    values = line.axes[0].values[place[0]], line.axes[1].values[place[1]]
    return _document(
        make,
        place,
        product_id=product_id,
        category=line.category.path,
        title=title(make.draw, make.told, values),
        brand=line.brand,
        attributes=line.stated(place),
        price=line.prices[place[4]],
    )


def _accessory(make: _Maker, place: Place, product_id: str) -> Document:
    """A part for the line, which has its words and few of its attributes."""
    draw, line = make.draw, make.line
    spare = line.category.spare[int(draw() * len(line.category.spare))]
    attributes = {"brand": [line.brand.lower()]} if line.brand else {}
    fits = [line.model.lower(), line.code.lower()]
    attributes |= {"accessory_type": [spare.lower()], "compatible_line": fits[: 1 + int(draw() * 2)]}
    return _document(
        make,
        place,
        product_id=product_id,
        category=f"{line.category.path.rsplit(' > ', 1)[0]} > Parts & Accessories",
        title=spare_title(draw, make.told, spare),
        brand=line.brand,
        attributes=attributes,
        price=max(5.0, float(round(line.prices[0] * (0.08 + 0.3 * draw())))),
    )


def _lookalike(make: _Maker, place: Place, product_id: str) -> Document:
    """Another maker's product with the attributes of a twin."""
    draw, line = make.draw, make.line
    number = line.category.department * BRANDS_PER_DEPARTMENT + int(BRANDS_PER_DEPARTMENT * draw())
    brand = make.names.brand(number)
    return _document(
        make,
        place,
        product_id=product_id,
        category=line.category.path,
        title=lookalike_title(draw, make.told, brand),
        brand=brand,
        attributes={"brand": [brand.lower()]} | line.stated(place) | {"brand": [brand.lower()]},
        price=max(5.0, float(round(line.prices[0] * (0.5 + 0.4 * draw())))),
    )


def _document(
    make: _Maker,
    place: Place,
    *,
    product_id: str,
    category: str,
    title: str,
    brand: str,
    attributes: Attributes,
    price: float,
) -> Document:
    """A listing; options, services and shop are those of the twin at this place."""
    options = make.line.options[place[2]]
    short, description, specification = texts(make.draw, title, attributes, options)
    return Document(
        product_id=product_id,
        shop_id=make.line.sellers[place[5]].shop_id,
        brand=brand,
        category=category,
        title=title,
        short_description=short,
        description=description,
        specification=specification,
        price=price,
        sold_count=int(1.6 / (make.draw() + 2e-4)),
        service=services_of(place[3]),
        sku_options=options,
        attributes=attributes,
        product_url=f"https://shop.invalid/products/{product_id}.html",
    )
