"""How people say what they want: each constraint as a phrase, phrases as an item, with the words a search would use."""

from __future__ import annotations

import re
from typing import NamedTuple

from oresmith.arena.suites.wishes import Constraint, Wish, draw

SERVICE_WORDS = {
    "official": (
        "from an official store",
        "sold by an official store",
        "official store only",
        "from the brand's official store",
        "listed by an official store",
    ),
    "freeShipping": (
        "with free shipping",
        "with free delivery",
        "that ships free",
        "with no shipping fee",
        "with complimentary shipping",
    ),
    "COD": (
        "payable in cash on delivery",
        "with cash on delivery",
        "that supports cash on delivery",
        "with COD available",
        "that I can pay for on delivery",
    ),
    "flashsale": (
        "on flash sale",
        "that is part of a flash sale",
        "with a flash sale deal",
        "from the flash sale",
        "at a flash sale price",
    ),
}
_MONEY = ("{} pesos", "PHP {}", "{} PHP", "₱{}")
_PRICES = {
    "greater than": (
        "above {0}",
        "over {0}",
        "at least {0}",
        "costing more than {0}",
        "from {0} up",
        "priced above {0}",
    ),
    "less than": ("under {1}", "up to {1}", "at most {1}", "below {1}", "for no more than {1}", "priced under {1}"),
    "between": ("between {0} and {1}", "from {0} to {1}", "priced between {0} and {1}", "in the {0} to {1} range"),
}
_PHRASES: dict[str, tuple[str, ...]] = {
    "brand": ("from {v}", "by {v}", "of the brand {v}", "from the {v} brand", "made by {v}"),
    "color": ("in {v}", "in the color {v}", "in {v} color", "colored {v}", "in color option {v}"),
    "size": ("in size {v}", "size {v}", "sized {v}", "in the {v} size"),
    "material": ("made of {v}", "in {v} material", "of {v}", "made from {v}", "with {v} as its material"),
    "pattern": ("with a {v} pattern", "in a {v} pattern", "with {v} design", "patterned {v}"),
    "model": ("model {v}", "of model {v}", "in the {v} model", "with model {v}"),
}
_GENERAL = (
    "with {k} {v}",
    "{k} {v}",
    "whose {k} is {v}",
    "with {v} as {k}",
    "with {v} {k}",
    "where the {k} is {v}",
    "having {k} {v}",
    "of {k} {v}",
)
_STIFF = ("{k}: {v}", "{k} {v}", "whose {k} is {v}", "where the {k} is {v}", "as {k}: {v}")
_LEADERS = ("with ", "without ", "no ", "not ", "for ", "in ", "by ")
"""Beginnings of values that take no other such word before them."""
_ANSWERS = frozenset(("yes", "no"))
_YES = ("with {k}: yes", "{k} yes", "where {k} is a yes", "marked yes for {k}")
_NO = ("with {k}: no", "{k} no", "where {k} is a no", "marked no for {k}")
_FRONT = frozenset(("color", "material", "brand", "pattern", "style"))
"""Keys whose value may stand before the noun, one of each: of two colors nobody could say which is which."""
_OTHER_WORDS = {
    "xs": ("extra small",),
    "s": ("small",),
    "m": ("medium",),
    "l": ("large",),
    "xl": ("extra large",),
    "xxl": ("double extra large",),
    "grey": ("gray", "ash"),
    "gray": ("grey",),
    "multicolor": ("many-colored", "mixed-color"),
    "navy": ("dark blue",),
    "navy blue": ("dark blue",),
    "beige": ("sand-colored", "cream-toned"),
    "wood": ("wooden", "timber"),
    "plain": ("simple", "unpatterned"),
    "casual": ("everyday", "laid-back"),
    "stainless steel": ("inox", "rust-free steel"),
    "cotton": ("pure cotton", "cotton fabric"),
    "plastic": ("a plastic build", "synthetic plastic"),
    "rechargeable": ("chargeable", "battery-charged"),
    "usb": ("USB-powered",),
    "wireless": ("cordless",),
    "unisex": ("for anyone", "gender-neutral"),
    "waterproof": ("water-tight",),
}
"""Value -> ways to say it that the catalogue's own words do not show."""
_UNIT = re.compile(r"(\d+(?:\.\d+)?) ?(kg|g|ml|l|cm|mm|m|w|v|inch|in)")
_UNITS = {
    "kg": "kilos",
    "g": "grams",
    "ml": "milliliters",
    "l": "liters",
    "cm": "centimeters",
    "mm": "millimeters",
    "m": "meters",
    "w": "watts",
    "v": "volts",
    "inch": "inches",
    "in": "inches",
}
_PREFIX = re.compile(r"^(?:fa|m|fmlt|fea|hb)_|_(?:hb|family)$")
_SIZE_SYSTEM = re.compile(r"^int: ?(?=\S)")


class Said(NamedTuple):
    """A piece of a request, and the words of it that a search can use."""

    text: str
    keywords: str = ""


def key_words(key: str) -> str:
    """The key of an attribute or a SKU option as people say it: "fa_pattern" is a pattern."""
    return _PREFIX.sub("", _PREFIX.sub("", key)).replace("_", " ").replace("  ", " ").strip().lower() or key


def value_words(value: str, literal: bool, *seed: object) -> str:
    """A value as the request says it; in other words, where there are some and `literal` is not asked for."""
    plain = _SIZE_SYSTEM.sub("", value)
    if literal:
        return plain
    unit = _UNIT.fullmatch(plain)
    others = (f"{unit[1]} {_UNITS[unit[2]]}",) if unit else _OTHER_WORDS.get(plain.lower(), ())
    return draw((plain, *others, *others), "value", value, *seed) if others else plain


def constraint_said(constraint: Constraint, literal: bool, *seed: object) -> Said:
    """One constraint as a phrase that stands behind the noun; the seed alone decides its wording."""
    own = (*constraint, *seed)
    if constraint.kind == "service":
        return Said(draw(SERVICE_WORDS[constraint.value], *own))
    if constraint.kind == "price":
        money = draw(_MONEY, "money", *seed)
        bounds = [money.format(side) for side in (constraint.low, constraint.high)]
        return Said(draw(_PRICES[constraint.key], *own).format(*bounds))
    key, value = key_words(constraint.key), value_words(constraint.value, literal, *seed)
    if constraint.value.lower() in _ANSWERS:
        answers = _YES if constraint.value.lower() == "yes" else _NO
        return Said(draw(answers, *own).format(k=key), key)
    if set(key.split()) <= set(value.lower().split()):
        return Said(f"with {value}", value)
    forms = _STIFF if value.lower().startswith(_LEADERS) else _PHRASES.get(key, _GENERAL)
    return Said(draw(forms, *own).format(k=key, v=value), value)


def wish_said(wish: Wish, literal: bool, *seed: object) -> Said:
    """A wanted product as one phrase: article, values before the noun, the noun, the rest in the order of the wish.

    The same seed chooses the same words, whatever the order of the constraints: so a reordered request has the same
    words as the first.
    """
    own = (*seed, wish.noun)
    front: dict[str, Said] = {}
    rest: list[Said] = []
    for constraint in wish.constraints:
        value, key = value_words(constraint.value, literal, *own), key_words(constraint.key)
        fits = constraint.kind in ("attribute", "sku") and key in _FRONT and key not in front and _adjective(value)
        if fits and draw((True, False), "front", *constraint, *own):
            front[key] = Said(value, value)
        else:
            rest.append(constraint_said(constraint, literal, *own))
    glue = draw((", ", " and ", ", and "), "glue", *own)
    tail = ", ".join(said.text for said in rest[:-1])
    tail = f"{tail}{glue}{rest[-1].text}" if len(rest) > 1 else "".join(said.text for said in rest)
    text = " ".join([*(said.text for said in front.values()), wish.noun, tail]).strip()
    keywords = " ".join(filter(None, [wish.noun, *(said.keywords for said in (*front.values(), *rest))]))
    return Said(text if _plural(wish.noun) else f"{_article(text)} {text}", keywords)


def values_query(wish: Wish) -> str:
    """The stated values alone, as the catalogue words them; of a yes or a no, its key."""
    pairs = [constraint for constraint in wish.constraints if constraint.kind in ("attribute", "sku")]
    said = [key_words(c.key) if c.value.lower() in _ANSWERS else _SIZE_SYSTEM.sub("", c.value) for c in pairs]
    return " ".join(said)


def reference_query(wish: Wish) -> str:
    """The words of the reference query: the noun and the stated values."""
    return f"{wish.noun} {values_query(wish)}"


def _article(text: str) -> str:
    """What stands before a phrase of one thing."""
    return "an" if text[:1].lower() in "aeio" else "a"


def _plural(noun: str) -> bool:
    return noun.endswith(("s", "mice")) and not noun.endswith("ss")


def _adjective(value: str) -> bool:
    return len(value.split()) <= 2 and all(part.isalpha() for part in value.replace("-", " ").split())
