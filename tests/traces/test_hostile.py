"""Whatever JSON a row is, decoding gives a trajectory or a CodecError, and says nothing that a miner wrote."""

import copy
import json
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.reasons import Reason
from oresmith.records import Format, Trajectory
from oresmith.traces import CodecError, decode, dialogue_of, encode, to_openai
from tests.traces.build import CTX, DECLARED, JSON, PROPERTY, call, envelope, mutated, paths, step
from tests.traces.test_atif import acts, document, result, says
from tests.traces.test_openai import NESTED, answer, asked, asks, row
from tests.traces.test_shoppingbench import rollout, sees

LOGGED = {"kind": "summary", "path": "/inference/chat/completions", "timestamp": 1, "json_data": {"messages": []}}
ROWS = [
    envelope(step("I look.", [call(q="mug", result=[]), call("terminate", "ok")], proxy_calls=[LOGGED]), step()),
    [step("I look.", [call(result={})], execution_time=1.5), step()],
    rollout({"think": "a", "tool_call": [{"name": "f", "parameters": {}, "tool_call_id": "x"}], "obs": sees(x=[1])}),
    row(asks(asked("x", {"a": 1})), answer("x"), tools=[NESTED], problem_id="p", reward=1.0, no_model=[1]),
    document(says("user", "q"), acts("x", results=[result("x"), result(None)]), says("agent", "b", llm_call_count=0)),
    {"atif_json": json.dumps(document(acts("x", results=[result("x")]))), "task_id": "p", "aggregate_reward": None},
]


def decode_or_refuse(raw: Any) -> None:
    try:
        t = decode(raw, DECLARED)
    except CodecError as fault:
        assert len(str(fault)) < 600
        return
    assert msgspec.json.decode(msgspec.json.encode(t), type=Trajectory) == t
    to_openai(t)
    dialogue = dialogue_of(t)
    assert dialogue is None or isinstance(dialogue, list)
    for format in Format:
        try:
            encode(t, format)
        except CodecError:
            continue


@PROPERTY
@given(JSON)
def test_any_json_is_decoded_or_refused(raw: Any) -> None:
    decode_or_refuse(raw)


@PROPERTY
@given(st.dictionaries(st.sampled_from(["dialogue", "status", "messages", "atif_json", "trajectory", "tools"]), JSON))
def test_any_json_under_the_keys_of_a_format_is_decoded_or_refused(raw: Any) -> None:
    decode_or_refuse(raw)


@PROPERTY
@given(mutated(ROWS))
def test_a_mutated_row_is_decoded_or_refused(raw: Any) -> None:
    decode_or_refuse(raw)


SECRET = "hunter2-hunter2"


@st.composite
def planted(draw: st.DrawFn) -> Any:
    """A row, mutated or not, with the secret as a value, as a new key, or in place of a key."""
    row = copy.deepcopy(draw(mutated(ROWS) | st.sampled_from(ROWS)))
    path = draw(st.sampled_from(paths(row)[1:] or [("x",)]))
    parent: Any = row if len(paths(row)) > 1 else {"x": 1}
    for key in path[:-1]:
        parent = parent[key]
    if isinstance(parent, list) or draw(st.booleans()):
        parent[path[-1]] = draw(st.sampled_from([SECRET, {SECRET: 1}, [SECRET]]))
    elif draw(st.booleans()):
        parent[SECRET] = parent.pop(path[-1])
    else:
        parent[SECRET] = 1
    return row


@PROPERTY
@given(planted())
def test_no_error_repeats_what_the_row_holds(raw: Any) -> None:
    try:
        t = decode(raw, DECLARED)
    except CodecError as fault:
        assert SECRET not in str(fault) + repr(fault.args)
        return
    for format in Format:
        try:
            encode(t, format)
        except CodecError as fault:
            assert SECRET not in str(fault)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("place", ["parameters", "result", "proxy_calls"])
def test_a_row_that_is_nested_too_deep_is_refused(place: str) -> None:
    deep = nested(50_000)
    rows = {
        "parameters": envelope(step("a", [{"name": "f", "parameters": {"a": deep}}])),
        "result": envelope(step("a", [call(result=deep)])),
        "proxy_calls": row(asks(asked("x", deep))),
    }
    with pytest.raises(CodecError) as fault:
        decode(rows[place], CTX)
    assert fault.value.reason is Reason.NESTED_TOO_DEEP


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(CodecError) as fault:
        decode(envelope(step("\ud800")), CTX)
    assert fault.value.reason is Reason.LONE_SURROGATE


def test_integers_of_any_size_survive() -> None:
    big = 10**40
    raw = envelope(
        step("a", [call(q=big, result=big)], step=big, timestamp=big), execution_time=big, inference_total=big
    )
    t = decode(raw, CTX)
    assert t.messages[1].tool_calls[0].arguments == f'{{"q":{big}}}'
    assert (t.steps[0].number, t.steps[0].timestamp, t.execution_time, t.inference_total) == (None, None, None, None)
    back = encode(t, Format.SN15_ENVELOPE)
    assert back["inference_total"] == back["execution_time"] == back["dialogue"][0]["extra_info"]["timestamp"] == big


def test_many_answers_in_the_worst_order_are_paired_in_one_pass() -> None:
    count = 20_000
    names = [str(number) for number in range(count)]
    t = decode(row(asks(*map(asked, names)), *map(answer, reversed(names))), CTX)
    assert t.messages[2].tool_call_id == f"call_{count - 1}"
    assert t.messages[-1].tool_call_id == "call_0"


def test_errors_survive_the_trip_from_a_worker() -> None:
    with pytest.raises(CodecError) as fault:
        decode({"messages": 3}, CTX)
    again = pickle.loads(pickle.dumps(fault.value))
    assert (again.reason, str(again)) == (Reason.WRONG_SHAPE, str(fault.value))
