"""Titles and descriptions as sellers write them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from oresmith.arena.world.drawing import Draw
from oresmith.arena.world.line import Line
from oresmith.arena.world.vocabulary import Words

HONEST, STUFFED, CARELESS, SILENT = range(4)
"""How the titles of a line speak of what its twins differ in: own values, all values, some of any, none."""
_STYLES = (HONEST, HONEST, STUFFED, STUFFED, STUFFED, STUFFED, CARELESS, CARELESS, CARELESS, SILENT)

_PREFIXES = (
    "[COD]", "[COD]", "[Ready Stock]", "[On Hand]", "SALE!", "(Restocked)", "2025 New", "100% Original",
    "[Best Seller]", "Buy Now!", "New Arrival", "[Same Day Ship]", "HOT SALE", "[PH Seller]", "Authentic",
    "Big Discount", "*Legit*", "Wholesale",
)  # fmt: skip
_SUFFIXES = (
    "High Quality", "Ready Stock", "Original", "Best Quality", "Hot Sale", "Affordable", "On Sale", "COD",
    "Free Gift", "Local Seller", "Factory Price", "Trending Now", "Good Quality", "Direct Supplier", "Premium",
    "With Warranty",
)  # fmt: skip
_MUTE = frozenset(("none", "yes", "no", "not supported", "supported", "all types", "all sizes", "plain"))
_PREFIX, _SUFFIX, _DOUBLED, _CODE, _AUDIENCE, _SHOUTED, _VARIANTS = 0.25, 0.2, 0.2, 0.2, 0.35, 0.3, 0.3
_ORDERS = (
    "{p}{b}{m}{n}{w}{v}{a}{c}{s}", "{p}{b}{m}{n}{v}{w}{a}{c}{s}", "{p}{w}{b}{m}{n}{v}{a}{c}{s}",
    "{p}{b}{w}{m}{n}{v}{a}{s}{c}", "{p}{m}{n}{w}{v}{b}{a}{c}{s}", "{p}{n}{b}{m}{v}{w}{a}{c}{s}",
    "{p}{w}{v}{b}{m}{n}{a}{s}{c}", "{p}{n}{w}{a}{v}{b}{m}{c}{s}",
)  # fmt: skip
_SENTENCES = (
    "Please choose the correct variation before checkout.", "Ships within one to two days from our warehouse.",
    "Photos are for reference, slight differences may occur.", "Message us for bulk orders.",
    "Kindly record your unboxing.", "Packed with bubble wrap for safe delivery.",
    "Open to resellers and wholesale.", "Thank you for supporting our shop!",
)  # fmt: skip


class Wording(NamedTuple):
    """What the titles of one line are made of; every piece ends in a space."""

    style: int
    brand: str
    model: str
    nouns: Words
    words: Words
    values: Words
    """What twins differ in, value by value."""
    all_values: str
    variants: str
    """What the SKU options of the line are called, whichever of them a listing has."""
    facts: str
    audience: Words
    code: str


def wording(draw: Draw, line: Line) -> Wording:
    """Draw the pieces that the sellers of a line share."""
    category, axes = line.category, line.axes
    style = _STYLES[int(draw() * len(_STYLES))]
    first = int(draw() * len(category.words))
    facts = [values[0] for key, values in line.fixed.items() if key not in ("brand", axes[0].key, axes[1].key)]
    values = tuple(filter(None, (spoken((value,)) for value in dict.fromkeys(axes[0].values + axes[1].values))))
    return Wording(
        style,
        f"{line.brand} " if line.brand else "",
        f"{line.model} ",
        category.nouns,
        category.words[first:] + category.words[:first],
        values,
        "".join(values),
        spoken(value for options in line.options for option in options.values() for value in option.values()),
        spoken(facts[: int(draw() * 3)]),
        category.audience,
        f"{line.code} ",
    )


def title(draw: Draw, told: Wording, values: Words) -> str:
    """Write one listing's title.

    Args:
        draw: the stream of its family.
        told: the pieces of its line.
        values: the listing's own values on the axes.
    """
    nouns, words = told.nouns, told.words
    noun = nouns[int(draw() * len(nouns))] + " "
    start, count = int(draw() * 5), int(draw() * draw() * 6)
    promised = "".join(f"{word} " for word in words[start : start + count]) + told.facts
    if told.style == CARELESS:
        kept = int(draw() * (1 << len(told.values)))
        differing = "".join(value for bit, value in enumerate(told.values) if kept >> bit & 1)
    else:
        differing = told.all_values if told.style == STUFFED else spoken(values) if told.style == HONEST else ""
    brand, chance = told.brand, draw()
    if chance < _SHOUTED:
        brand = brand.upper()
    text = _ORDERS[int(draw() * len(_ORDERS))].format(
        p=_PREFIXES[int(chance * 3 % 1 * len(_PREFIXES))] + " " if draw() < _PREFIX else "",
        b=brand,
        m=told.model,
        n=noun,
        w=promised,
        v=differing + (told.variants if draw() < _VARIANTS else ""),
        a=told.audience[int(draw() * len(told.audience))] + " " if draw() < _AUDIENCE else "",
        c=told.code if draw() < _CODE else "",
        s=_SUFFIXES[int(chance * 7 % 1 * len(_SUFFIXES))] + " " if draw() < _SUFFIX else "",
    )
    if draw() < _DOUBLED:
        text = f"{text}{told.model}{differing}"
    return text[:-1]


def spare_title(draw: Draw, told: Wording, spare: str) -> str:
    """Write the title of an accessory, which names the product once or twice: what a search by words falls for."""
    nouns = told.nouns
    whole = f"{told.brand}{told.model}{nouns[int(draw() * len(nouns))]} {told.facts}"
    more = f"{nouns[0]} {told.all_values}" if draw() < 0.5 else ""
    first, last = ("Replacement ", "Compatible Parts") if draw() < 0.5 else ("", "Accessories")
    if draw() < 0.4:
        return f"{whole}{more}{first}{spare} {told.model}{last}"
    return f"{first}{spare} for {whole}{more}{last}"


def lookalike_title(draw: Draw, told: Wording, brand: str) -> str:
    """Write the title of another maker's product, which borrows the line's words."""
    claim = ("same as", "inspired by", "like", "alternative to")[int(draw() * 4)]
    noun, words = told.nouns[int(draw() * len(told.nouns))], told.words[int(draw() * 6)]
    return f"{brand} {noun} {claim} {told.brand}{told.model}{told.nouns[0]} {words} {told.facts}{told.all_values}"[:-1]


def texts(draw: Draw, heading: str, attributes: dict[str, list[str]], options: dict[str, dict[str, str]]) -> Words:
    """Write (short_description, description, specification) of a listing: its facts, in one of them at least."""
    facts = [(label(key), " / ".join(values)) for key, values in attributes.items()]
    specification = ";".join(f"{key}:{value}" for key, value in facts)
    chance = draw()
    short = f"{heading};{specification};" if chance < 0.55 else ""
    if chance > 0.45:
        listed = "".join(f" Option: {' / '.join(option.values())}." for option in options.values())
        stated = " ".join(f"{key.capitalize()}: {value}." for key, value in facts)
        closing = _SENTENCES[int(draw() * len(_SENTENCES))]
        return short, f"{heading}. {stated}{listed} {closing}", specification
    return short, "", specification


def spoken(values: Iterable[str]) -> str:
    """Values as a title lists them, each once, a space after it; those that say nothing alone are left out."""
    return "".join(
        f"{title_case(value)} " for value in dict.fromkeys(values) if value not in _MUTE and not value.isdigit()
    )


@cache
def label(key: str) -> str:
    """An attribute's key as words."""
    return key.replace("_", " ")


@cache
def title_case(value: str) -> str:
    """A value as a title has it; numbers keep their units small, as in "1.5l" and "20cm"."""
    return " ".join(word if word[0].isdigit() else word.capitalize() for word in value.split())
