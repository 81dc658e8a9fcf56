"""A problem's keys are the same in every spelling, and differ where the problem does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.leakage.keys import problem_keys, read_problem
from oresmith.leakage.spec import read_reward
from oresmith.leakage.text import fold, squeeze, words
from oresmith.leakage.voucher import without_voucher
from oresmith.records import Problem
from tests.leakage.examples import VOUCHER, VOUCHER_TEXT, hostile_problems, problem, spec_reward

REQUEST = "I'm looking for men's T-shirts (size: 40), 1.5 kg, priced above 1,200 PHP."


@pytest.mark.parametrize(
    "spelling",
    [
        REQUEST.upper(),
        REQUEST.replace(" ", "\n "),
        REQUEST.replace("'", "’"),
        REQUEST.replace("T-shirts", "T shirts"),
        REQUEST.replace("T-shirts", "Tshirts"),
        REQUEST.replace("1,200", "1200"),
        REQUEST.replace("size", "ｓｉｚｅ"),
        REQUEST.replace("size", "si\u200bze"),
        REQUEST.replace(" ", "_"),
        "  " + REQUEST.replace("(", "").replace(")", "") + "!?",
    ],
)
def test_spelling_does_not_change_the_query_key(spelling: str) -> None:
    assert problem_keys(problem(spelling)).query == problem_keys(problem(REQUEST)).query


@pytest.mark.parametrize("other", [REQUEST.replace("1.5", "15"), REQUEST.replace("40", "41"), REQUEST + " Thanks"])
def test_another_value_changes_the_query_key(other: str) -> None:
    assert problem_keys(problem(other)).query != problem_keys(problem(REQUEST)).query


def test_order_and_function_words_do_not_change_the_token_key() -> None:
    left = problem_keys(problem("Please show me a red hammer with steel handles"))
    right = problem_keys(problem("steel handle, hammer: red"))
    assert left.tokens == right.tokens
    assert left.query != right.query


def test_a_negation_changes_the_token_key() -> None:
    with_lid, without_lid = (problem_keys(problem(f"a pan {word} lid")) for word in ("with", "without"))
    assert with_lid.tokens != without_lid.tokens


def _spellings(text: str) -> list[str]:
    bare = " ".join(words(text))
    return [text, text.upper(), " ".join(text.split()), bare, text.replace("\n", "\r\n"), text.replace("`", "")]


@pytest.mark.parametrize("voucher", [VOUCHER, None])
@pytest.mark.parametrize("number", range(6))
def test_the_base_key_is_that_of_the_query_without_voucher_text(voucher: object, number: int) -> None:
    for request in ("Crayons, 50 shades, with special discounts.", "A gift voucher holder for 170 cm shelves"):
        spelled = _spellings(request + VOUCHER_TEXT)[number]
        assert problem_keys(Problem(query=spelled, voucher=voucher)).base == problem_keys(problem(request)).query


def test_the_voucher_is_found_by_its_numbers_in_any_wording() -> None:
    text = (
        "Crayons, 50 shades. With the coupon of at least 170 I can pay 1425. It takes off 34%, but never more than 60."
    )
    keys = problem_keys(Problem(query=text, voucher=VOUCHER))
    assert keys.base == problem_keys(problem("Crayons, 50 shades.")).base


def test_what_stands_behind_the_voucher_text_stays() -> None:
    rest, found = without_voucher(fold("Crayons." + VOUCHER_TEXT + " Please, only new ones."), VOUCHER)
    assert found
    assert squeeze(words(rest)) == "crayonspleaseonlynewones"


@pytest.mark.parametrize(
    "query", ["My budget is 500 pesos for a lamp.", "A voucher holder", "budget laptop 14 inch, 8 gb"]
)
def test_a_request_without_voucher_text_is_left_whole(query: str) -> None:
    assert without_voucher(fold(query)) == (fold(query), False)


def test_a_voucher_that_the_query_does_not_mention_is_flagged() -> None:
    assert "voucher_text_missing" in problem_keys(Problem(query="A lamp", voucher=VOUCHER)).flags


def test_a_query_of_voucher_text_alone_has_no_base_key() -> None:
    keys = problem_keys(Problem(query=VOUCHER_TEXT.strip(), voucher=VOUCHER))
    assert keys.query and not keys.base and not keys.tokens
    assert "no_base" in keys.flags


def test_gold_keys_are_the_same_across_categories_and_types() -> None:
    alone = problem_keys(problem("a", 123))
    listed = problem_keys(problem("b", category="shop", reward=[{"product_id": " 123 "}, {"product_id": 123.0}]))
    assert alone.gold == listed.gold
    assert len(alone.gold) == 1


def test_the_specification_knows_no_order_gold_or_title() -> None:
    stated = spec_reward("g1")
    other = dict(reversed(list(spec_reward("g2").items())))
    other |= {"attributes": [{"brand": ["ACME"], "material": ["Steel"]}], "service": ["freeShipping", "COD"]}
    other["price"] = [{"between": [50.0, 75.5]}]
    left, right = read_reward(stated), read_reward([other])
    assert left.text == right.text
    assert (left.constraints, left.pairs) == (6, 3)


def test_the_parts_of_a_specification_have_no_order() -> None:
    pairs = [{f"key{number}": [f"value{number}"]} for number in range(12)]
    services = [f"service{number}" for number in range(12)]
    left = read_reward({"attributes": pairs, "sku_options": [{"size": "m"}], "service": services})
    right = read_reward({"attributes": pairs[::-1], "sku_options": [{"size": "m"}], "service": services[::-1]})
    assert left.text == right.text
    assert left.text.count("value") == 12


def test_the_items_of_a_list_have_no_order() -> None:
    items = [spec_reward("a"), {"product_id": "b", "service": ["COD"]}, {"product_id": "c"}]
    assert read_reward(items).text == read_reward(items[::-1]).text
    assert read_reward(items).text != read_reward(items[:2]).text


@pytest.mark.parametrize(
    "change",
    [
        {"price": [{"between": [50, 76]}]},
        {"service": ["COD"]},
        {"attributes": [{"material": ["wood"]}, {"brand": ["Acme"]}]},
        {"sku_options": [{"size": "13 inch"}]},
    ],
)
def test_another_constraint_is_another_specification(change: dict[str, object]) -> None:
    assert read_reward(spec_reward("g", **change)).text != read_reward(spec_reward("g")).text


@pytest.mark.parametrize(
    "change",
    [
        {"attributes": {"material": ["steel"]}},
        {"price": 12.5},
        {"price": [{"between": [1]}]},
        {"service": "COD"},
        {"sku_options": [{"size": {"nested": []}}]},
        {"attributes": [{"n": [float("nan")]}]},
    ],
)
def test_a_reward_of_another_shape_is_flagged_and_states_no_specification(change: dict[str, object]) -> None:
    spec = read_reward(spec_reward("g", **change))
    assert spec.malformed
    assert (spec.text, spec.constraints, spec.pairs) == ("", 0, 0)
    assert spec.gold_ids == ("g",)


def test_a_problem_without_reward_has_the_keys_of_its_query_and_says_so() -> None:
    keys = problem_keys(Problem(query=REQUEST))
    assert keys.query and keys.base and keys.tokens
    assert (keys.gold, keys.spec) == ((), "")
    assert {"no_reward", "no_gold"} <= set(keys.flags)


def test_rows_of_one_problem_have_one_name() -> None:
    left = Problem(
        query="Show me\nlamps", reward={"product_id": "1", "title": ["Lamp"]}, problem_id="a", category="Product"
    )
    right = Problem(query="show me lamps ", reward=[{"product_id": 1, "title": "LAMP!"}], problem_id="b")
    assert problem_keys(left).problem == problem_keys(right).problem


def test_queries_without_a_word_do_not_name_one_problem() -> None:
    names = {problem_keys(Problem(query=query, problem_id=key)).problem for query in ("?", "!") for key in ("a", "b")}
    assert len(names) == 4
    assert not problem_keys(Problem(query="?!")).known


@settings(max_examples=300)
@given(hostile_problems)
def test_no_json_makes_the_keys_fail(hostile: Problem) -> None:
    reading = read_problem(hostile)
    assert len(reading.keys().problem) == 64
    assert len(reading.gold) == len(reading.gold_ids)
    assert reading == read_problem(hostile)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_text_is_read_as_any_other(text: str) -> None:
    folded = fold(text)
    assert words(f"{folded} é") == [*words(folded), "é"]
