"""Tool calls in replies: the shapes that models write, and the ones that must not be taken for a call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.evidence.toolcall_text import (
    MAX_CALLS,
    MAX_TEXT,
    TextCall,
    bare_json,
    calls_in_text,
    canonical,
    harvest,
    loads,
)

NAMES = frozenset({"find_product", "terminate"})
ONE = {"name": "find_product", "parameters": {"q": "kettle"}}


def pairs(calls: list[TextCall]) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in calls]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>[{"name": "find_product", "parameters": {"q": "kettle"}}]</tool_call>',
        '<tool_call>\n{"name": "find_product", "arguments": {"q": "kettle"}}\n</tool_call>',
        '<think>or {"name": "terminate", "parameters": {}}</think><tool_call>[{"name": "find_product", '
        '"parameters": {"q": "kettle"}}]',
        '<tool_call>[{"name": "find_product", "parameters": {"q": "kettle"},}]</tool_call>',
        'Sure.\n```json\n{"tool": "find_product", "args": {"q": "kettle"}}\n```',
        'Action: find_product\nAction Input: {"q": "kettle"}',
        'functions.find_product:0<|tool_call_argument_begin|>{"q": "kettle"}',
        '{"thought": "t", "action": {"name": "find_product", "parameters": {"q": "kettle"}}}',
        '{"tool_calls": [{"function": {"name": "find_product", "arguments": "{\\"q\\": \\"kettle\\"}"}}]}',
        '[TOOL_CALLS][{"name": "functions.find_product", "arguments": {"q": "kettle"}}]',
    ],
)
def test_usual_shapes_of_one_call_are_read(text: str) -> None:
    assert pairs(calls_in_text(text, NAMES)) == [("find_product", {"q": "kettle"})]


def test_several_blocks_and_lists_keep_their_order() -> None:
    text = f'<tool_call>{json.dumps([ONE, ONE])}</tool_call> and <tool_call>{{"name": "terminate"}}</tool_call>'
    assert [call.name for call in calls_in_text(text, NAMES)] == ["find_product", "find_product", "terminate"]


def test_a_broken_list_still_gives_the_calls_before_the_break() -> None:
    text = '<tool_call>[{"name": "find_product", "parameters": {"q": "kettle"}}, {"name": "termi'
    assert pairs(calls_in_text(text, NAMES)) == [("find_product", {"q": "kettle"})]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would call find_product now.",
        '{"name": "Red kettle", "price": 3}',
        'Between [123] and [456] I prefer {"a": 1}',
        "<think>find_product</think> done {",
        '{"best_product_id": "1", "score": 2}',
    ],
)
def test_prose_products_and_verdicts_are_no_calls(text: str) -> None:
    assert calls_in_text(text, NAMES) == []


def test_the_raw_text_is_kept() -> None:
    (call,) = calls_in_text('see {"tool": "find_product", "args": "not json"} there')
    assert call.arguments == "not json"
    assert call.raw == '{"tool": "find_product", "args": "not json"}'


def test_native_calls_with_arguments_that_do_not_parse_keep_them_raw() -> None:
    native = [{"id": "x", "type": "function", "function": {"name": "find_product", "arguments": '{"q": '}}]
    assert pairs(harvest(native)) == [("find_product", '{"q": ')]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"),
        (1.0, 1),
        ("1.0", 1),
        (["1", "2"], "1, 2"),
        ([1, 2], "1,2"),
        ({"a": 1, "b": None}, '{"b": null, "a": "1"}'),
        (" red  kettle ", "red kettle"),
        ([{"q": "a"}], '[{"q": "a"}]'),
    ],
)
def test_spellings_of_one_value_are_equal(one: Any, other: Any) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "b"),
        (1, 2),
        (True, 1),
        (None, ""),
        ({"a": 1}, {"b": 1}),
        ("1,2", "12"),
        ({"a": "11:b1:2"}, {"a": 1, "b": 2}),
    ],
)
def test_different_values_stay_different(one: Any, other: Any) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 50_000,
        "{" * 100_000,
        '<tool_call>{"' * 20_000,
        "```\n" + " " * 100_000,
        "{}" * 100_000,
        ", " * 50_000 + "]",
        '{"a": "' * 30_000,
        "9" * 10_000,
        '{"n": ' + "9" * 10_000 + "}",
        "</think>" * 10_000,
    ],
)
def test_hostile_texts_are_read_within_bounds(text: str) -> None:
    assert len(calls_in_text(text, NAMES)) <= MAX_CALLS
    assert loads(text[:MAX_TEXT]) is None or isinstance(loads(text[:MAX_TEXT]), int)
    assert bare_json(text) is None


def test_no_more_calls_than_the_limit_are_taken() -> None:
    assert len(calls_in_text(json.dumps([ONE] * (MAX_CALLS + 50)))) == MAX_CALLS


def test_deep_values_are_cut_not_followed() -> None:
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert "..." in canonical(deep)
    assert harvest(deep) == []


TEXTS = st.text(alphabet='{}[]"\\,: \nabfind_product<>/tool_call1.', max_size=200)


@given(TEXTS | st.text(max_size=100))
def test_no_text_raises(text: str) -> None:
    assert isinstance(calls_in_text(text, NAMES), list)
    assert bare_json(text) is None or isinstance(bare_json(text), dict | list)


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=8) | st.integers() | st.booleans() | st.none(), max_size=4)
)
def test_a_call_written_as_a_block_is_read_back(arguments: dict[str, Any]) -> None:
    text = f"<think>t</think><tool_call>{json.dumps([{'name': 'find_product', 'parameters': arguments}])}</tool_call>"
    if "</think>" in json.dumps(arguments):
        return
    assert pairs(calls_in_text(text)) == [("find_product", arguments)]
