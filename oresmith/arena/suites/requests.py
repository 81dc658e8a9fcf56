"""Whole requests: templates of each category around the wanted products, and the rules of a voucher in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from oresmith.arena.suites.wishes import Wish, draw
from oresmith.arena.suites.wording import Said, wish_said

_PRODUCT = (
    "I'm looking for {}.",
    "Looking for {}.",
    "Show me {}.",
    "Find me {}.",
    "Can you find {}?",
    "I need {}.",
    "I want {}. Which one fits?",
    "Do you have {}?",
    "Please help me pick {}.",
    "Which listing is right for me? I want {}.",
    "I'd like to order {}.",
    "Search for {}, please.",
    "My sister asked me for {}. Can you find it?",
    "For a gift, I want {}.",
    "Where can I get {}?",
    "Help me find {} for my place.",
    "I am after {}.",
    "Hi! Anyone selling {}?",
    "It has to be {}.",
    "Could you track down {}?",
    "I'd buy {} today. Which one?",
    "We ran out at home: get {}.",
    "One thing on my list: {}.",
    "Recommend {}.",
)
_QUESTIONS = ("Which", "Is there", "Do you", "Can you")
_ORDINALS = ("First", "Second", "Third", "Fourth")
_SHOP = (
    "Find a shop that offers these items: {}",
    "I'm looking for one shop that sells all of the following: {}",
    "Which single store carries {}",
    "Looking for a seller that has everything here: {}",
    "I want to order from one shop only. I need {}",
    "Show me a store where I can get {}",
    "One parcel, one seller: {}",
    "Is there any shop selling {}",
    "My list for a single shop: {}",
    "Please find the seller that stocks {}",
)
_SHOP_ENDS = (
    "All of them from the same shop.",
    "The shop should sell all these products.",
    "Everything has to come from one seller.",
    "",
    "I don't want to pay two shops.",
    "Only a seller that has them all.",
)
_VOUCHER = (
    "I'm looking for {}",
    "Find {}",
    "Show me {}",
    "I need {}",
    "Please get me {}",
    "I want to buy {}",
    "Help me order {}",
    "On my shopping list: {}",
    "Looking for {}",
    "Fill my basket with {}",
)


class Budget(NamedTuple):
    """The sentences of a voucher, as alternatives for each fact."""

    lead: str
    scope: dict[str, str]
    threshold: str
    fixed: str
    percentage: str
    joint: str
    """Between the rules; "#" becomes their number."""


_BUDGETS = (
    Budget(
        "My budget is only `{budget}`, but I have a voucher with the following rules:",
        {"platform": "The voucher applies to all products.", "shop": "It only applies to products of the same shop."},
        "It is valid only when the total price of the products exceeds `{threshold}`.",
        "It provides a fixed discount of `{face_value}`.",
        "It provides a percentage discount of `{percent}%` with a cap of `{cap}`.",
        "\n#. ",
    ),
    Budget(
        "I can spend `{budget}` pesos at most. I hold a voucher, and these are its terms:",
        {"platform": "Good on every shop.", "shop": "Good only if everything is bought from one shop."},
        "The order has to reach `{threshold}` pesos first.",
        "Then `{face_value}` pesos come off.",
        "Then `{percent}%` come off, never more than `{cap}` pesos.",
        "\n#. ",
    ),
    Budget(
        "The total must stay within a budget of `{budget}` PHP. There is a discount voucher:",
        {"platform": "usable across the whole platform", "shop": "usable within a single shop"},
        "minimum spend `{threshold}` PHP",
        "takes `{face_value}` PHP off",
        "takes `{percent}%` off, capped at `{cap}` PHP",
        "\n- ",
    ),
    Budget(
        "Budget: `{budget}` pesos. Voucher rules:",
        {"platform": "valid for any seller;", "shop": "valid for one seller's products only;"},
        "needs a basket worth `{threshold}` or more;",
        "discount: `{face_value}` flat.",
        "discount: `{percent}%`, limited to `{cap}`.",
        "\n#) ",
    ),
    Budget(
        "All I have is `{budget}` pesos and a coupon code.",
        {"platform": "The coupon works on all products.", "shop": "The coupon works for one shop per order."},
        "It starts from a total of `{threshold}` pesos.",
        "It cuts the bill by `{face_value}` pesos.",
        "It cuts the bill by `{percent}%`, but not by more than `{cap}` pesos.",
        " ",
    ),
    Budget(
        "My budget of `{budget}` PHP only works out with this voucher:",
        {"platform": "All shops take it.", "shop": "All items must be sold by the same shop."},
        "Spend `{threshold}` PHP or more to use it.",
        "You then save `{face_value}` PHP.",
        "You then save `{percent}%`, `{cap}` PHP at the very most.",
        "\n* ",
    ),
)
VOUCHER_WORDINGS = len(_BUDGETS)


class Request(NamedTuple):
    """A query, its part without the voucher, and what a search would use of each product's words."""

    query: str
    base: str
    keywords: tuple[str, ...]


def request_of(
    category: str,
    wishes: Sequence[Wish],
    literal: bool,
    seed: object,
    voucher: tuple[dict[str, Any], int] | None = None,
) -> Request:
    """Word a problem.

    Args:
        category: product, shop or voucher.
        wishes: the wanted products in the order of the rewards.
        literal: whether values keep the catalogue's words.
        seed: decides every word; the order of wishes and constraints changes none.
        voucher: the voucher, and which of the `VOUCHER_WORDINGS` says its rules.
    """
    own = (seed, *sorted(wish.gold.product_id for wish in wishes))
    said = [wish_said(wish, literal, *own) for wish in wishes]
    keywords = tuple(part.keywords for part in said)
    if category == "product":
        base = draw(_PRODUCT, "product", *own).format(said[0].text)
        return Request(base, base, keywords)
    opening = draw(_SHOP if category == "shop" else _VOUCHER, category, *own)
    asks = opening.startswith(_QUESTIONS)
    base = f"{opening.format(_listed(said, opening.endswith(': {}'), asks, own))}{'?' if asks else '.'}"
    if category == "shop":
        base = f"{base} {draw(_SHOP_ENDS, 'end', *own)}".strip()
        return Request(base, base, keywords)
    assert voucher is not None
    return Request(f"{base}\n\n{voucher_text(*voucher)}", base, keywords)


def voucher_text(voucher: dict[str, Any], wording: int) -> str:
    """The rules of a voucher in one of `VOUCHER_WORDINGS` wordings."""
    style = _BUDGETS[wording % VOUCHER_WORDINGS]
    facts = dict(voucher, percent=round(100 * (voucher["discount"] or 0)))
    rules = [style.scope[voucher["voucher_type"]], style.threshold, getattr(style, voucher["discount_type"])]
    text = style.lead
    for number, rule in enumerate(rules, 1):
        text += style.joint.replace("#", str(number)) + rule
    return text.format(**facts)


def _listed(said: Sequence[Said], apart: bool, asks: bool, own: tuple[object, ...]) -> str:
    """The wanted products as a list: with numbers or ordinals only after a colon, in one sentence if it is asked."""
    texts = [part.text for part in said]
    if len(texts) == 1:
        return texts[0]
    forms = ("numbers", "ordinals", "commas", "semicolons", "sentences") if apart else ("commas", "semicolons", "also")
    form = draw(forms[:2] if asks else forms, "list", *own)
    if form == "numbers":
        return "; ".join(f"({number}) {text}" for number, text in enumerate(texts, 1))
    if form == "ordinals":
        names = [*_ORDINALS[: len(texts) - 1], "Lastly"]
        return ". ".join(f"{name}, {text}" for name, text in zip(names, texts, strict=True))
    if form in ("sentences", "also"):
        return ". Also ".join(texts)
    # Commas stand within most wishes already: between them they would hide where one ends.
    joint = ", " if form == "commas" and not any("," in text for text in texts) else "; "
    return f"{joint.join(texts[:-1])}{joint}and {texts[-1]}"
