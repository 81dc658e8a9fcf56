"""ATIF documents in and out, and orobench rows."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oresmith.reasons import Reason
from oresmith.records import Format, Message, Problem, Provenance, SourceOutcome
from oresmith.traces import CodecError, decode, encode, to_openai
from tests.traces.build import (
    CTX,
    DECLARED,
    NAMES,
    OBJECTS,
    PROPERTY,
    TEXT,
    TRUSTED,
    as_json,
    call,
    envelope,
    envelopes,
    some,
    step,
)


def document(*steps: dict[str, Any], version: str = "ATIF-v1.7", **fields: Any) -> dict[str, Any]:
    numbered = [{"step_id": number} | one for number, one in enumerate(steps, start=1)]
    return {"schema_version": version, "agent": {"name": "a", "version": "1"}, "steps": numbered} | fields


def says(source: str, message: Any = "", **fields: Any) -> dict[str, Any]:
    return {"source": source, "message": message} | fields


def acts(*ids: str, results: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    calls = [{"tool_call_id": name, "function_name": "find_product", "arguments": {"q": "mug"}} for name in ids]
    seen = {} if results is None else {"observation": {"results": results}}
    return says("agent", **({"tool_calls": calls} | seen | fields))


def result(call_id: str | None, content: Any = "[]", **fields: Any) -> dict[str, Any]:
    return ({} if call_id is None else {"source_call_id": call_id}) | {"content": content} | fields


class TestReading:
    def test_steps_become_messages_with_their_flags(self) -> None:
        t = decode(
            document(
                says("system", "be good"),
                says("user", "a red mug"),
                acts("x", "x", results=[result("x", "1"), result("x", "2")], reasoning_content="I look."),
                says("agent", "Done.", llm_call_count=0, timestamp="2026-05-01T00:00:00.250Z"),
                says("agent", "Again.", is_copied_context=True),
            ),
            CTX,
        )
        assert [(m.role, m.content) for m in t.messages] == [
            ("system", "be good"),
            ("user", "a red mug"),
            ("assistant", None),
            ("tool", "1"),
            ("tool", "2"),
            ("assistant", "Done."),
            ("assistant", "Again."),
        ]
        assert [m.tool_call_id for m in t.messages if m.role == "tool"] == ["call_0", "call_1"]
        assert [c.original_id for c in t.messages[2].tool_calls] == ["x", "x"]
        assert [(s.message, s.number, s.llm_calls, s.copied_context) for s in t.steps] == [
            (2, 3, None, False),
            (5, 4, 0, False),
            (6, 5, None, True),
        ]
        assert t.steps[1].timestamp == 1_777_593_600_250
        assert (t.system_prompt, t.problem.query, t.log, t.status) == ("logged", "a red mug", None, None)
        published = to_openai(t)
        assert (published["copied_context"], published["no_model"]) == ([6], [5])

    def test_several_results_of_one_call_are_one_tool_message(self) -> None:
        t = decode(document(acts("x", results=[result("x", "1"), result("x", "2")])), CTX)
        assert [m.content for m in t.messages] == [None, "1\n2"]

    def test_what_the_model_saw_without_a_call_is_a_user_message(self) -> None:
        doc = document(says("agent", "ls", observation={"results": [result(None, "a.txt"), result(None, "b.txt")]}))
        t = decode(doc, CTX)
        assert [(m.role, m.content) for m in t.messages] == [("assistant", "ls"), ("user", "a.txt"), ("user", "b.txt")]
        assert encode(t, Format.ATIF) == doc

    def test_a_document_is_not_believed_about_itself(self) -> None:
        forged = {"oresmith": {"provenance": {"agent_version": "v9"}, "outcome": {"success": True}, "log": []}}
        doc = document(says("user", "q"), extra=forged, session_id="run", trajectory_id="one")
        t = decode(doc, CTX)
        assert (t.provenance, t.outcome, t.log) == (Provenance(), None, None)
        assert t.extra["atif"]["extra"] == forged
        assert t.identity == decode(doc | {"trajectory_id": "two"}, CTX).identity
        assert encode(t, Format.ATIF) == doc

    def test_a_trusted_document_names_its_run_where_the_file_does_not(self) -> None:
        doc = document(says("user", "q"), session_id="run", trajectory_id="one")
        t = decode(doc, TRUSTED)
        assert t.provenance == Provenance(run_id="run")
        assert t.identity != decode(doc | {"trajectory_id": "two"}, TRUSTED).identity
        assert decode(doc, replace(DECLARED, trust_rows=True)).provenance == DECLARED.provenance

    def test_an_orobench_row_is_not_believed_about_itself(self) -> None:
        claims = {
            "episode_result_id": "e",
            "eval_run_id": "r",
            "agent_version_id": "v",
            "outcome": True,
            "license": "MIT",
        }
        claims |= {"aggregate_reward": 1.0, "reward": {"product_id": "7"}, "category": "web"}
        row = {"atif_json": document(says("user", "q")), "task_id": "p1"} | claims
        t = decode(row, DECLARED)
        assert (t.provenance, t.outcome, t.licence) == (DECLARED.provenance, None, None)
        assert t.problem == Problem(problem_id="p1", query="q")
        assert t.extra["columns"] == claims
        assert t.identity == decode({key: row[key] for key in ("atif_json", "task_id")}, DECLARED).identity

    @pytest.mark.parametrize(("outcome", "success"), [("solved", None), (None, None), (True, True), (False, False)])
    def test_an_orobench_row_keeps_a_null_reward_unknown(self, outcome: Any, success: bool | None) -> None:
        doc = document(says("user", "a red mug"), session_id="s")
        row = {
            "episode_result_id": "e1",
            "task_id": "p1",
            "eval_run_id": "r7",
            "agent_id": "a1",
            "agent_version_id": "v7",
            "outcome": outcome,
            "aggregate_reward": None,
            "track": "shop",
            "schema_version": "ATIF-v1.7",
            "session_id": "s",
            "agent_json": "{}",
            "steps": 1,
            "atif_json": orjson.dumps(doc).decode(),
        }
        t = decode(row, TRUSTED)
        assert t.outcome == SourceOutcome(
            success=success, score={"outcome": outcome, "aggregate_reward": None}, scorer="orobench"
        )
        assert (t.problem.problem_id, t.provenance.run_id, t.provenance.agent_version) == ("p1", "r7", "v7")
        assert t.extra["columns"] == {"agent_id": "a1", "track": "shop"}
        assert encode(t, Format.ATIF) == doc
        assert decode(row | {"episode_result_id": "e2"}, TRUSTED).identity != t.identity

    @pytest.mark.parametrize(
        "bad",
        [
            document(version="ATIF-v1.2"),
            document(version="ATIF-v2.0"),
            document() | {"steps": [{"step_id": 2, "source": "user", "message": "q"}]},
            document() | {"steps": [{"step_id": "1", "source": "user", "message": "q"}]},
            document(says("user", "q", reasoning_content="hm")),
            document(says("user", "q", tool_calls=[])),
            document(acts("x", results=[result("y")])),
            document(says("agent", "hi", observation={"results": [result("y")]})),
            document(says("agent", "hi", llm_call_count=0, reasoning_content="hm")),
            document(says("judge", "q")),
            document(says("user", "q"), unheard_of=1),
            document(says("user", None)),
            document() | {"agent": {"name": "a"}},
            {"atif_json": 3},
            {"atif_json": "[]"},
        ],
    )
    def test_a_document_that_breaks_the_rules_is_refused(self, bad: dict[str, Any]) -> None:
        with pytest.raises(CodecError) as fault:
            decode(bad, CTX)
        assert fault.value.reason is Reason.WRONG_SHAPE

    @pytest.mark.parametrize(
        "bad",
        [
            document(acts("x", results=[result("SECRET")])),
            document(says("user", "q", SECRET=1)),
            document(says("SECRET")),
            document(says("user", "q", timestamp="SECRET")),
        ],
    )
    def test_an_error_names_the_place_and_nothing_that_stands_there(self, bad: dict[str, Any]) -> None:
        with pytest.raises(CodecError, match="steps") as fault:
            decode(bad, CTX)
        assert "SECRET" not in str(fault.value)

    def test_an_error_names_the_models_own_fields(self) -> None:
        with pytest.raises(
            CodecError, match=r"at steps\.0\.message\.list\[ContentPart\]\.0\.type|at steps\.0\.message"
        ):
            decode(document(says("user", [{"type": "SECRET"}])), CTX)

    @pytest.mark.parametrize("version", ["ATIF-v1.7", "ATIF-v1.8"])
    def test_both_versions_are_read(self, version: str) -> None:
        doc = document(says("user", "q"), version=version)
        assert encode(decode(doc, CTX), Format.ATIF) == doc


PARTS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}), max_size=2)
TIMES = st.sampled_from(
    [
        "2026-05-01T00:00:00Z",
        "2026-05-01T00:00:00.250Z",
        "2026-05-01T02:00:00+02:00",
        "2026-05-01",
        "0001-01-01T00:00:00",
    ]
)
COMMON = {"timestamp": TIMES, "extra": OBJECTS, "llm_call_count": st.integers(1, 3), "is_copied_context": st.booleans()}
SAID = some({"source": st.sampled_from(["system", "user"]), "message": TEXT | PARTS}, COMMON)
RAW_CALLS = some(
    {"tool_call_id": st.sampled_from(["x", "y"]), "function_name": NAMES, "arguments": OBJECTS}, {"extra": OBJECTS}
)


@st.composite
def acted(draw: st.DrawFn) -> dict[str, Any]:
    calls = draw(st.lists(RAW_CALLS, max_size=3))
    ids = st.sampled_from([c["tool_call_id"] for c in calls] or [None]) | st.none()
    results = some({}, {"source_call_id": ids, "content": TEXT | PARTS, "extra": OBJECTS})
    return draw(
        some(
            {"source": st.just("agent"), "message": TEXT | PARTS},
            COMMON
            | {
                "tool_calls": st.just(calls),
                "observation": st.fixed_dictionaries({"results": st.lists(results, max_size=3)}),
                "reasoning_content": TEXT,
                "model_name": TEXT,
                "reasoning_effort": TEXT,
                "metrics": some({}, {"prompt_tokens": st.integers(0, 9), "extra": OBJECTS}),
            },
        )
    )


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    steps = draw(st.lists(SAID | acted(), max_size=4))
    for one in steps:
        if "tool_calls" not in one:
            for seen in one.get("observation", {}).get("results", []):
                seen.pop("source_call_id", None)
    tool = {"type": "function", "function": {"name": "terminate"}}
    root = draw(
        some(
            {},
            {
                "session_id": TEXT,
                "trajectory_id": TEXT,
                "notes": TEXT,
                "extra": OBJECTS,
                "final_metrics": some({}, {"total_steps": st.integers(0, 9)}),
                "agent": some(
                    {"name": TEXT, "version": TEXT},
                    {"tool_definitions": st.lists(st.just(tool) | OBJECTS, max_size=2), "extra": OBJECTS},
                ),
            },
        )
    )
    return document(*steps, version=draw(st.sampled_from(["ATIF-v1.7", "ATIF-v1.8"]))) | root


def without_nulls(value: Any) -> Any:
    """Without the keys of the document itself that are null: in ATIF null is absent."""
    doc = copy.deepcopy(value)
    for one in doc["steps"]:
        for call_or_result in one.get("tool_calls", []) + one.get("observation", {}).get("results", []):
            for key in [key for key, inner in call_or_result.items() if inner is None]:
                del call_or_result[key]
    return doc


def empty_as_none(message: Message) -> Message:
    """ATIF requires the message of an agent step, so that empty and absent content are one there."""
    return replace(message, content=message.content or None) if message.role == "assistant" else message


class TestWayBack:
    @PROPERTY
    @given(documents())
    def test_a_document_comes_back_as_it_was(self, doc: dict[str, Any]) -> None:
        t = decode(doc, CTX)
        back = encode(t, Format.ATIF)
        assert as_json(without_nulls(back)) == as_json(without_nulls(doc))
        assert decode(back, CTX) == t

    @PROPERTY
    @given(envelopes())
    def test_a_trajectory_of_another_format_keeps_its_messages_in_atif(self, raw: dict[str, Any]) -> None:
        t = decode(raw, CTX)
        back = decode(encode(t, Format.ATIF), CTX)
        assert [empty_as_none(m) for m in back.messages] == [empty_as_none(m) for m in t.messages]
        assert [s.timestamp for s in back.steps] == [s.timestamp for s in t.steps]

    def test_what_atif_has_no_field_for_is_carried_in_extra(self) -> None:
        t = decode(envelope(step(), status="FAILED", error={"type": "E"}), CTX)
        kept = encode(t, Format.ATIF)["extra"]["oresmith"]
        assert (kept["status"], kept["error"], kept["problem"]["problem_id"]) == ("FAILED", {"type": "E"}, "p1")

    @pytest.mark.parametrize(
        "raw",
        [
            envelope(None),
            {"messages": [{"role": "developer", "content": "x"}]},
            {"messages": [{"role": "tool", "content": "x"}]},
            {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "[]"}]}]},
            {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "?"}]}]},
            {"messages": [{"role": "assistant", "reasoning_content": "x"}], "no_model": [0]},
        ],
    )
    def test_what_atif_cannot_carry_is_refused(self, raw: Any) -> None:
        with pytest.raises(CodecError, match="atif cannot carry"):
            encode(decode(raw, CTX), Format.ATIF)

    def test_no_export_names_a_miner(self) -> None:
        keys = {"Miner_Hotkey": "5G", "deep": [{"coldkey": "5G", "x": 1}]}
        doc = document(says("user", "q", extra=keys), says("agent", "a", extra=keys), extra=keys)
        doc["agent"]["extra"] = keys
        t = decode(doc, CTX)
        assert t.extra["atif"]["extra"] == keys
        back = encode(t, Format.ATIF)
        assert [one["extra"] for one in (back, back["agent"], *back["steps"])] == [{"deep": [{"x": 1}]}] * 4
        other = decode({"messages": [{"role": "user", "content": "q"}]} | keys, CTX)
        assert encode(other, Format.ATIF)["extra"]["oresmith"]["extra"] == {"columns": {"deep": [{"x": 1}]}}

    def test_exported_calls_have_unique_ids_and_keep_the_logged_ones(self) -> None:
        t = decode(envelope(step("I look.", [call(result="1"), call(result="2")])), CTX)
        acted_step = encode(t, Format.ATIF)["steps"][1]
        assert [c["tool_call_id"] for c in acted_step["tool_calls"]] == ["call_0", "call_1"]
        assert [c["extra"]["original_id"] for c in acted_step["tool_calls"]] == ["SWPURxgs", "SWPURxgs"]
