"""Replies: any text is read without an exception, broken form is a counted outcome, and reading inverts writing."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oresmith.models import Malformed, Reply, ReplyCall, native_reply, parse_reply, render, write_reply
from oresmith.models.replies import MAX_CALLS
from tests.models.build import arguments, assistant, call, plain, texts, user

CALL = '<tool_call>\n{"name": "find_product", "arguments": {"q": "a", "page": 2}}\n</tool_call>'
FOUND = ReplyCall(name="find_product", arguments='{"q": "a", "page": 2}')
pieces = st.sampled_from(
    ["<think>", "</think>", "<tool_call>", "</tool_call>", '{"name": "f", "arguments": {"a": 1}}', '{"name": "f"', "\n"]
)
replies = st.lists(st.one_of(pieces, texts), max_size=8).map("".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CALL, {"calls": (FOUND,)}),
        (CALL + "<|im_end|>", {"calls": (FOUND,)}),
        (CALL.replace("\n", ""), {"calls": (FOUND,)}),
        (f"<think>\nwhy\n</think>\n\n{CALL}", {"think": "why", "calls": (FOUND,)}),
        (f"why</think>\n{CALL}", {"think": "why", "calls": (FOUND,)}),
        ("<think>\n\n</think>\n\nHi.", {"think": "", "content": "Hi."}),
        (f"<think>as in {CALL}</think>Hi.", {"think": f"as in {CALL}", "content": "Hi."}),
        (f"Now:\n{CALL}\n{CALL} then", {"content": "Now:\nthen", "calls": (FOUND, FOUND)}),
        ('<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}</tool_call>',
         {"calls": (ReplyCall(name="f", arguments='{"a": "</tool_call>"}'),)}),
        ("Done.", {"content": "Done."}),
        ('{"name": "f", "arguments": {}}', {"content": '{"name": "f", "arguments": {}}'}),
        ("", {}),
        ("<|im_end|>", {}),
    ],
)  # fmt: skip
def test_the_forms_of_qwen_and_hermes_are_read(text, expected):
    assert parse_reply(text) == Reply(raw=text.removesuffix("<|im_end|>"), **expected)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<think>never closed", Malformed.UNCLOSED_THINK),
        (CALL.removesuffix("</tool_call>"), Malformed.UNCLOSED_CALL),
        ('<tool_call>\n{"name": "f", "arguments": {"q": "a', Malformed.UNCLOSED_CALL),
        ("<tool_call>\n{bad json}\n</tool_call>", Malformed.INVALID_JSON),
        ('<tool_call>{"name": "f", "arguments": {}} and</tool_call>', Malformed.INVALID_JSON),
        ('<tool_call>{"name": "f", "arguments": {"n": NaN}}</tool_call>', Malformed.INVALID_JSON),
        ("<tool_call>" + "[" * 20_000 + "</tool_call>", Malformed.INVALID_JSON),
        ('<tool_call>"f"</tool_call>', Malformed.NO_NAME),
        ('<tool_call>{"arguments": {}}</tool_call>', Malformed.NO_NAME),
        ('<tool_call>{"name": "a\\"b", "arguments": {}}</tool_call>', Malformed.NO_NAME),
        ('<tool_call>{"name": "f"}</tool_call>', Malformed.NO_ARGUMENTS),
        ('<tool_call>{"name": "f", "arguments": "{}"}</tool_call>', Malformed.NO_ARGUMENTS),
        ('<tool_call>{"name": "f", "arguments": {"n": 1e999}}</tool_call>', Malformed.UNSAFE_ARGUMENTS),
        ('<tool_call>{"name": "f", "arguments": {"n": 99999999999999999999}}</tool_call>', Malformed.UNSAFE_ARGUMENTS),
        ('<tool_call>{"name": "f", "arguments": {"n": "\\ud800"}}</tool_call>', Malformed.UNSAFE_ARGUMENTS),
        (f"{CALL} </tool_call>", Malformed.STRAY_TAG),
        (f"{CALL} <think>", Malformed.STRAY_TAG),
        (CALL * (MAX_CALLS + 1), Malformed.TOO_MANY_CALLS),
        (CALL + "<tool_call>{}</tool_call>", Malformed.NO_NAME),
    ],
)
def test_a_reply_that_breaks_the_form_runs_no_call_and_keeps_its_text(text, kind):
    reply = parse_reply(text)
    assert (reply.malformed, reply.calls, reply.content, reply.raw) == (kind, (), "", text)
    assert reply.message() == {"role": "assistant", "content": text}


@given(text=replies)
@example("<think></think></think>")
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_and_what_comes_out_can_be_rendered_again(chats, text):
    reply = parse_reply(text)
    assert not (reply.malformed and reply.calls)
    for chat in chats.values():
        render([user("x"), reply.message(), user("y")], None, chat)


@given(text=st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_half_surrogates_do_not_survive(text):
    parse_reply(text).raw.encode()


@given(content=plain, thinking=st.none() | plain, given_arguments=st.lists(arguments, max_size=3), always=st.booleans())
@settings(max_examples=200, deadline=None)
def test_reading_inverts_writing(content, thinking, given_arguments, always):
    calls = [call("find_product", number) for number in range(len(given_arguments))]
    for made, value in zip(calls, given_arguments, strict=True):
        made["function"]["arguments"] = json.dumps(value, ensure_ascii=False)
    message = assistant(content, thinking, *calls)
    reply = parse_reply(write_reply(message, always_thinks=always))
    assert reply.malformed is None
    assert reply.content == content.strip()
    assert (reply.think or "") == (thinking or "").strip()
    assert [json.loads(made.arguments) for made in reply.calls] == given_arguments
    again = reply.message()
    assert parse_reply(write_reply(again, always_thinks=always)).message() == again


def test_calls_get_ids_from_the_number_given():
    made = parse_reply(CALL + CALL).message(first_id=3)["tool_calls"]
    assert [one["id"] for one in made] == ["call_3", "call_4"]
    assert made[0]["function"] == {"name": "find_product", "arguments": FOUND.arguments}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": None, "tool_calls": [call(q="a", page=2)]}, {"calls": (FOUND,)}),
        ({"content": " Hi ", "reasoning": "why", "tool_calls": [call(q="a", page=2)]},
         {"content": "Hi", "think": "why", "calls": (FOUND,)}),
        ({"content": CALL, "tool_calls": []}, {"calls": (FOUND,)}),
        ({"content": CALL, "reasoning_content": "why"}, {"think": "why", "calls": (FOUND,)}),
        ({"content": "<tool_call>{"}, {"malformed": Malformed.UNCLOSED_CALL}),
        ({"content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
         {"malformed": Malformed.INVALID_JSON}),
        ({"content": "", "tool_calls": [{"function": {"name": "f", "arguments": "[]"}}]},
         {"malformed": Malformed.NO_ARGUMENTS}),
        ({"content": "", "tool_calls": ["x"]}, {"malformed": Malformed.WRONG_SHAPE}),
        ({"content": 5}, {"malformed": Malformed.WRONG_SHAPE}),
        ({"content": "", "tool_calls": "x"}, {"malformed": Malformed.WRONG_SHAPE}),
        ({"content": "", "tool_calls": [call()] * (MAX_CALLS + 1)}, {"malformed": Malformed.TOO_MANY_CALLS}),
        ("rubbish", {"malformed": Malformed.WRONG_SHAPE}),
        ({}, {}),
    ],
)  # fmt: skip
def test_native_calls_of_a_server_are_read_by_the_same_rules(message, expected):
    reply = native_reply(message)
    got = {"think": reply.think, "content": reply.content, "calls": reply.calls, "malformed": reply.malformed}
    assert got == {"think": None, "content": "", "calls": (), "malformed": None} | expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["content", "tool_calls", "reasoning", "function", "name", "arguments"])
native = st.dictionaries(keys, json_values | st.dictionaries(keys, json_values), max_size=3)


@given(message=json_values | st.dictionaries(keys, json_values | st.lists(native, max_size=2), max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_message_of_a_server_is_read_and_can_be_rendered_again(hermes, message):
    reply = native_reply(message)
    reply.raw.encode()
    render([user("x"), reply.message()], None, hermes)


@pytest.mark.parametrize("piece", ["<tool_call>", "</tool_call>", "<think>", "{", CALL, '<tool_call>{"a": ', " "])
def test_a_reply_of_megabytes_is_read_in_one_pass(piece):
    """A reader of quadratic cost would run into the suite's limit of time."""
    text = piece * (2_000_000 // len(piece))
    assert parse_reply(text).raw == text
