"""A row's messages are a sound OpenAI dialogue, and the very one that was normalised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.records import Message, ToolCall, Trajectory
from oresmith.traces.openai import to_openai
from oresmith.validation import dialogue
from oresmith.validation.dialogue import FAULTS, normalised_digest, read_dialogue, tools_fault

CALL = {
    "id": "call_0",
    "type": "function",
    "function": {"name": "recommend_product", "arguments": '{"product_ids":"1"}'},
}
USER = {"role": "user", "content": "a red kettle"}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER = {"role": "tool", "content": "ok", "tool_call_id": "call_0", "name": "recommend_product"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


def read(*messages: Any) -> dialogue.Dialogue:
    return read_dialogue([json.dumps(message) for message in messages])


def calling(**function: Any) -> dict[str, Any]:
    return CALLING | {"tool_calls": [CALL | {"function": CALL["function"] | function}]}  # type: ignore[operator]


def test_a_sound_dialogue_has_no_fault_and_its_recommendations_are_counted() -> None:
    found = read(USER, CALLING, ANSWER)
    assert (found.fault, found.calls, found.recommends) == ("", 1, 1)
    assert found.roles == ("user", "assistant", "tool")


def test_a_row_for_training_has_no_null_content_and_is_the_same_dialogue() -> None:
    messages = [json.dumps(message) for message in (USER, CALLING, ANSWER)]
    filled = [json.dumps(message) for message in (USER, CALLING | {"content": ""}, ANSWER)]
    assert read_dialogue(messages, filled=True).fault == dialogue.CONTENT_NULL
    assert read_dialogue(filled, filled=True).fault == ""
    assert read_dialogue(messages).digest == read_dialogue(filled).digest


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], dialogue.NO_MESSAGES),
        ([USER | {"role": "judge"}], dialogue.NOT_A_MESSAGE),
        ([{"role": "user"}], dialogue.NOT_A_MESSAGE),
        ([USER | {"reward": 1}], dialogue.NOT_A_MESSAGE),
        ([USER | {"reasoning_content": None}], dialogue.NOT_A_MESSAGE),
        ([USER | {"tool_calls": []}], dialogue.NOT_A_MESSAGE),
        ([CALLING | {"tool_call_id": "call_0"}], dialogue.NOT_A_MESSAGE),
        ([CALLING | {"tool_calls": [CALL | {"type": "program"}]}], dialogue.NOT_A_MESSAGE),
        ([CALLING | {"tool_calls": [{"name": "recommend_product", "arguments": "{}"}]}], dialogue.NOT_A_MESSAGE),
        ([calling(arguments={"product_ids": "1"})], dialogue.NOT_A_MESSAGE),
        ([USER, "text"], dialogue.NOT_A_MESSAGE),
        ([calling(arguments="[1]")], dialogue.ARGUMENTS_NOT_OBJECT),
        ([calling(arguments="{'q': 1}")], dialogue.ARGUMENTS_NOT_OBJECT),
        ([calling(arguments="[" * 100_000)], dialogue.ARGUMENTS_NOT_OBJECT),
        ([CALLING | {"tool_calls": [CALL, CALL]}], dialogue.CALL_ID_TWICE),
        ([CALLING, ANSWER, CALLING, ANSWER], dialogue.CALL_ID_TWICE),
        ([USER, CALLING], dialogue.CALL_UNANSWERED),
        ([ANSWER, CALLING], dialogue.ANSWER_WITHOUT_CALL),
        ([CALLING, {"role": "tool", "content": "ok"}], dialogue.ANSWER_WITHOUT_CALL),
        ([CALLING, ANSWER, ANSWER], dialogue.CALL_ANSWERED_TWICE),
    ],
)
def test_each_fault_is_called_by_its_name(messages: list[Any], fault: str) -> None:
    assert read(*messages).fault == fault
    assert fault in FAULTS


@given(
    st.lists(json_values | st.dictionaries(st.sampled_from(["role", "content", "tool_calls"]), json_values), max_size=4)
)
def test_no_json_makes_the_reader_raise(messages: list[Any]) -> None:
    found = read(*messages)
    assert found.fault == "" or found.fault in FAULTS


@given(json_values)
def test_no_json_makes_the_reader_of_tools_raise(tools: Any) -> None:
    assert tools_fault(json.dumps(tools)) in {"", *FAULTS}


def test_tools_are_nested() -> None:
    nested = {"type": "function", "function": {"name": "terminate", "parameters": {"type": "object"}}}
    flat = {"type": "function", "name": "terminate", "parameters": {}}
    assert tools_fault(json.dumps([nested])) == ""
    assert tools_fault(json.dumps([flat])) == dialogue.TOOLS_NOT_NESTED
    assert tools_fault("null") == dialogue.TOOLS_NOT_NESTED


def record() -> Trajectory:
    call = ToolCall(id="call_0", name="find_product", arguments='{"q": "kettle"}', original_id="x")
    return Trajectory(
        trajectory_id="t",
        identity="i",
        content="c",
        source=None,  # type: ignore[arg-type]
        format=None,  # type: ignore[arg-type]
        messages=[
            Message(role="user", content="q"),
            Message(role="assistant", reasoning_content="think", tool_calls=[call]),
            Message(role="tool", content="[]", tool_call_id="call_0", name="find_product"),
        ],
    )


def test_the_published_form_of_a_record_has_the_records_digest() -> None:
    trajectory = record()
    assert read(*to_openai(trajectory)["messages"]).digest == normalised_digest(trajectory.messages)


@pytest.mark.parametrize("arguments", ['{"q": "kettle", "page": null}', '{"q":"kettle"}', '{"q": "kettl"}'])
def test_arguments_that_were_touched_show_in_the_digest(arguments: str) -> None:
    trajectory = record()
    messages = to_openai(trajectory)["messages"]
    messages[1]["tool_calls"][0]["function"]["arguments"] = arguments
    found = read(*messages)
    assert found.fault == ""
    assert found.digest != normalised_digest(trajectory.messages)
