"""Views: raw is what traces show, compact is short, countable, and free of control tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.arena.tools import Toolbox
from oresmith.arena.views import VIEWS, render, view_declaration, view_sha256, visible_ids
from oresmith.errors import OresmithError
from oresmith.traces.jsontext import dumps
from tests.arena.test_tools import JSON, NAMES, real_calls
from tests.arena.tiny_shop import TinyShop
from tests.shared import needs_shared

COMPACT = view_declaration("compact/1")
TOKENS = st.sampled_from(COMPACT.control)
HOSTILE = st.lists(st.text(max_size=6) | TOKENS | TOKENS.map(str.upper), max_size=6).map("".join)
PRODUCTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "title": HOSTILE,
            "product_id": HOSTILE,
            "price": st.floats() | HOSTILE,
            "service": st.lists(HOSTILE, max_size=3),
            "attributes": st.dictionaries(HOSTILE, st.lists(HOSTILE, max_size=6) | HOSTILE, max_size=12),
            "sku_options": st.dictionaries(st.text(max_size=2), st.dictionaries(HOSTILE, HOSTILE), max_size=12),
        },
    ),
    max_size=12,
)


def found(count: int) -> list[dict[str, Any]]:
    return TinyShop(50).find_product("kettle")[:count]


@needs_shared
def test_raw_is_what_a_normalised_real_trace_shows() -> None:
    for call in real_calls():
        result = call["result"]
        assert render("raw/1", call["name"], result) == (result if isinstance(result, str) else dumps(result))


@needs_shared
def test_compact_shows_each_id_of_a_real_page_and_is_shorter_than_raw() -> None:
    raw = compact = 0
    for call in real_calls():
        result = call["result"]
        if call["name"] == "find_product" and isinstance(result, list):
            assert visible_ids("compact/1", "find_product", result) == [one["product_id"] for one in result]
        if isinstance(result, list) and len(result) > 1:
            raw += len(render("raw/1", call["name"], result))
            compact += len(render("compact/1", call["name"], result))
    assert 0 < compact < 0.9 * raw


def test_compact_is_a_line_of_json_a_product_with_the_title_first_and_the_id_last() -> None:
    lines = render("compact/1", "find_product", found(3)).split("\n")
    assert (
        lines[1]
        == '{"title": "blue kettle number 1", "price": 101, "service": "COD", "shop_id": "71", "product_id": "1001"}'
    )
    assert [next(iter(json.loads(line))) for line in lines] == ["title"] * 3
    assert [list(json.loads(line))[-1] for line in lines] == ["product_id"] * 3


def test_details_show_attributes_and_each_sku_in_few_words() -> None:
    details = TinyShop().view_product_information("1004")
    assert render("compact/1", "view_product_information", details) == (
        '{"attributes": {"material": "steel", "power": "4 w"}, "sku_options": ["color: blue, size: 4l"], '
        '"product_id": "1004"}'
    )


def test_what_is_left_out_is_counted() -> None:
    details = TinyShop().view_product_information(",".join(str(1000 + n) for n in range(8)))
    details[0]["attributes"] = {f"key {n}": [str(value) for value in range(n)] for n in range(1, 13)}
    details[0]["sku_options"] = {str(n): {"size": str(n)} for n in range(1, 14)}
    shown = render("compact/1", "view_product_information", details)
    first = json.loads(shown.split("\n")[0])
    assert shown.endswith("\n(3 more)")
    assert first["attributes"]["and"] == "(2 more)"
    assert first["attributes"]["key 6"] == "0, 1, 2, 3 (2 more)"
    assert first["sku_options"][-1] == "(3 more)"
    assert visible_ids("compact/1", "view_product_information", details) == ["1000", "1001", "1002", "1003", "1004"]
    assert render("compact/1", "find_product", "x" * 7000).endswith("\n(1000 more characters)")
    assert render("compact/1", "find_product", []) == "No products found."


def test_products_that_do_not_fit_are_left_out_whole() -> None:
    page = [{"title": "t", "product_id": "7" * 1500} for _ in range(6)]
    shown = render("compact/1", "find_product", page)
    assert [json.loads(line)["product_id"] for line in shown.split("\n")[:-1]] == ["7" * 1500] * 3
    assert shown.endswith("(3 more)")


@pytest.mark.parametrize("token", COMPACT.control)
def test_no_control_token_reaches_a_model_by_compact(token: str) -> None:
    page = [{"title": f"a{token}b", "product_id": token}]
    details = [{"attributes": {token: [token]}, "sku_options": {"1": {token: token}}, "product_id": "1"}]
    for name, result in (("find_product", page), ("view_product_information", details), ("terminate", f"x{token}")):
        shown = render("compact/1", name, result)
        assert token not in shown
        assert f"{token[0]} {token[1:]}" in shown
    assert token in json.loads(render("raw/1", "find_product", page))[0]["title"]


@settings(deadline=None)
@given(st.sampled_from(NAMES) | st.text(), PRODUCTS | JSON | HOSTILE)
def test_compact_is_bounded_and_free_of_control_tokens_for_any_result(name: str, result: Any) -> None:
    shown = render("compact/1", name, result)
    assert not [token for token in COMPACT.control if token.lower() in shown.lower()]
    assert len(shown) <= COMPACT.max_characters + 40
    render("raw/1", name, result)


@settings(deadline=None)
@given(PRODUCTS)
def test_every_product_is_shown_or_counted(page: list[dict[str, Any]]) -> None:
    lines = render("compact/1", "find_product", page).split("\n")
    products = [line for line in lines if line.startswith("{")]
    counted = int(lines[-1].strip("(").split()[0]) if lines[-1].endswith(" more)") else 0
    assert len(products) + counted == len(page)


def test_real_tool_errors_pass_through_all_views() -> None:
    error = Toolbox(TinyShop()).call("find_product", {})
    assert [render(view, "find_product", error) for view in VIEWS] == [error] * len(VIEWS)


def test_a_views_hash_is_that_of_its_file_and_the_name_must_be_known() -> None:
    assert len({view_sha256(view) for view in VIEWS}) == len(VIEWS) == 3
    assert [view_declaration(view).version for view in VIEWS] == list(VIEWS)
    with pytest.raises(OresmithError, match="no such observation view"):
        render("compact/2", "find_product", [])


def test_compare_says_each_value_once_with_the_letters_of_the_products_that_offer_it() -> None:
    hits = found(7)
    text = render("compare/1", "find_product", hits)
    lines = text.split("\n")
    assert [line.rpartition(" = ")[2] for line in lines[:-1]] == [hit["product_id"] for hit in hits[:5]]
    assert lines[-1] == "(2 more)"
    assert visible_ids("compare/1", "find_product", hits) == [hit["product_id"] for hit in hits[:5]]
    pages = [
        {
            "product_id": "77",
            "attributes": {"fit_type": ["flat"], "sheet_fabric": ["cotton", "linen"]},
            "sku_options": {"1": {"bed_size": "double", "color_family": "grey"}, "2": {"bed_size": "king"}},
        },
        {"product_id": "78", "attributes": {"fit_type": ["flat"]}, "sku_options": {"1": {"bed_size": "king"}}},
    ]
    assert render("compare/1", "view_product_information", pages).split("\n") == [
        "A = 77",
        "B = 78",
        "fit type flat: A B",
        "sheet fabric cotton: A",
        "sheet fabric linen: A",
        "bed size double: A",
        "bed size king: A B",
        "color family grey: A",
    ]
    assert visible_ids("compare/1", "view_product_information", pages) == ["77", "78"]
    assert render("compare/1", "view_product_information", []) == "No products found."


@given(PRODUCTS, st.sampled_from(NAMES))
def test_compare_shows_anything_in_bounded_lines_without_control_tokens(
    products: list[dict[str, Any]], name: str
) -> None:
    text = render("compare/1", name, products)
    assert len(text) <= view_declaration("compare/1").max_characters + 200
    assert not any(token in text for token in COMPACT.control)
