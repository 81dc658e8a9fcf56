"""No JSON-shaped content of a trace makes origin raise, and the verdict is always one of three, with all its votes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oresmith.evidence.origin import judge_origin, origin_evidence
from oresmith.evidence.origin_facts import OriginEvidence
from oresmith.records import Message, ProxyCall, Step, ToolCall, Trajectory
from tests.evidence.test_origin_play import PLAN, Play, agentic, tagged

SIGNALS = ["echo", "head", "growth", "size", "bodies", "replies", "prompts", "dispatch"]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**400), 10**18, 2**63, 1_777_593_600_500])
    | st.floats()
    | st.sampled_from(["", "1777593600500", "NaN", "1e999", "/inference/chat/completions", tagged(PLAN[0]), "{", "[1"])
    | st.text(max_size=12)
)
KEYS = st.sampled_from(
    [
        *("choices", "message", "content", "reasoning_content", "tool_calls", "function", "name", "arguments"),
        *("usage", "prompt_tokens", "completion_tokens", "model", "messages", "role", "tools", "text", "score"),
    ]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
PATHS = st.sampled_from(["/inference/chat/completions", "/search/find_product", "/inference/embeddings", "", None])


def entry(**fields: Any) -> ProxyCall:
    return ProxyCall(**fields)


ENTRIES = st.builds(
    entry,
    kind=VALUES,
    path=PATHS | VALUES,
    timestamp=st.sampled_from([1_777_593_600_400.0, 1_777_593_601_000]) | SCALARS,
    duration_ms=SCALARS,
    status_code=st.just(200) | SCALARS,
    json_data=VALUES,
    response=VALUES,
    response_truncated=SCALARS,
    completion_tokens=VALUES,
)


def well_formed(trajectory: Trajectory) -> OriginEvidence:
    """Evidence and verdict come, are complete and consistent, and survive being stored."""
    evidence = origin_evidence(trajectory)
    origin = judge_origin(evidence)
    assert origin.label in ("A", "B", "unknown")
    assert [vote.split(":")[0] for vote in origin.votes[: len(SIGNALS)]] == SIGNALS
    assert len(evidence.steps) == len(trajectory.steps)
    assert set(evidence.steps) <= {"model_emitted", "not_found", "unknown"}
    echo = evidence.echo
    assert echo.found + echo.not_found + echo.unknown + echo.closing == len(evidence.calls)
    assert msgspec.json.decode(msgspec.json.encode(evidence), type=OriginEvidence) == evidence
    return evidence


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ENTRIES, max_size=6), SCALARS, SCALARS)
def test_a_log_of_any_values_is_read(log: list[ProxyCall], total: Any, seconds: Any) -> None:
    well_formed(agentic().trajectory(log=log, inference_total=total, execution_time=seconds))


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_a_response_of_any_shape_is_read(response: Any) -> None:
    play = agentic()
    play.log[0] = msgspec.structs.replace(play.log[0], response=response)
    evidence = well_formed(play.trajectory())
    assert evidence.steps[1:] == ["model_emitted"] * 3


@settings(max_examples=100, deadline=None)
@given(VALUES, st.lists(VALUES, max_size=3))
def test_a_request_of_any_shape_is_read(body: Any, messages: list[Any]) -> None:
    play = agentic()
    play.log[0] = msgspec.structs.replace(play.log[0], json_data=body)
    play.log[2] = msgspec.structs.replace(play.log[2], json_data={"messages": messages, "model": body})
    assert well_formed(play.trajectory()).steps == ["model_emitted"] * 4


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-3, 12) | st.just(10**9), max_size=6),
    st.lists(st.none() | st.integers(0, 2**53) | st.integers(1_777_593_600_000, 1_777_593_602_000), min_size=6),
    st.lists(st.text(max_size=20) | st.sampled_from(["", "{", "null", "[[", '{"q": 1}', "9" * 5000]), min_size=6),
)
def test_steps_of_any_order_and_arguments_are_read(
    places: list[int], stamps: list[int | None], arguments: list[str]
) -> None:
    play = agentic()
    calls = [ToolCall(id="c", name=text[:3], arguments=text) for text in arguments]
    play.messages.append(Message(role="assistant", tool_calls=calls))
    play.steps = [Step(message=place, timestamp=stamp) for place, stamp in zip(places, stamps, strict=False)]
    well_formed(play.trajectory())


def test_large_hostile_traces_are_read() -> None:
    play = Play()
    deep: Any = {}
    for _ in range(60):
        deep = {"tool_calls": [deep], "messages": [deep]}
    names = [(f"tool_{n}", {"q": "{" * 50}) for n in range(1_000)]
    for _ in range(20):
        play.infer("{" * 60_000, 10**14, body=deep)
        play.infer(json.dumps([{"name": name, "parameters": given} for name, given in names]), 900)
        play.step(names, result="[" * 1_000)
    evidence = well_formed(play.trajectory())
    assert len(evidence.calls) == 20_000


def test_evidence_carries_no_text_of_the_trace() -> None:
    play = Play()
    marked = [("tool_MARKED", {"q_MARKED": "MARKED"})]
    play.infer(tagged(marked, think="MARKED"), 900, body={"model": "MARKED", "messages": [{"content": "MARKED"}]})
    play.step(marked, result="MARKED", think="MARKED")
    assert b"MARKED" not in msgspec.json.encode(well_formed(play.trajectory()))
