"""Why a rollout failed: exactly one class each, the first of these that applies.

* missing: the sample was never played, or its trace cannot be read.
* unscored: the scorer cannot judge it.

With a recommendation, whatever came after it:

* not_found: for one of the rewards no product was ever shown that meets it, the gold one included.
* wrong_item:FIELD: one was shown and not recommended. Of the first item that falls short, FIELD is the first constraint
  that it misses (title, price, service, sku & attrs); or `order` (one stands at another place), `absent` (fewer
  ids than rewards), `unknown` (no such product), `not_gold` (nothing is stated that could be judged).
* shop: all items fit, but they do not come from one shop.
* budget: all items fit, but their total does not.

Without one:

* error: the engine failed.
* format: replies broke the form until the end, or a recommendation named its products in a form that cannot be read.
* loop: it was cut off, and at least half of its calls repeat an earlier one.
* context, length, turns: the context, a turn's limit of tokens, or the limit of turns or of time cut it off.
* gave_up: it ended by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oresmith.arena.catalogue import Product
from oresmith.arena.scoring import TitleRule
from oresmith.arena.scoring_items import judge_item
from oresmith.evaluation.played import UNKNOWN, Played

MISSING, UNSCORED = "missing", "unscored"
FIELDS = ("title", "price", "service", "sku & attrs")
"""Of constraints, in the order in which they are looked at."""
CLASSES = (
    MISSING,
    UNSCORED,
    "error",
    "format",
    "loop",
    "context",
    "length",
    "turns",
    "gave_up",
    "not_found",
    *(f"wrong_item:{what}" for what in (*FIELDS, "order", "absent", "unknown", "not_gold")),
    "shop",
    "budget",
)
"""In the order in which they are shown."""
LOOP_CALLS = 4
"""With fewer calls nothing is called a loop."""
_CUT = {"context": "context", "length": "length", "turns": "turns", UNKNOWN: "turns"}

Fits = Callable[[int, Product], bool]
"""Whether a product meets the reward at a place in full."""


def without_recommendation(played: Played) -> str:
    """The class of a rollout that recommends nothing."""
    if played.ended == "error":
        return "error"
    if played.ended == "malformed" or played.recommends:
        return "format"
    cut = _CUT.get(played.ended)
    if cut and played.calls >= LOOP_CALLS and 2 * played.repeats >= played.calls:
        return "loop"
    return cut or "gave_up"


def wrong_item(
    rewards: Sequence[dict[str, Any]], products: Sequence[Product | None], titles: TitleRule | None, fits: Fits
) -> str | None:
    """What is wrong with the first item that does not meet its reward; None where all do.

    Args:
        rewards: of the problem.
        products: all that were recommended, by position; None for an id that does not exist.
        titles: the scorer's rule.
        fits: whether a product meets a reward.
    """
    for place, reward in enumerate(rewards):
        product = products[place] if place < len(products) else None
        if product is not None and fits(place, product):
            continue
        others = (other for at, other in enumerate(products) if at != place and other is not None)
        if any(fits(place, other) for other in others):
            return "wrong_item:order"
        if product is None:
            return "wrong_item:unknown" if place < len(products) else "wrong_item:absent"
        item = judge_item(product, reward, titles)
        return f"wrong_item:{next((field for field in item.stated if item.fields[field] < 1), 'not_gold')}"
    return None
