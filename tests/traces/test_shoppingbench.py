"""ShoppingBench's own rollout files."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.records import Format
from oresmith.traces import CodecError, decode, dialogue_of, encode
from tests.traces.build import CTX, IDS, JSON, NAMES, OBJECTS, PROPERTY, TEXT, as_json, envelope, some, step

ROLLOUT = Format.SHOPPINGBENCH


def ujson(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")).replace("/", "\\/")


def rollout(*messages: dict[str, Any], query: str = "a red mug") -> list[dict[str, Any]]:
    """A line as the rollout script writes it: every prompt repeats the steps before it."""
    history = [f"<user>{query}</user>"]
    steps = []
    for number, message in enumerate(messages, start=1):
        prompt = [
            {"role": "system", "content": "You are a shopping agent."},
            {"role": "user", "content": "# Dialogue Records History\n" + "\n\n".join(history)},
        ]
        steps.append(
            {
                "prompt": prompt,
                "completion": {"reasoning_content": "", "content": "<think>raw reply", "message": message},
                "extra_info": {"step": number, "query": query, "timestamp": 1_700_000_000_000 + number},
            }
        )
        parts = [(role, message[role]) for role in ("think", "tool_call", "obs", "response") if message.get(role)]
        texts = [f"<{role}>{text if isinstance(text, str) else ujson(text)}</{role}>" for role, text in parts]
        history += ["\n".join(texts)] if texts else []
    return steps


def asks(*ids: str) -> list[dict[str, Any]]:
    return [{"name": "find_product", "parameters": {"q": "mug/é"}, "tool_call_id": name} for name in ids]


def sees(**results: Any) -> list[dict[str, Any]]:
    return [{"tool_call_id": name, "results": seen} for name, seen in results.items()]


class TestReading:
    def test_results_are_paired_by_id_and_the_prompt_is_the_system_message(self) -> None:
        first = {"think": "I look.", "tool_call": asks("x", "y"), "obs": sees(y="two", x=[{"product_id": "7"}])}
        t = decode(rollout(first, {"think": "Done.", "response": "Here."}), CTX)
        assert t.format is ROLLOUT
        assert [(m.role, m.content) for m in t.messages] == [
            ("system", "You are a shopping agent."),
            ("user", "a red mug"),
            ("assistant", None),
            ("tool", '[{"product_id":"7"}]'),
            ("tool", "two"),
            ("assistant", "Here."),
        ]
        assert (t.system_prompt, t.log, t.status, t.problem.problem_id) == ("logged", None, None, None)

    def test_equal_ids_and_absent_ids_pair_in_order(self) -> None:
        equal = {"tool_call": asks("x", "x"), "obs": sees(x="1") + sees(x="2")}
        bare = {
            "tool_call": [{"name": "find_product", "parameters": {}}, {"name": "terminate", "parameters": {}}],
            "obs": [{"results": "3"}, {"results": "4"}],
        }
        t = decode(rollout(equal, bare), CTX)
        assert [m.content for m in t.messages if m.role == "tool"] == ["1", "2", "3", "4"]

    def test_a_tool_that_the_script_did_not_know_has_no_result(self) -> None:
        t = decode(rollout({"tool_call": asks("x", "y"), "obs": sees(y="2")}), CTX)
        assert [m.tool_call_id for m in t.messages if m.role == "tool"] == ["call_1"]

    def test_a_prompt_that_only_repeats_the_steps_is_not_kept(self) -> None:
        steps = rollout({"think": "a/b", "tool_call": asks("x"), "obs": sees(x=["é/"])}, {"think": "b"}, {"think": "c"})
        kept = decode(steps, CTX)
        assert ["prompt" in s.extra.get("step", {}) for s in kept.steps] == [False, False, False]
        steps[1]["prompt"][1]["content"] += "!"
        assert ["prompt" in s.extra.get("step", {}) for s in decode(steps, CTX).steps] == [False, True, False]
        assert encode(decode(steps, CTX), ROLLOUT) == steps

    def test_the_models_raw_reply_is_kept(self) -> None:
        t = decode(rollout({"think": "a"}), CTX)
        assert t.steps[0].extra["completion"] == {"content": "<think>raw reply"}

    def test_a_malformed_step_keeps_the_raw_dialogue(self) -> None:
        steps = [*rollout({"think": "a"}), "x"]
        t = decode(steps, CTX)
        assert [bool(s.malformed) for s in t.steps] == [False, True]
        assert dialogue_of(t) == steps
        assert encode(t, ROLLOUT) == steps


CALLS = some({"name": NAMES, "parameters": OBJECTS}, {"tool_call_id": IDS})
MESSAGES = some(
    {},
    {
        "user": TEXT,
        "think": TEXT,
        "tool_call": st.lists(CALLS, max_size=3),
        "obs": st.lists(some({}, {"tool_call_id": IDS, "results": JSON, "name": NAMES}), max_size=3),
        "response": TEXT,
    },
)


@st.composite
def rollouts(draw: st.DrawFn) -> list[dict[str, Any]]:
    steps = rollout(*draw(st.lists(MESSAGES, min_size=1, max_size=3)))
    for one in steps[1:]:
        if not draw(st.integers(0, 3)):
            one["prompt"] = draw(JSON)
        elif not draw(st.integers(0, 3)):
            del one["prompt"]
    return steps


class TestWayBack:
    @PROPERTY
    @given(rollouts())
    def test_a_rollout_comes_back_as_it_was(self, steps: list[dict[str, Any]]) -> None:
        t = decode(steps, CTX)
        back = encode(t, ROLLOUT)
        assert as_json(back) == as_json(steps)
        assert decode(back, CTX) == t

    @pytest.mark.parametrize("raw", [envelope(step()), {"messages": [{"role": "user", "content": "a"}] * 2}])
    def test_what_a_rollout_cannot_carry_is_refused(self, raw: Any) -> None:
        with pytest.raises(CodecError, match="shoppingbench-rollout cannot carry"):
            encode(decode(raw, CTX), ROLLOUT)
