"""The score of each rollout: the strict outcome, what it missed, how it was conducted, and why it failed.

A problem's samples that were never played, cannot be read or cannot be scored count as failures and are listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from oresmith.arena.catalogue import Catalogue, Product, load_catalogue
from oresmith.arena.documents import product_of
from oresmith.arena.problems import gold_ids
from oresmith.arena.scoring import SHAPE_FAULTS, Score, ScoreError, TitleRule, score_said
from oresmith.arena.scoring_items import judge_item
from oresmith.arena.titles import Titling, title_rule
from oresmith.evaluation.failures import FIELDS, MISSING, UNSCORED, without_recommendation, wrong_item
from oresmith.evaluation.played import Played, shown_to
from oresmith.evaluation.suite import Attempts
from oresmith.evidence.outcome import check_golds, reward_titles
from oresmith.evidence.signals import safe_id
from oresmith.records import Problem
from schemas.scores import COLUMNS

if TYPE_CHECKING:
    from oresmith.arena.search import Searcher

Row = dict[str, Any]
"""Values by column of schemas/scores.py."""
_EXTRA = {"shop": ("shop", "one shop"), "voucher": ("budget", "budget")}
"""Category -> the scorer's key that success needs beside `rule`, and its column."""
_IDS = 50
"""Recommended ids that are looked at for what is wrong."""


class Shelf:
    """The products that a set of rollouts meets, and what each is worth to the problems.

    Args:
        products: all gold ones, and those that were shown, viewed or recommended, as far as the catalogue has them.
        titles: the scorer's rule.
        encoded: the titles that the rule can compare; no other product meets a reward.
    """

    def __init__(
        self, products: Catalogue, titles: TitleRule | None = None, encoded: Collection[str] = frozenset()
    ) -> None:
        self.products, self.titles = products, titles
        self._encoded = encoded
        self._met: dict[tuple[str, int, str], bool] = {}
        self._stated: dict[str, dict[str, int] | None] = {}

    def meets(self, attempts: Attempts, place: int, product: Product) -> bool:
        """Whether a product meets a reward of the problem in full; one of a wrong shape meets none."""
        key = (attempts.case.name, place, product.product_id)
        if key not in self._met:
            self._met[key] = self._meets(product, attempts.rewards[place])
        return self._met[key]

    def holds(self, attempts: Attempts, place: int, ids: Iterable[str]) -> bool:
        """Whether one of these products meets a reward of the problem."""
        products = (self.products.get(one) for one in ids)
        return any(self.meets(attempts, place, one) for one in products if one is not None)

    def stated(self, attempts: Attempts) -> dict[str, int] | None:
        """How many of the problem's rewards state each field; None where one is malformed."""
        name = attempts.case.name
        if name not in self._stated:
            try:
                golds = [(self.products[reward["product_id"]], reward) for reward in attempts.rewards]
                found = [judge_item(gold, reward).stated for gold, reward in golds]
                self._stated[name] = {field: sum(field in one for one in found) for field in FIELDS}
            except (ScoreError, *SHAPE_FAULTS):
                self._stated[name] = None
        return self._stated[name]

    def _meets(self, product: Product, reward: dict[str, Any]) -> bool:
        gold = product.product_id == reward.get("product_id")
        if self.titles is not None and not gold and _title(product) not in self._encoded:
            return False
        return meets(product, reward, self.titles)


def meets(product: Product, reward: dict[str, Any], titles: TitleRule | None) -> bool:
    """Whether a product meets a reward in full."""
    try:
        return judge_item(product, reward, titles).rule >= 1
    except (ScoreError, *SHAPE_FAULTS):
        return False


def _title(product: Product) -> str:
    return product.title if isinstance(product.title, str) else ""


def load_shelf(catalogue: Path, attempts: Sequence[Attempts], titling: Titling | None = None) -> Shelf:
    """Load the products that these rollouts need, and encode the titles that can matter.

    Of the products that were only shown, the titles of those are encoded that meet a reward in everything else.

    Args:
        catalogue: as for `load_products`.
        attempts: the problems of this catalogue with their rollouts.
        titling: the wish for title similarity.

    Raises:
        OresmithError: an unreadable catalogue, one that lacks gold products, or no model.
    """
    golds = {gold for one in attempts for gold in gold_ids(one.case.problem)}
    needed: dict[str, str] = {}
    shown: set[str] = set()
    recommended: set[str] = set()
    for one in attempts:
        for played in filter(None, one.samples):
            needed |= dict.fromkeys(gold_ids(one.case.problem), one.case.name)
            shown.update(shown_to(played), played.unshown)
            recommended.update(played.said.ids if played.said else ())
    products = load_products(catalogue, golds | shown | recommended)
    check_golds(products, needed, str(catalogue))
    if titling is None:
        return Shelf(products)
    compared = {_title(products[one]) for one in golds | recommended if one in products}
    bare = Shelf(products)
    for one in attempts:
        shown_here = (product for played in filter(None, one.samples) for product in shown_to(played))
        seen = {product for product in shown_here if product in products}
        compared.update(
            _title(products[product])
            for product in seen
            for place in range(len(one.rewards))
            if bare.meets(one, place, products[product])
        )
    wanted = {title for one in attempts for title in reward_titles(one.case.problem)}
    return Shelf(products, title_rule(titling, titling.encoder(), compared | wanted), compared)


def load_products(catalogue: Path, ids: Collection[str]) -> Catalogue:
    """Those of the products that there are.

    Args:
        catalogue: product documents, or a directory that `build_index` made of them.
        ids: of any text.

    Raises:
        OresmithError: an unreadable file or index.
    """
    if not catalogue.is_dir():
        return load_catalogue(catalogue, only=ids)
    from oresmith.arena.search import Searcher

    with Searcher.open(catalogue) as shop:
        return products_of(shop, ids)


def products_of(shop: Searcher, ids: Collection[str]) -> Catalogue:
    """As `load_products`, from an open index."""
    found = ((one, shop.get(one)) for one in sorted(ids))
    # A search takes ids less exactly than a file does.
    known = ((one, document) for one, document in found if document is not None and document.product_id == one)
    return Catalogue({one: product_of(document) for one, document in known})


def score_attempts(attempts: Sequence[Attempts], shelf: Shelf) -> Iterator[Row]:
    """A row for each sample of each problem, in their order; nothing raises, whatever a rollout did."""
    for one in attempts:
        for sample, played in enumerate(one.samples):
            yield _row(one, sample, played, shelf)


def _row(attempts: Attempts, sample: int, played: Played | None, shelf: Shelf) -> Row:
    problem = attempts.case.problem
    row: Row = dict.fromkeys(COLUMNS)
    row |= {
        "problem": safe_id(attempts.case.name),
        "key": attempts.key,
        "problem_id": safe_id(problem.problem_id),
        "shop": attempts.case.shop or None,
        "category": problem.category,
        "difficulty": problem.difficulty,
        "cluster": attempts.cluster,
        "sample": sample,
        "ended": MISSING,
        "success": False,
        "failure": MISSING,
        "format": 0.0,
        "found": 0.0,
    }
    if played is None:
        return row | _values(attempts, {}, shelf)
    row |= {name: getattr(played, name) for name in _COPIED} | _ids(played, shelf)
    ids = shown_to(played)
    found = [shelf.holds(attempts, place, ids) for place in range(len(attempts.rewards))]
    row["found"] = float(bool(found) and all(found))
    score, error = _judged(problem, played, shelf)
    if score is None:
        return row | _values(attempts, {}, shelf) | {"failure": UNSCORED, "error": error}
    failure = None if score.success else _failure(attempts, played, found, shelf)
    text = msgspec.json.encode(score.score).decode()
    scored = {"success": score.success, "failure": failure, "score": text, "format": played.form}
    return row | _values(attempts, score.score, shelf) | scored


_COPIED = (
    "file",
    "line",
    "ended",
    "calls",
    "repeats",
    "invalid_calls",
    "tool_errors",
    "malformed",
    "turns",
    "prompt_tokens",
    "completion_tokens",
)


def _judged(problem: Problem, played: Played, shelf: Shelf) -> tuple[Score | None, str | None]:
    """The strict score, or why there is none."""
    if played.said is None:
        return None, played.fault
    try:
        return score_said(problem, played.said, shelf.products, titles=shelf.titles), None
    except ScoreError as error:
        return None, error.what


def _values(attempts: Attempts, score: Mapping[str, float], shelf: Shelf) -> Row:
    """What the score says by column; a field's mean is over the rewards that state it, null where none does."""
    values: Row = {name: score.get(name, 0.0) for name in ("rule", "gt", "product")}
    stated = shelf.stated(attempts) or {}
    for field in FIELDS:
        if stating := stated.get(field):
            values[field] = min(round(score.get(field, 0.0) * len(attempts.rewards) / stating, 9), 1.0)
    if extra := _EXTRA.get(attempts.case.problem.category or ""):
        values[extra[1]] = score.get(extra[0], 0.0)
    return values


def _ids(played: Played, shelf: Shelf) -> Row:
    """Ids that were used without having been shown: by whether there is such a product."""
    known = sum(one in shelf.products for one in played.unshown)
    return {"invented": len(played.unshown) - known, "unseen": known}


def _failure(attempts: Attempts, played: Played, found: Sequence[bool], shelf: Shelf) -> str:
    ids = played.said.ids[:_IDS] if played.said else ()
    if not ids:
        return without_recommendation(played)
    for place, was_shown in enumerate(found):
        # What was recommended unseen and is right, was not to be found.
        if not was_shown and not shelf.holds(attempts, place, ids[place : place + 1]):
            return "not_found"

    def fits(place: int, product: Product) -> bool:
        return shelf.meets(attempts, place, product)

    wrong = wrong_item(attempts.rewards, [shelf.products.get(one) for one in ids], shelf.titles, fits)
    return wrong or ("shop" if attempts.case.problem.category == "shop" else "budget")
