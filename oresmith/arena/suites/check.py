"""Check a suite, ours or another's, against a catalogue: is every reward met by its gold, and is every sum right?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from oresmith.arena.catalogue import Product
from oresmith.arena.documents import Document, product_of
from oresmith.arena.problems import gold_ids
from oresmith.arena.scoring import ScoreError, score
from oresmith.arena.suites.vouchers import fault_of
from oresmith.arena.suites.wishes import count_of, meets, stated_of
from oresmith.errors import OresmithError
from oresmith.records import Problem

KEPT = 5
"""Problems named of each fault."""
_SHAPE_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, ScoreError)


class HasDocuments(Protocol):
    """The part of a `Shop` that is needed here."""

    def get(self, product_id: str) -> Document | None:
        """The whole document; None where there is none."""


class SuiteCheck:
    """What was found: problems checked, and faults by name with the first problems that have them."""

    def __init__(self) -> None:
        self.checked = 0
        self.faults: Counter[str] = Counter()
        self.places: dict[str, list[str]] = {}
        """Fault -> "problem id: what exactly", the first `KEPT`."""
        self.without_id = 0
        """ShoppingBench's own files state none."""
        self.queries_twice = 0
        """Problems whose query another one has: allowed, but they cannot be told apart by it."""
        self.unstated = 0
        """Rewards without any constraint: met by nothing but their gold product."""

    def reject(self, fault: str, where: str) -> None:
        """Count a fault."""
        self.faults[fault] += 1
        places = self.places.setdefault(fault, [])
        if len(places) < KEPT:
            places.append(where)

    def require(self, suite: str) -> None:
        """Refuse a suite with faults.

        Raises:
            OresmithError: naming the suite, the faults with their counts and the first problems that have them.
        """
        if not self.faults:
            return
        named = "; ".join(f"{count} {fault} ({self.places[fault][0]})" for fault, count in self.faults.most_common(4))
        raise OresmithError(
            "the suite cannot be solved as it stands",
            where=suite,
            expected="every reward met by its gold product, every voucher's sums right, every id once",
            got=named[:600],
            todo="correct or remove these problems",
        )


def check_suite(problems: Iterable[Problem], catalogue: Mapping[str, Product] | HasDocuments) -> SuiteCheck:
    """Check problems against a catalogue; never raises on what they hold.

    Faults: `duplicate_id`, `gold_missing` (no such product), `unsatisfiable` (the gold product does not meet
    a stated constraint, or recommending the golds gives no success), `several_shops` (golds of a shop problem),
    `voucher_sums`, `malformed`.

    Args:
        problems: of category product, shop or voucher; others are passed over.
        catalogue: products by id, or a shop.
    """
    found, ids, queries = SuiteCheck(), Counter[str](), Counter[str]()
    get = _getter(catalogue)
    for problem in problems:
        if problem.category not in ("product", "shop", "voucher"):
            continue
        found.checked += 1
        name = str(problem.problem_id or problem.query)[:80]
        ids[str(problem.problem_id)] += 1
        queries[problem.query or ""] += 1
        if problem.problem_id is None:
            found.without_id += 1
        elif ids[str(problem.problem_id)] == 2:
            found.reject("duplicate_id", name)
        try:
            fault = _fault(problem, get, found)
        except _SHAPE_FAULTS as error:
            fault = ("malformed", type(error).__name__)
        if fault is not None:
            found.reject(fault[0], f"{name}: {fault[1]}")
    found.queries_twice = sum(count for count in queries.values() if count > 1)
    return found


def _getter(catalogue: Mapping[str, Product] | HasDocuments) -> Callable[[str], Product | None]:
    if isinstance(catalogue, Mapping):
        return catalogue.get
    shop = catalogue

    def get(product_id: str) -> Product | None:
        document = shop.get(product_id)
        return None if document is None else product_of(document)

    return get


def _fault(problem: Problem, get: Callable[[str], Product | None], found: SuiteCheck) -> tuple[str, str] | None:
    golds, rewards = gold_ids(problem), _rewards(problem)
    products = {gold: product for gold in golds if (product := get(gold)) is not None}
    missing = [gold for gold in golds if gold not in products]
    if missing or len(golds) != len(rewards) or not golds:
        return "gold_missing", ", ".join(missing)[:80] or "no gold product stated"
    basket = [products[gold] for gold in golds]
    for product, reward in zip(basket, rewards, strict=True):
        stated = stated_of(reward)
        if count_of(stated) == 0:
            found.unstated += 1
        elif meets(product, stated) < 1:
            return "unsatisfiable", f"product {product.product_id[:40]} does not meet its own reward"
    if problem.category == "shop" and len({product.shop_id for product in basket}) > 1:
        return "several_shops", "the gold products are not sold by one shop"
    if problem.category == "voucher" and (wrong := fault_of(problem.voucher, basket)) is not None:
        return "voucher_sums", wrong
    if not score(problem, _recommending(golds), products).success:
        return "unsatisfiable", "recommending the gold products is no success"
    return None


def _rewards(problem: Problem) -> list[dict[str, Any]]:
    return problem.reward if isinstance(problem.reward, list) else [problem.reward]


def _recommending(ids: list[str]) -> list[dict[str, Any]]:
    """The shortest dialogue that recommends products."""
    call = {"name": "recommend_product", "parameters": {"product_ids": ",".join(ids)}}
    return [{"completion": {"message": {"think": "", "tool_call": [call], "response": ""}}, "extra_info": {}}]
