"""SN15 envelopes and step lists: what a reader must survive, and the way back."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from oresmith.reasons import Reason
from oresmith.records import Format, Trajectory
from oresmith.traces import CodecError, decode, dialogue_of, encode
from tests.traces.build import (
    CTX,
    ODD_STEPS,
    PROPERTY,
    as_json,
    call,
    envelope,
    envelopes,
    step,
    without_content,
)

ENVELOPE = Format.SN15_ENVELOPE


def log_entry(path: str = "/search/find_product", **fields: Any) -> dict[str, Any]:
    return {"kind": "summary", "method": "GET", "path": path, "timestamp": 1_800_000_000_001, "duration_ms": 3} | fields


class TestReading:
    def test_a_step_becomes_an_assistant_message_and_one_tool_message_a_result(self) -> None:
        first = call(q="mug", page=1, result=[{"product_id": "7"}])
        second = call("view_product_information", product_ids="7", result="Error: no such product")
        t = decode(envelope(step("I look.", [first, second]), step("Done.", [call("terminate")])), CTX)
        assert [(m.role, m.content) for m in t.messages] == [
            ("user", "a red mug"),
            ("assistant", None),
            ("tool", '[{"product_id":"7"}]'),
            ("tool", "Error: no such product"),
            ("assistant", None),
            ("tool", "null"),
        ]
        assert [m.reasoning_content for m in t.messages if m.role == "assistant"] == ["I look.", "Done."]
        assert t.messages[1].tool_calls[0].arguments == '{"q":"mug","page":1}'
        assert [m.tool_call_id for m in t.messages if m.role == "tool"] == ["call_0", "call_1", "call_2"]
        assert [s.message for s in t.steps] == [1, 4]

    def test_equal_calls_get_ids_of_their_own_and_keep_the_logged_one(self) -> None:
        t = decode(envelope(step("I look.", [call(q="mug", result=[]), call(q="mug", result=[])])), CTX)
        calls = t.messages[1].tool_calls
        assert [c.id for c in calls] == ["call_0", "call_1"]
        assert [c.original_id for c in calls] == ["SWPURxgs", "SWPURxgs"]

    def test_a_call_without_a_result_gets_no_tool_message(self) -> None:
        unanswered = {"name": "find_product", "parameters": {}, "tool_call_id": "a"}
        t = decode(envelope(step("I look.", [unanswered, call(result="ok")])), CTX)
        assert [m.tool_call_id for m in t.messages if m.role == "tool"] == ["call_1"]

    def test_the_log_is_flattened_in_logged_order_with_the_step_it_stood_in(self) -> None:
        late, early = log_entry(timestamp=9), log_entry(timestamp=1)
        t = decode(envelope(step(proxy_calls=[late]), step(), step(proxy_calls=[early, late])), CTX)
        assert [(entry.step, entry.timestamp) for entry in t.log or []] == [(0, 9.0), (2, 1.0), (2, 9.0)]
        assert not t.log_malformed

    def test_a_log_that_stands_before_the_problem_id_is_marked(self) -> None:
        info = {"step": 1, "query": "q", "proxy_calls": [log_entry()], "problem_id": "p1"}
        own = {"completion": {"message": {"think": "a"}}, "extra_info": info}
        t = decode(envelope(own, step(proxy_calls=[log_entry()])), CTX)
        assert [s.log_first for s in t.steps] == [True, False]
        back = encode(t, ENVELOPE)["dialogue"]
        assert [list(s["extra_info"]).index("proxy_calls") for s in back] == [2, 4]

    def test_a_log_of_another_shape_is_marked_and_kept(self) -> None:
        row = envelope(step(proxy_calls=[log_entry(status_code="200"), "x"]), step(proxy_calls={"a": 1}))
        t = decode(row, CTX)
        assert t.log_malformed
        assert [(entry.path, entry.status_code) for entry in t.log or []] == [
            ("/search/find_product", None),
            (None, None),
        ]
        assert as_json(without_content(encode(t, ENVELOPE))) == as_json(without_content(row))

    def test_the_system_prompt_is_logged_only_where_the_runtime_logged_the_request(self) -> None:
        body = {"model": "m", "messages": [{"role": "system", "content": "[7302 characters]"}]}
        inference = log_entry("/inference/chat/completions", json_data=body)
        newer = decode(envelope(step(proxy_calls=[inference])), CTX)
        assert (newer.system_prompt, newer.messages[0].role, newer.messages[0].content) == (
            "logged",
            "system",
            "[7302 characters]",
        )
        older = decode(envelope(step(proxy_calls=[log_entry("/inference/chat/completions", json_data={})])), CTX)
        assert (older.system_prompt, older.messages[0].role) == ("none_logged", "user")

    @pytest.mark.parametrize(("status", "dialogue"), [("FAILED", None), ("TIMED_OUT", None), ("SUCCESS", [])])
    def test_an_attempt_without_a_dialogue_is_a_trajectory_with_its_status(self, status: str, dialogue: Any) -> None:
        row = envelope(status=status, dialogue=dialogue, error={"type": "TypeError", "message": "no"})
        t = decode(row, CTX)
        assert (t.status, t.messages, t.steps, t.log) == (status, [], [], [])
        assert t.error == {"type": "TypeError", "message": "no"}
        assert dialogue_of(t) == dialogue
        assert encode(t, ENVELOPE) == row

    @pytest.mark.parametrize(
        "odd",
        [
            None,
            "text",
            [],
            {"extra_info": {}},
            {"completion": None},
            {"completion": {"message": None}},
            {"completion": {"message": {"think": 1}}},
            {"completion": {"message": {"think": None}}},
            {"completion": {"message": {"response": []}}},
            {"completion": {"message": {"tool_call": {}}}},
            {"completion": {"message": {"tool_call": None}}},
            {"completion": {"message": {"tool_call": ["terminate"]}}},
            {"completion": {"message": {"tool_call": [{"parameters": {}}]}}},
            {"completion": {"message": {"tool_call": [{"name": 3, "parameters": {}}]}}},
            {"completion": {"message": {"tool_call": [{"name": "terminate", "parameters": "now"}]}}},
            {"completion": {"message": {"obs": "x"}}},
            {"completion": {"message": {"user": 1}}},
        ],
    )
    def test_a_malformed_step_is_marked_and_the_raw_dialogue_kept(self, odd: Any) -> None:
        row = envelope(step(), odd)
        t = decode(row, CTX)
        assert [bool(s.malformed) for s in t.steps] == [False, True]
        assert t.raw_dialogue == row["dialogue"]
        assert dialogue_of(t) == row["dialogue"]
        assert encode(t, ENVELOPE) == row

    def test_a_step_list_carries_its_problem_id_and_has_no_status(self) -> None:
        steps = [step(execution_time=2.5), step()]
        t = decode(steps, CTX)
        assert (t.format, t.status, t.problem.problem_id, t.execution_time) == (Format.SN15_STEPS, None, "p1", 2.5)
        assert without_content(encode(t, Format.SN15_STEPS)) == without_content(steps)

    @pytest.mark.parametrize("row", [{"status": 3, "dialogue": []}, {"status": "SUCCESS", "dialogue": "[]"}])
    def test_an_envelope_whose_own_fields_are_wrong_is_refused(self, row: dict[str, Any]) -> None:
        with pytest.raises(CodecError) as fault:
            decode(row, CTX)
        assert fault.value.reason is Reason.WRONG_SHAPE

    @pytest.mark.parametrize("odd", [None, 7, [1], {"a": 1}, True, 10**30])
    def test_an_odd_problem_id_is_no_id_and_comes_back_as_it_was(self, odd: Any) -> None:
        row = envelope(step(problem_id=odd), problem_id=odd)
        t = decode(row, CTX)
        assert t.problem.problem_id is None
        assert as_json(without_content(encode(t, ENVELOPE))) == as_json(without_content(row))

    def test_content_is_rendered_as_the_runtime_renders_it(self) -> None:
        raw = step("I look.", [call(q="mug ü", page=1, result=[])])
        raw["completion"]["message"]["response"] = "Here."
        content = dialogue_of(decode(envelope(raw), CTX))[0]["completion"]["content"]  # type: ignore[index]
        calls = json.dumps([{"name": "find_product", "parameters": {"q": "mug ü", "page": 1}}])
        assert content == f"<think>I look.</think>\n<tool_call>{calls}</tool_call>\n<response>Here.</response>"


class TestWayBack:
    @PROPERTY
    @given(envelopes())
    def test_an_envelope_comes_back_but_for_its_rendered_content(self, row: dict[str, Any]) -> None:
        assert as_json(without_content(encode(decode(row, CTX), ENVELOPE))) == as_json(without_content(row))

    @PROPERTY
    @given(envelopes(ODD_STEPS))
    def test_an_envelope_with_malformed_steps_comes_back_too(self, row: dict[str, Any]) -> None:
        assert as_json(without_content(encode(decode(row, CTX), ENVELOPE))) == as_json(without_content(row))

    @PROPERTY
    @given(envelopes(ODD_STEPS))
    def test_a_trajectory_survives_its_envelope_and_its_own_json(self, row: dict[str, Any]) -> None:
        t = decode(row, CTX)
        assert decode(encode(t, ENVELOPE), CTX) == t
        assert msgspec.json.decode(msgspec.json.encode(t), type=Trajectory) == t

    @PROPERTY
    @given(envelopes())
    def test_reading_changes_nothing_in_the_row(self, row: dict[str, Any]) -> None:
        before = as_json(row)
        encode(decode(row, CTX), ENVELOPE)
        assert as_json(row) == before

    def test_no_envelope_names_a_miner(self) -> None:
        row = envelope(step(), miner_hotkey="5G", run={"hotkey": "5G", "x": 1})
        t = decode(row, CTX)
        assert t.extra["envelope"] == {"miner_hotkey": "5G", "run": {"hotkey": "5G", "x": 1}}
        assert encode(t, ENVELOPE)["run"] == {"x": 1}
        assert "miner_hotkey" not in encode(t, ENVELOPE)

    def test_a_trajectory_without_status_is_no_envelope(self) -> None:
        with pytest.raises(CodecError):
            encode(decode([step()], CTX), ENVELOPE)
