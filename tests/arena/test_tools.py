"""Tools answer as SN15's runtime does, and no call of any shape makes them raise."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.arena.tools import Toolbox, search, tool_call_id, view
from tests.arena.tiny_shop import TinyShop
from tests.shared import SN15, needs_shared

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = ("find_product", "recommend_product", "terminate", "view_product_information")
PARAMETERS = st.dictionaries(
    st.sampled_from(["q", "page", "shop_id", "price", "sort", "service", "product_ids", "status", "self", ""]), JSON
)


def real_calls() -> Iterator[dict[str, Any]]:
    """The tool calls of the real traces of the reference agent and of a miner's."""
    for name in ("traces_reference", "traces_reference_newruntime", "traces_miner_b"):
        with gzip.open(SN15 / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                for step in json.loads(line)["dialogue"] or []:
                    yield from step["completion"]["message"].get("tool_call", [])


@needs_shared
def test_sentences_errors_and_ids_are_those_of_the_real_runtime() -> None:
    toolbox, sentences, errors, ids = Toolbox(TinyShop()), 0, 0, 0
    for call in real_calls():
        name, parameters, result = call["name"], call["parameters"], call["result"]
        assert tool_call_id(name, parameters) == call["tool_call_id"]
        ids += 1
        if name in ("recommend_product", "terminate"):
            assert toolbox.call(name, parameters) == result
            sentences += 1
        elif isinstance(result, str) and name in NAMES:
            assert toolbox.call(name, parameters) == result
            errors += 1
        elif isinstance(result, str) and "is not registered" in result:
            listed = "Available tools: "
            ours, theirs = toolbox.call(name, parameters), result
            assert ours.partition(listed)[0] == theirs.partition(listed)[0]
    assert (ids > 2000, sentences > 600, errors > 5) == (True, True, True)


def test_an_unknown_tool_is_told_which_there_are() -> None:
    assert Toolbox(TinyShop()).call("product_search", {"q": "x"}) == (
        "Error: Tool 'product_search' is not registered. Available tools: "
        "find_product, recommend_product, terminate, view_product_information"
    )


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("find_product", {}, "find_product() missing 1 required positional argument: 'q'"),
        ("find_product", {"q": "x", "brand": "y"}, "find_product() got an unexpected keyword argument 'brand'"),
        ("find_product", {"q": None}, "quote_from_bytes() expected bytes"),
        ("find_product", {"q": "x", "service": 5}, "argument of type 'int' is not iterable"),
        ("view_product_information", [], "view_product_information() argument after ** must be a mapping, not list"),
        ("terminate", {"self": 1}, "terminate() got an unexpected keyword argument 'self'"),
    ],
)
def test_a_malformed_call_gives_the_words_of_python(name: str, parameters: Any, words: str) -> None:
    assert Toolbox(TinyShop()).call(name, parameters) == f"Error: {words}"


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, {"page": 1}),
        ({"page": "2"}, {"page": 2}),
        ({"sort": "default", "service": "default"}, {"page": 1}),
        ({"service": "COD,default,official"}, {"page": 1, "service": "COD,official"}),
        ({"shop_id": 71, "price": ["1-2", "3-4"]}, {"page": 1, "shop_id": "71", "price": "1-2"}),
    ],
)
def test_arguments_reach_the_search_as_a_url_would_carry_them(given: dict[str, Any], asked: dict[str, Any]) -> None:
    shop = TinyShop()
    Toolbox(shop).call("find_product", {"q": "red kettle", **given})
    assert shop.asked == [{"q": "red kettle", **asked}]


@pytest.mark.parametrize("page", [None, 1.0, True, "", "x", "²", "9" * 40, -1, [], {}])
def test_a_page_that_is_no_number_finds_nothing(page: Any) -> None:
    assert Toolbox(TinyShop()).call("find_product", {"q": "kettle", "page": page}) == []


def test_a_url_without_query_page_or_ids_finds_nothing() -> None:
    shop = TinyShop()
    assert search(shop, {"q": "kettle"}) == search(shop, {"page": "1"}) == search(shop, {"q": "", "page": "1"}) == []
    assert view(shop, {}) == []
    assert len(search(shop, {"q": "kettle", "page": "3"})) == 5


@settings(deadline=None)
@given(st.sampled_from(NAMES) | JSON, PARAMETERS | JSON)
def test_no_call_raises_and_every_result_is_json(name: Any, parameters: Any) -> None:
    orjson.dumps(Toolbox(TinyShop(3)).call(name, parameters))


def test_half_surrogates_and_endless_nesting_come_back_as_json() -> None:
    toolbox = Toolbox(TinyShop(1))
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    orjson.dumps(toolbox.call("recommend_product", {"product_ids": "\ud800"}))
    orjson.dumps(toolbox.call("find_product", {"q": "\ud800"}))
    assert toolbox.call("recommend_product", {"product_ids": deep}).startswith("Error: maximum recursion depth")
    assert len(toolbox.call("x" * 10_000, {})) <= 2000


class _Broken(TinyShop):
    def find_product(self, q: str, *, page: int = 1, **filters: str | None) -> list[dict[str, Any]]:
        raise RuntimeError("the index is gone")


def test_a_failing_search_is_an_error_result() -> None:
    assert Toolbox(_Broken()).call("find_product", {"q": "x"}) == "Error: the index is gone"
