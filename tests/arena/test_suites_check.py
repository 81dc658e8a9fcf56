"""A suite from anywhere is checked: what cannot be solved is counted by name, and no content makes the check fail."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.arena.catalogue import Product, load_catalogue
from oresmith.arena.problems import load_problems
from oresmith.arena.suites import check_suite
from oresmith.errors import OresmithError
from oresmith.records import Problem
from tests.arena.suites_build import catalogue_of, open_suite, shop_of
from tests.leakage.examples import json_values
from tests.shared import CATALOGUE, PROBLEMS, needs_shared

PRODUCTS = {
    "a": Product(product_id="a", shop_id="s1", title="A", price=100.0, service=["COD"], attributes={"fit": ["slim"]}),
    "b": Product(product_id="b", shop_id="s2", title="B", price=50.0, service=[], sku_options={"1": {"size": "m"}}),
    "c": Product(product_id="c", shop_id="s1", title="C", price=25.0, service=[]),
}
A = {"product_id": "a", "title": ["A"], "attributes": [{"fit": ["slim"]}]}
B = {"product_id": "b", "title": ["B"], "sku_options": [{"size": "m"}]}
C = {"product_id": "c", "title": ["C"]}
FIXED: dict[str, Any] = {
    "voucher_type": "platform",
    "threshold": 120,
    "discount_type": "fixed",
    "face_value": 30,
    "discount": None,
    "cap": None,
    "price_after_voucher": 120.0,
    "budget": 125,
}
SHARE = FIXED | {"discount_type": "percentage", "discount": 0.5, "cap": 30}


def problem(category: str, reward: Any, voucher: Any = None) -> Problem:
    return Problem(problem_id="p", query="q", category=category, reward=reward, voucher=voucher)


@pytest.mark.parametrize(
    "good",
    [
        problem("product", A),
        problem("product", C),
        problem("shop", [A, C]),
        problem("voucher", [A, B], FIXED),
        problem("voucher", [A, B], SHARE),
        problem("voucher", [A, C], FIXED | {"voucher_type": "shop", "price_after_voucher": 95}),
    ],
)
def test_what_can_be_solved_passes(good: Problem) -> None:
    found = check_suite([good], PRODUCTS)
    assert (found.checked, dict(found.faults)) == (1, {})
    found.require("suite")


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (problem("product", {**A, "service": ["official"]}), "unsatisfiable"),
        (problem("product", {**A, "price": [{"less than": [None, 99]}]}), "unsatisfiable"),
        (problem("product", {**B, "sku_options": [{"size": "l"}]}), "unsatisfiable"),
        (problem("product", {**A, "product_id": "nowhere"}), "gold_missing"),
        (problem("shop", [A, B]), "several_shops"),
        (problem("shop", [A, A]), "unsatisfiable"),
        (problem("voucher", [A, B], FIXED | {"voucher_type": "shop"}), "voucher_sums"),
        (problem("voucher", [A, B], FIXED | {"threshold": 151}), "voucher_sums"),
        (problem("voucher", [A, B], FIXED | {"budget": 119}), "voucher_sums"),
        (problem("voucher", [A, B], FIXED | {"price_after_voucher": 119.9}), "voucher_sums"),
        (problem("voucher", [A, B], SHARE | {"cap": 29}), "voucher_sums"),
        (problem("voucher", [A, B], FIXED | {"voucher_type": "bank"}), "voucher_sums"),
        (problem("voucher", [A, B], FIXED | {"discount_type": "magic"}), "malformed"),
        (problem("voucher", [A, B], None), "malformed"),
        (problem("product", None), "gold_missing"),
    ],
)
def test_what_cannot_be_solved_is_counted_and_refused_by_name(bad: Problem, fault: str) -> None:
    found = check_suite([bad], PRODUCTS)
    assert dict(found.faults) == {fault: 1}
    assert found.places[fault][0].startswith("p: ")
    with pytest.raises(OresmithError, match=f"my-suite(.|\n)*{fault}"):
        found.require("my-suite")


def test_an_id_that_stands_twice_is_a_fault_and_a_query_that_does_is_counted() -> None:
    found = check_suite([problem("product", A), problem("product", A)], PRODUCTS)
    assert dict(found.faults) == {"duplicate_id": 1}
    assert found.queries_twice == 2


def test_problems_of_other_kinds_are_passed_over() -> None:
    assert check_suite([problem("web", A), Problem(query="q")], PRODUCTS).checked == 0


def test_a_shop_serves_as_well_as_a_catalogue() -> None:
    problems = [made.problem for made in open_suite(1).problems]
    for catalogue in (shop_of(1), catalogue_of(shop_of(1))):
        found = check_suite(problems, catalogue)
        assert (found.checked, dict(found.faults)) == (len(problems), {})


def test_a_price_that_changed_since_is_found() -> None:
    products = catalogue_of(shop_of(1))
    made = next(one for one in open_suite(1).problems if one.problem.voucher is not None)
    gold = made.plan.golds()[0]
    products[gold] = msgspec.structs.replace(products[gold], price=products[gold].price + 1)
    assert dict(check_suite([made.problem], products).faults) == {"voucher_sums": 1}


@given(st.sampled_from(["product", "shop", "voucher"]), json_values, json_values)
def test_nothing_that_a_problem_holds_raises(category: str, part: Any, voucher: Any) -> None:
    for reward in (part, [part], {**A, "attributes": part}, [{**B, "sku_options": [part], "price": part}]):
        for odd in (voucher, FIXED | {"cap": voucher}):
            assert check_suite([problem(category, reward, odd)], PRODUCTS).checked == 1


@needs_shared
def test_every_real_problem_is_met_by_its_own_gold_products() -> None:
    found = check_suite(load_problems(PROBLEMS), load_catalogue(CATALOGUE))
    assert (found.checked, dict(found.faults)) == (750, {})
