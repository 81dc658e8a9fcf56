"""ORO's "production-strict" outcome scorer as pure functions (sn15.md section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oresmith.arena.catalogue import Product
from oresmith.arena.scoring_items import (
    Item,
    TitleRule,
    judge_item,
    shop_count,
    total_price,
    within_budget,
)
from oresmith.arena.scoring_steps import (
    ScoreError,
    format_score,
    last_recommendation,
    length_score,
    recommended_ids,
)
from oresmith.records import Problem, Record

__all__ = [
    "SCORER",
    "Said",
    "Score",
    "ScoreError",
    "TitleRule",
    "read_dialogue",
    "recommended_ids",
    "score",
    "score_envelope",
    "score_said",
    "scorer_name",
]

SCORER = "oresmith-strict/1"
"""Name and version of the scorer; a change that can change a score changes the version."""

_EXTRA = {"shop": "shop", "voucher": "budget"}
"""Category -> the key that it adds to the score, which success needs as well; product adds none."""

SHAPE_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a dialogue, a product or a reward of the wrong shape can raise."""


class Score(Record, frozen=True):
    """The outcome of one trajectory."""

    scorer: str
    """See `scorer_name`."""
    score: dict[str, float]
    """length, format and, where an item could be judged, product, gt, rule, title, price, service, "sku & attrs" (all
    0 to 1), plus `shop` or `budget` (0 or 1). An absent key counts as 0."""
    success: bool


def score(
    problem: Problem,
    dialogue: object,
    products: Mapping[str, Product],
    *,
    titles: TitleRule | None = None,
) -> Score:
    """Score a raw SN15 dialogue.

    Args:
        problem: with category, reward and, for vouchers, voucher.
        dialogue: the list of steps as logged, of whatever shape. No step at all scores 0.
        products: by id; an id that is not in it does not exist.
        titles: judges the title of a product that is not the gold one; None (as where no embedding model is at
            hand) leaves that title uncounted.

    Errors: ScoreError, and no other, where ORO's scorer raises.
    """
    _category(problem)
    return score_said(problem, read_dialogue(dialogue), products, titles=titles)


class Said(Record, frozen=True):
    """What a dialogue comes to before it is held against a problem."""

    length: float = 0.0
    format: float = 0.0
    ids: tuple[str, ...] = ()
    """Of the last recommendation."""


def read_dialogue(dialogue: object) -> Said:
    """The first half of `score`, which needs neither problem nor products. Errors: ScoreError."""
    if not isinstance(dialogue, list):
        raise ScoreError("there is no dialogue to score", expected="a list of steps")
    try:
        length, form = length_score(dialogue), format_score(dialogue)
        return Said(length=length, format=form, ids=tuple(recommended_ids(last_recommendation(dialogue))))
    except SHAPE_FAULTS as error:
        raise _malformed(error) from error


def score_said(
    problem: Problem, said: Said, products: Mapping[str, Product], *, titles: TitleRule | None = None
) -> Score:
    """The second half of `score`; arguments and errors as there."""
    category = _category(problem)
    values = {"length": said.length, "format": said.format}
    try:
        if category == "product":
            values |= _score_product(problem.reward, said.ids, products, titles)
        else:
            values |= _score_several(problem, category, said.ids, products, titles)
    except SHAPE_FAULTS as error:
        raise _malformed(error) from error
    return Score(scorer=scorer_name(titles), score=values, success=_succeeds(category, values))


def _category(problem: Problem) -> str:
    category = (problem.category or "").lower()
    if category not in ("product", *_EXTRA) or problem.reward is None:
        raise ScoreError("the problem cannot be scored", expected="category product, shop or voucher, with a reward")
    return category


def _malformed(error: Exception) -> ScoreError:
    return ScoreError("a step, reward or product is malformed", got=type(error).__name__)


def scorer_name(titles: TitleRule | None = None) -> str:
    """Name and version of the scorer; with title similarity also its model and threshold, because the scores differ."""
    return SCORER if titles is None else f"{SCORER}+title({titles.model})>={titles.threshold}"


def score_envelope(
    problem: Problem, dialogue: object, products: Mapping[str, Product], titles: TitleRule | None = None
) -> Score:
    """Score as the arena does for a logged problem: like `score`, but a dialogue without steps is not scored.

    Errors: ScoreError.
    """
    if not dialogue:
        raise ScoreError("there is no dialogue to score", expected="a step at least")
    return score(problem, dialogue, products, titles=titles)


def _succeeds(category: str, values: dict[str, float]) -> bool:
    """Tell success: rule, and for shop and voucher the added key, of at least 1."""
    needed = ["rule", _EXTRA[category]] if category in _EXTRA else ["rule"]
    return all(values.get(key, 0) >= 1 for key in needed)


def _score_product(
    reward: dict[str, Any], ids: Sequence[str], products: Mapping[str, Product], titles: TitleRule | None
) -> dict[str, float]:
    """Judge the first id alone; no key at all where there is none or it does not exist."""
    product = products.get(ids[0]) if ids else None
    return {} if product is None else _mean([judge_item(product, reward, titles)], 1)


def _score_several(
    problem: Problem, category: str, ids: Sequence[str], products: Mapping[str, Product], titles: TitleRule | None
) -> dict[str, float]:
    """Judge ids against rewards by position; missing ones score 0, ids beyond the rewards are ignored."""
    rewards = problem.reward
    found = [(products[key], reward) for key, reward in zip(ids, rewards, strict=False) if key in products]
    items = [judge_item(product, reward, titles) for product, reward in found]
    fitting = [product for (product, _), item in zip(found, items, strict=True) if item.rule > 0]
    total, shops = total_price(fitting), shop_count(fitting)
    complete = len(fitting) == len(rewards)
    extra = complete and (shops == 1 if category == "shop" else within_budget(problem.voucher, total, shops))
    return {**_mean(items, len(rewards)), _EXTRA[category]: int(extra)}


def _mean(items: list[Item], count: int) -> dict[str, float]:
    """Sum up the items, in order, and divide by the number of rewards; no key where there is no reward."""
    if count == 0:
        return {}
    sums = dict.fromkeys(("product", "gt", "rule", "title", "price", "service", "sku & attrs"), 0.0)
    for item in items:
        for key, value in {"product": 1, "gt": item.gold, "rule": item.rule, **item.fields}.items():
            sums[key] += value
    return {key: value / count for key, value in sums.items()}
