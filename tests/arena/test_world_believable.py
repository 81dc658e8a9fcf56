"""The world beside a real catalogue: what is measured, and that the medians lie within a factor of two."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.arena.believable import (
    FACTOR,
    NOT_FOUND,
    REFERENCE,
    believable,
    compare,
    count_constraints,
    medians,
)
from oresmith.arena.documents import Document, read_documents
from oresmith.arena.problems import load_problems
from oresmith.arena.world import documents
from oresmith.records import Problem
from tests.arena.real import SN15, needs_shared

OF_PRODUCTS = {"title_characters", "title_words", "attributes", "sku_options", "price"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def product(number: int, title: str = "A Kettle", price: float = 10.0) -> Document:
    return Document(product_id=str(number), shop_id="1", title=title, price=price, attributes={"a": ["x", "y"]})


class Pages:
    """A search whose hits for any query are 30 products, 0 first."""

    def find_product(self, q: str, *, page: int = 1, **filters: Any) -> list[dict[str, Any]]:
        return [{"product_id": str(number)} for number in range(30)[(page - 1) * 10 : page * 10]]

    def view_product_information(self, product_ids: str) -> list[dict[str, Any]]:
        raise AssertionError("a measurement looks at no details")

    def get(self, product_id: str) -> Document | None:
        raise AssertionError("a measurement looks at no document")


@pytest.mark.parametrize("seed", [1, 2, 77])
def test_the_products_of_any_seed_are_believable(seed: int) -> None:
    found = compare(medians(believable(documents(seed, 3000))))
    assert {likeness.name for likeness in found} == OF_PRODUCTS
    assert all(likeness.believable for likeness in found), found


@needs_shared
def test_the_recorded_medians_are_those_of_the_real_catalogue_and_problems() -> None:
    problems = load_problems(SN15 / "problems.jsonl.gz")
    figures = believable(read_documents(SN15 / "catalogue.jsonl.gz"), problems)
    assert (figures.products, figures.problems) == (4818, 750)
    assert medians(figures) == {name: value for name, value in REFERENCE.items() if name != "gold_rank"}


@needs_shared
def test_the_recorded_rank_is_that_of_our_search_over_the_real_catalogue() -> None:
    search = pytest.importorskip("oresmith.arena.search")
    with search.index_of(read_documents(SN15 / "catalogue.jsonl.gz")) as shop:
        figures = believable([], load_problems(SN15 / "problems.jsonl.gz"), shop)
    assert figures.spreads["gold_rank"].count == 1700
    assert figures.spreads["gold_rank"].median == REFERENCE["gold_rank"]


@needs_shared
def test_the_world_is_believable_beside_the_real_catalogue() -> None:
    real = medians(believable(read_documents(SN15 / "catalogue.jsonl.gz")))
    assert all(likeness.believable for likeness in compare(medians(believable(documents(1, 3000))), real))


def test_figures_are_counted_per_product_and_per_reward() -> None:
    shelf = [product(0, "One Two", 5.0), product(1, "Three", 7.0), product(2, "Three", 9.0)]
    reward = {"product_id": "12", "service": ["COD"], "price": [{"less than": [None, 9]}]}
    wanted = [
        Problem(query="q", reward=reward),
        Problem(query="q", reward=[reward | {"product_id": "0"}, {"product_id": "absent"}]),
    ]
    figures = believable(shelf, wanted, Pages())
    assert (figures.products, figures.problems) == (3, 2)
    assert medians(figures) == {
        "title_characters": 5,
        "title_words": 1,
        "attributes": 1,
        "sku_options": 0,
        "price": 7.0,
        "constraints": 2,
        "gold_rank": 13,
    }
    assert (figures.spreads["gold_rank"].low, figures.spreads["gold_rank"].high) == (1, NOT_FOUND)
    assert figures.spreads["constraints"].count == 3


def test_without_a_search_no_rank_is_claimed() -> None:
    figures = believable([product(0)], [Problem(query="q", reward={"product_id": "0"})])
    assert set(figures.spreads) == OF_PRODUCTS | {"constraints"}


def test_constraints_are_counted_as_the_scorer_counts_them() -> None:
    reward = {
        "title": ["not counted"],
        "attributes": [{"material": ["steel", "glass"]}, {"style": ["plain"]}],
        "sku_options": [{"size": "m", "color": "red"}],
        "price": [{"between": [1, 2]}],
        "service": ["COD", "official"],
    }
    assert count_constraints(reward) == 3 + 2 + 1 + 2
    assert count_constraints({}) == 0


@given(st.dictionaries(st.sampled_from(["attributes", "sku_options", "price", "service"]), JSON), JSON)
def test_rewards_of_any_shape_are_measured(reward: dict[str, Any], other: Any) -> None:
    figures = believable([], [Problem(query="q", reward=[reward, other]), Problem(reward=other)], Pages())
    assert figures.problems == 2
    assert figures.spreads["constraints"].count == figures.spreads["gold_rank"].count >= 1


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio", "alike"),
    [(2, 1, 2.0, True), (1, 2, 0.5, True), (2.1, 1, 2.1, False), (0, 0, 1.0, True), (1, 0, float("inf"), False)],
)
def test_medians_within_a_factor_of_two_are_believable(ours: float, theirs: float, ratio: float, alike: bool) -> None:
    [found] = compare({"price": ours, "only ours": 1}, {"price": theirs, "only theirs": 1})
    assert FACTOR == 2
    assert (found.name, found.ours, found.theirs, found.ratio, found.believable) == (
        "price",
        ours,
        theirs,
        ratio,
        alike,
    )
