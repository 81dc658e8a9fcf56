"""Each failed rollout has exactly one class, and the class says what went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from oresmith.arena.catalogue import Catalogue, Product
from oresmith.arena.scoring import TitleRule
from oresmith.evaluation.failures import CLASSES, MISSING, UNSCORED, wrong_item
from oresmith.evaluation.problems import Case
from oresmith.evaluation.scores import Shelf
from oresmith.evaluation.suite import Attempts
from tests.evaluation.talks import CATALOGUE, DONE, PROBLEMS, find, recommend, scored, talk, view

CASES: dict[str, list[dict[str, Any]]] = {
    UNSCORED: [talk("product", find(1, 8), recommend("8"), DONE)],
    "error": [talk("product", find(1), finish="error"), talk("product", finish="error"), talk("product")],
    "format": [
        talk("product", find(1), "<tool_call>{", finish="malformed", malformed=3),
        talk("product", find(1), recommend(["1"]), DONE, finish="terminated"),
        talk("product", find(1), recommend(1), DONE),
        talk("product", find(1), recommend(" , "), DONE),
    ],
    "loop": [
        talk("product", *[find(1)] * 4, finish="turns"),
        talk("product", *[find(1), view(1)] * 3, finish="context"),
        talk("product", *[find(1, q="a"), find(1, q="b"), find(1, q="c"), find(1, q="d")] * 2, finish="length"),
    ],
    "context": [talk("product", find(1), view(1), finish="context")],
    "length": [talk("product", find(1), "and on and on", finish="length")],
    "turns": [
        talk("product", *[find(1, q=str(n)) for n in range(9)], finish="turns"),
        talk("product", find(1), find(1), find(1), finish="turns"),
        talk("product", *[find(1, q=str(n)) for n in range(5)]),
    ],
    "gave_up": [
        talk("product", find(1), DONE),
        talk("product", find(2), "there is nothing", finish="stopped"),
        talk("product", *[find(1)] * 9, DONE),
        talk("product", *[find(1)] * 9, "I do not know"),
    ],
    "not_found": [
        talk("product", find(2, 3), recommend("2"), DONE),
        talk("product", recommend("77"), DONE),
        talk("shop", find(1, 7), recommend("1,7"), DONE)
        | {"messages": talk("shop", find(1), recommend("1,3"), DONE)["messages"]},
        talk("gold", find(1, 2), recommend("1")),
        talk("product", find(2), recommend("2"), *[find(2)] * 9, finish="turns"),
    ],
    "wrong_item:price": [talk("product", find(1, 2), recommend("2"), DONE)],
    "wrong_item:service": [
        talk("product", find(1, 3), recommend("3")),
        talk("product", find(5, 3), recommend("3"), finish="context"),
    ],
    "wrong_item:sku & attrs": [
        talk("product", find(1, 4), recommend("1"), recommend("4"), DONE),
        talk("shop", find(1, 6), recommend("1,3"), DONE),
        talk("voucher", find(1, 6), recommend("4,6"), DONE),
    ],
    "wrong_item:order": [
        talk("shop", find(1, 6), recommend("6,1"), DONE),
        talk("product", find(1, 2), recommend("2,1"), DONE),
    ],
    "wrong_item:absent": [talk("shop", find(1, 6), recommend("1"), DONE)],
    "wrong_item:unknown": [
        talk("product", find(1), recommend("77"), DONE),
        talk("shop", find(1, 6), recommend("1,77"), DONE),
    ],
    "wrong_item:not_gold": [talk("gold", find(9, 1), recommend("1"), DONE)],
    "shop": [talk("shop", find(5, 6), recommend("5,6"), DONE), talk("shop", find(1, 6), recommend("5,6"), DONE)],
    "budget": [talk("voucher", find(1, 7), recommend("1,7"), DONE)],
}
NOT_BY_HAND = {MISSING, "wrong_item:title"}
"""Of a sample without a rollout, and only with a model of titles."""


@pytest.mark.parametrize(("name", "row"), [(name, row) for name, rows in CASES.items() for row in rows])
def test_a_scripted_failure_has_its_class(name: str, row: dict[str, Any], tmp_path: Path):
    found = scored(tmp_path, [row])
    assert found.table["failure"].to_list() == [name]
    assert found.table["success"].to_list() == [False]
    assert list(found.scores.overall.failures) == [name]
    assert [place.problem for place in found.scores.examples[name]] == [row["problem_id"]]


def test_every_class_is_among_the_scripted_failures():
    assert CASES.keys() | NOT_BY_HAND == set(CLASSES)


@pytest.mark.parametrize(
    "row",
    [
        talk("product", find(1), recommend("1"), DONE),
        talk("product", find(5), recommend("5"), *[find(2)] * 9, finish="turns"),
        talk("shop", find(1, 6), recommend("1,6"), finish="error"),
        talk("voucher", recommend("1,6")),
    ],
)
def test_a_success_has_no_class_however_it_ended(row: dict[str, Any], tmp_path: Path):
    found = scored(tmp_path, [row])
    assert found.table["failure"].to_list() == [None]
    assert found.table["success"].to_list() == [True]
    assert found.scores.overall.failures == {}


def test_what_was_recommended_unseen_and_is_right_was_not_to_be_found(tmp_path: Path):
    [failure] = scored(tmp_path, [talk("shop", find(6), recommend("1,3"), DONE)]).table["failure"]
    assert failure == "wrong_item:sku & attrs"


def test_with_a_model_of_titles_a_title_can_be_what_is_wrong():
    products = {one["product_id"]: msgspec.convert(one, Product) for one in CATALOGUE}
    titles = TitleRule("same", 1.0, lambda title, wanted: float(title == wanted))
    [attempts] = [Attempts(Case("product", PROBLEMS["product"], ""), "k", "k", [])]
    rewards, other = attempts.rewards, [products["5"]]
    shelf = Shelf(Catalogue(products), titles, {other[0].title, products["1"].title})
    assert (
        wrong_item(rewards, other, titles, lambda place, one: shelf.meets(attempts, place, one)) == "wrong_item:title"
    )
    bare = Shelf(Catalogue(products))
    assert wrong_item(rewards, other, None, lambda place, one: bare.meets(attempts, place, one)) is None
    unread = Shelf(Catalogue(products), titles, set())
    assert unread.meets(attempts, 0, products["1"])
    assert not unread.meets(attempts, 0, products["5"])


def test_failures_add_up_to_what_did_not_succeed(tmp_path: Path):
    rows = [row for rows in CASES.values() for row in rows]
    found = scored(tmp_path, [*rows, talk("product", find(1), recommend("1"), DONE)])
    overall = found.scores.overall
    assert sum(rate.k for rate in overall.failures.values()) == overall.asr.n - overall.asr.k == len(rows)
    assert {rate.n for rate in overall.failures.values()} == {len(rows) + 1}
    assert list(overall.failures) == [name for name in CLASSES if name in CASES]
