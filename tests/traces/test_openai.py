"""OpenAI rows in and out."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oresmith.reasons import Reason
from oresmith.records import Format, Judgement, Problem, Provenance, SourceOutcome
from oresmith.traces import CodecError, Context, decode, encode, to_openai
from tests.traces.build import (
    CTX,
    DECLARED,
    JSON,
    NAMES,
    OBJECTS,
    PROPERTY,
    TEXT,
    TRUSTED,
    call,
    envelope,
    envelopes,
    some,
    step,
)

FLAT = {"type": "function", "name": "terminate", "description": "d", "parameters": {"type": "object"}}
NESTED = {"type": "function", "function": {"name": "terminate", "description": "d", "parameters": {"type": "object"}}}


def asks(*calls: dict[str, Any], content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def asked(original_id: str | None = None, arguments: Any = "{}", name: str = "find_product") -> dict[str, Any]:
    return {"id": original_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def answer(original_id: str | None = None, content: str = "[]") -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": original_id}


def row(*messages: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "a red mug"}, *messages]} | columns


class TestReading:
    def test_colliding_ids_are_minted_anew_and_answers_stay_paired(self) -> None:
        first, second = asks(asked("x"), asked("x")), asks(asked("x"))
        t = decode(row(first, answer("x", "1"), answer("x", "2"), second, answer("x", "3")), CTX)
        assert [c.id for m in t.messages for c in m.tool_calls] == ["call_0", "call_1", "call_2"]
        assert [c.original_id for m in t.messages for c in m.tool_calls] == ["x", "x", "x"]
        assert [(m.tool_call_id, m.content) for m in t.messages if m.role == "tool"] == [
            ("call_0", "1"),
            ("call_1", "2"),
            ("call_2", "3"),
        ]

    def test_an_answer_without_an_id_answers_the_next_open_call(self) -> None:
        t = decode(row(asks(asked("x"), asked("y"), asked("z")), answer("y"), answer(), answer()), CTX)
        assert [m.tool_call_id for m in t.messages if m.role == "tool"] == ["call_1", "call_0", "call_2"]

    def test_an_answer_that_no_call_waits_for_stays_unpaired(self) -> None:
        t = decode(row(asks(asked("x")), answer("x"), answer("x"), answer("nobody"), answer()), CTX)
        assert [m.tool_call_id for m in t.messages if m.role == "tool"] == ["call_0", None, None, None]

    @pytest.mark.parametrize("tools", [[FLAT], [NESTED], orjson.dumps([FLAT]).decode()])
    def test_flat_and_nested_tools_are_the_same_tools(self, tools: Any) -> None:
        assert decode(row(tools=tools), CTX).tools == [NESTED]

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [('{"q": "mug"}', '{"q": "mug"}'), ({"q": "mug"}, '{"q":"mug"}'), (None, "{}"), ("?", "?")],
    )
    def test_arguments_are_always_text(self, arguments: Any, text: str) -> None:
        nested = decode(row(asks(asked("x", arguments))), CTX)
        flat = decode(row(asks({"name": "find_product", "arguments": arguments})), CTX)
        assert nested.messages[1].tool_calls[0].arguments == flat.messages[1].tool_calls[0].arguments == text

    def test_nulls_that_arrow_wrote_count_as_absent(self) -> None:
        padded = {
            "role": "assistant",
            "content": "hi",
            "tool_calls": None,
            "tool_call_id": None,
            "name": None,
            "x": None,
        }
        t = decode(row(padded, tools=None, reward=None, reasoning_quality=None), CTX)
        assert (t.messages[1].content, t.messages[1].tool_calls, t.tools, t.outcome, t.judge) == (
            "hi",
            [],
            None,
            None,
            None,
        )
        assert t.extra == {}

    def test_a_trajectory_column_of_messages_is_read_as_messages(self) -> None:
        nebius = {
            "trajectory_id": "chatcmpl-1",
            "instance_id": "repo__1",
            "trajectory": [{"role": "user", "content": "fix it"}, {"role": "assistant", "content": "done"}],
            "tools": [NESTED],
            "resolved": 0,
            "exit_status": "submit",
        }
        t = decode(nebius, TRUSTED)
        assert (t.format, t.problem.problem_id, t.problem.query) == (Format.OPENAI, "repo__1", "fix it")
        assert t.outcome == SourceOutcome(success=False)
        assert t.extra == {"attempt": "chatcmpl-1", "columns": {"exit_status": "submit"}}

    def test_known_columns_of_trusted_rows_are_read_and_all_others_kept(self) -> None:
        t = decode(
            row(
                problem_id="p1",
                category="Shop",
                agent_version="v7",
                run_id="r7",
                validator="5F..",
                reward=0.5,
                is_successful=False,
                reasoning_quality=0.0,
                reasoning_model="",
                license="MIT",
                miner_hotkey="5G..",
                race_id=12,
            ),
            replace(DECLARED, trust_rows=True),
        )
        assert (t.problem.category, t.licence) == ("shop", "MIT")
        assert t.provenance == Provenance(agent_version="v1", run_id="r1", validator="5F..")
        assert t.outcome == SourceOutcome(success=False, score=0.5)
        assert t.judge == Judgement(quality=0.0, model="")
        assert t.extra == {"columns": {"agent_version": "v7", "run_id": "r7", "miner_hotkey": "5G..", "race_id": 12}}

    def test_a_row_is_not_believed_about_itself(self) -> None:
        plain = row(problem_id="p1", query="a mug")
        t = decode(plain | CLAIMS, DECLARED)
        assert (t.provenance, t.licence, t.outcome, t.judge) == (DECLARED.provenance, None, None, None)
        assert t.problem == Problem(problem_id="p1", query="a mug")
        assert t.extra == {"columns": CLAIMS}
        assert t.trajectory_id == decode(plain, DECLARED).trajectory_id

    def test_the_files_licence_wins_over_a_trusted_rows(self) -> None:
        t = decode(row(license="MIT"), TRUSTED)
        assert (t.licence, t.extra) == ("CC-BY-4.0", {"columns": {"license": "MIT"}})

    @pytest.mark.parametrize(
        ("stated", "read"),
        [
            ("WEB", "web"),
            ("product", "product"),
            ("", None),
            ("toys", None),
            ("shop ", None),
            (["shop"], None),
            (3, None),
        ],
    )
    def test_a_category_is_a_known_one_or_unknown(self, stated: Any, read: str | None) -> None:
        t = decode(row(category=stated), TRUSTED)
        assert (t.problem.category, t.extra.get("columns")) == (read, None if read else {"category": stated})

    def test_of_several_names_of_a_field_the_first_decides(self) -> None:
        t = decode(row(problem_id=5, task_id="x"), CTX)
        assert (t.problem.problem_id, t.extra["columns"]) == (None, {"problem_id": 5, "task_id": "x"})

    def test_a_reward_that_is_an_object_is_the_problems_and_no_score(self) -> None:
        t = decode(row(reward={"product_id": "7"}), TRUSTED)
        assert (t.problem.reward, t.outcome) == ({"product_id": "7"}, None)

    @pytest.mark.parametrize(
        "bad",
        [
            {"messages": "x"},
            {"messages": None},
            {"messages": ["x"]},
            {"messages": [{"role": "judge", "content": "x"}]},
            {"messages": [{"role": ["user"], "content": "x"}]},
            {"messages": [{"content": "x"}]},
            row({"role": "assistant", "content": 3}),
            row({"role": "assistant", "tool_calls": {"a": 1}}),
            row(asks({"id": "x"})),
            row(tools={"a": 1}),
            row(tools=[{"type": "function"}]),
        ],
    )
    def test_a_row_of_another_shape_is_refused(self, bad: Any) -> None:
        with pytest.raises(CodecError) as fault:
            decode(bad, CTX)
        assert fault.value.reason is Reason.WRONG_SHAPE

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("[", Reason.INVALID_JSON),
            ("[NaN]", Reason.INVALID_JSON),
            ("[1e999]", Reason.INVALID_JSON),
            ('[{"a":1,"a":2}]', Reason.DUPLICATE_KEY),
            ("[" + "9" * 30 + "]", Reason.HUGE_INTEGER),
            ("[" * 500 + "]" * 500, Reason.NESTED_TOO_DEEP),
            ("[" * 100_000, Reason.NESTED_TOO_DEEP),
            ('["\\ud800"]', Reason.LONE_SURROGATE),
        ],
    )
    def test_json_inside_a_string_obeys_the_rules_of_a_line(self, text: str, reason: Reason) -> None:
        with pytest.raises(CodecError) as fault:
            decode(row(tools=text), CTX)
        assert fault.value.reason is reason


CLAIMS: dict[str, Any] = {
    "agent_version": "v9",
    "eval_run_id": "r9",
    "race_id": "c9",
    "validator": "5F..",
    "runtime": "new",
    "created_at": "2026-01-01",
    "licence": "MIT",
    "trajectory_id": "one",
    "is_successful": True,
    "score": 1.0,
    "scorer": "oro/5",
    "reasoning_quality": 0.9,
    "reasoning_model": "m",
    "category": "shop",
    "difficulty": "hard",
    "reward": {"product_id": "7"},
    "voucher": {"budget": 1},
}


CALLS = some({"function": some({"name": NAMES}, {"arguments": TEXT | OBJECTS})}, {"id": TEXT, "index": JSON})
MESSAGES = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "developer", "user"]), "content": TEXT | st.none()}),
    some(
        {"role": st.just("assistant")},
        {"content": TEXT, "reasoning_content": TEXT, "tool_calls": st.lists(CALLS, max_size=3), "refusal": JSON},
    ),
    some({"role": st.just("tool")}, {"content": TEXT, "tool_call_id": TEXT, "name": NAMES}),
)
ROWS = some(
    {"messages": st.lists(MESSAGES, max_size=6)},
    {
        "tools": st.lists(st.sampled_from([FLAT, NESTED]), max_size=2),
        "problem_id": TEXT | JSON,
        "agent_version": TEXT | st.sampled_from(["v1"]),
        "agent_version_id": TEXT | JSON,
        "task_id": TEXT | JSON,
        "category": TEXT | st.sampled_from(["shop", "Web"]),
        "license": TEXT,
        "score": JSON,
        "is_successful": st.booleans(),
        "reasoning_quality": st.floats(0, 1),
        "trajectory_id": TEXT,
        "unheard_of": JSON,
        "copied_context": st.just([]),
    },
)


class TestWayOut:
    def test_the_published_row_is_what_openai_clients_read(self) -> None:
        t = decode(envelope(step("I look.", [call(q="mug", result=[])]), step(None, [call("terminate", "ok")])), CTX)
        assert to_openai(t, [NESTED]) == {
            "messages": [
                {"role": "user", "content": "a red mug"},
                {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "I look.",
                    "tool_calls": [
                        {
                            "id": "call_0",
                            "type": "function",
                            "function": {"name": "find_product", "arguments": '{"q":"mug"}'},
                        }
                    ],
                },
                {"role": "tool", "content": "[]", "tool_call_id": "call_0", "name": "find_product"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "terminate", "arguments": "{}"}}
                    ],
                },
                {"role": "tool", "content": "ok", "tool_call_id": "call_1", "name": "terminate"},
            ],
            "tools": [NESTED],
            "original_call_ids": ["SWPURxgs", "SWPURxgs"],
            "copied_context": [],
            "no_model": [],
        }

    @PROPERTY
    @given(ROWS)
    def test_a_row_survives_the_way_out_and_back(self, raw: dict[str, Any]) -> None:
        for ctx in (CTX, TRUSTED, DECLARED, replace(DECLARED, trust_rows=True)):
            t = decode(raw, ctx)
            assert decode(encode(t, Format.OPENAI), ctx) == t

    @pytest.mark.parametrize("ctx", [CTX, TRUSTED, DECLARED])
    def test_every_column_comes_back_as_the_row_stated_it(self, ctx: Context) -> None:
        raw = row(problem_id="p1", query="a mug", note=1) | CLAIMS
        back = encode(decode(raw, ctx), Format.OPENAI)
        renamed = {"eval_run_id": "run_id"} if ctx.trust_rows else {}
        for name in raw.keys() - {"messages"}:
            assert back[renamed.get(name, name)] == raw[name]

    def test_a_miners_key_is_kept_and_never_written_out(self) -> None:
        keys = {"miner_hotkey": "5G", "Coldkey": "5H", "agent": {"minerHotkey": "5G", "x": 1}, "ss58_address": "5G"}
        said = {"role": "user", "content": "q", "hotkey": "5G", "lang": "en"}
        t = decode({"messages": [said]} | keys, CTX)
        assert t.extra == {"columns": keys, "messages": {"0": {"hotkey": "5G", "lang": "en"}}}
        back = encode(t, Format.OPENAI)
        assert (back["agent"], back["messages"][0]["lang"]) == ({"x": 1}, "en")
        assert "5G" not in str(back) + str(to_openai(t))
        assert "5H" not in str(back) + str(to_openai(t))

    def test_what_must_not_be_trained_on_survives(self) -> None:
        raw = row({"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"})
        t = decode(raw | {"copied_context": [1], "no_model": [2]}, CTX)
        assert [(s.copied_context, s.llm_calls) for s in t.steps] == [(True, None), (False, 0)]
        assert decode(encode(t, Format.OPENAI), CTX) == t

    @pytest.mark.parametrize("foreign", ["x", [0], [7], [True], [[1]], {"a": 1}])
    def test_a_foreign_column_of_a_name_of_ours_marks_nothing(self, foreign: Any) -> None:
        t = decode(row({"role": "assistant", "content": "a"}, no_model=foreign, original_call_ids=foreign), CTX)
        assert (t.steps[0].llm_calls, t.extra["columns"]["no_model"]) == (None, foreign)

    @PROPERTY
    @given(envelopes())
    def test_the_published_row_gives_the_same_messages_again(self, raw: dict[str, Any]) -> None:
        t = decode(raw, CTX)
        assert decode(orjson.loads(orjson.dumps(to_openai(t))), CTX).messages == t.messages

    @PROPERTY
    @given(ROWS)
    def test_ids_are_unique_and_every_answer_names_a_call(self, raw: dict[str, Any]) -> None:
        published = to_openai(decode(raw, CTX))["messages"]
        ids = [asked["id"] for message in published for asked in message.get("tool_calls", [])]
        answers = [message["tool_call_id"] for message in published if "tool_call_id" in message]
        assert len(set(ids)) == len(ids)
        assert len(set(answers)) == len(answers)
        assert set(answers) <= set(ids)
