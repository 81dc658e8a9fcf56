"""Calls that nobody should make: answered with a list, within a bounded amount of work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.arena.documents import Document
from oresmith.arena.search import Searcher, index_of

DOCUMENTS = [
    Document(
        product_id=str(place),
        shop_id=str(place % 2),
        title="red mug",
        price=float(place),
        service=["COD"] if place % 3 else [],
    )
    for place in range(12)
]
ALL = [str(place) for place in range(10)]


@pytest.fixture(scope="module")
def shop() -> Iterator[Searcher]:
    with index_of(DOCUMENTS, depth=9) as searcher:
        yield searcher


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None) | st.sampled_from("\ud800\0 -,"), max_size=20)
    | st.sampled_from(["mug", "1-2", "-", "nan-inf", "1e999-", "priceasc", "COD,,flashsale", "5", "0x1", "²", "١"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(("q", "page", "shop_id", "price", "sort", "service"), anything)))
def test_no_value_of_a_parameter_raises(shop: Searcher, call: dict[str, Any]) -> None:
    hits = shop.find_product(**call)
    assert len(hits) <= 9
    assert shop.find_product("mug", page=1, sort=call["sort"]) != []
    assert isinstance(shop.view_product_information(call["q"]), list)
    assert shop.get(call["q"]) is None or str(call["q"]) in [*ALL, "10", "11"]


def ids(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["product_id"] for hit in hits]


@pytest.mark.parametrize("q", ["", " \t", "the of and", '"+-"', None, [], {}, ["mug"], True, "\ud800", "\0"])
def test_a_query_without_words_finds_nothing(shop: Searcher, q: Any) -> None:
    assert shop.find_product(q) == []


@pytest.mark.parametrize(
    "page", [0, 6, -1, "0", "6", "", "one", "1.0", 1.0, True, None, [1], 1 << 20_000, "1" * 5000, "²"], ids=lambda _: ""
)
def test_a_page_that_is_none_of_five_gives_nothing(shop: Searcher, page: Any) -> None:
    assert shop.find_product("mug", page=page) == []


@pytest.mark.parametrize(
    "price", ["cheap", "5", "1-2-3", "--", "-", "nan-nan", "a-b", 5, ["1-2"], "1-" + "9" * 5000, None]
)
def test_a_price_that_is_no_range_filters_nothing(shop: Searcher, price: Any) -> None:
    assert ids(shop.find_product("mug", price=price)) == ALL[:9]


@pytest.mark.parametrize("price", ["2-4", " 2 - 4 ", "2.0-4e0", "1.5-4.5"])
def test_bounds_are_numbers_and_inclusive(shop: Searcher, price: str) -> None:
    assert ids(shop.find_product("mug", price=price)) == ["2", "3", "4"]


@pytest.mark.parametrize("service", ["", "cod", "drone", ",", ["COD"], 1])
def test_an_unknown_service_filters_nothing(shop: Searcher, service: Any) -> None:
    assert ids(shop.find_product("mug", service=service)) == ALL[:9]
    assert ids(shop.find_product("mug", service="drone,COD")) == ["1", "2", "4", "5", "7", "8"]


def test_numbers_stand_for_the_text_that_http_would_carry(shop: Searcher) -> None:
    assert ids(shop.find_product("mug", shop_id=1, page="1")) == ["1", "3", "5", "7"]
    assert ids(shop.view_product_information(7)) == ["7"]


def test_a_hostile_query_is_cut_to_a_bounded_number_of_words(shop: Searcher) -> None:
    flood = " ".join(f"w{number}" for number in range(20_000))
    assert len(shop.terms(flood)) == 128
    assert shop.find_product("mug " + flood)
    assert shop.find_product(flood + " mug") == []
    assert shop.find_product("x" * 100_000) == []
    assert len(shop.terms("mug\0\ud800red" * 50_000)) <= 4
    assert shop.view_product_information("1," * 100_000) == []
