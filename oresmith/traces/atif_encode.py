"""The way out to ATIF 1.8, and back to the document that was read."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from oresmith.records import TRAJECTORY_SCHEMA, Format, Message, Step, Trajectory
from oresmith.traces.atif_shape import VERSIONS, calls_of, check_document, iso_time, observation_of
from oresmith.traces.context import CodecError, cannot_carry
from oresmith.traces.private import without_keys

UNKNOWN = "unknown"
"""Name and version of an agent that the source does not declare; ATIF requires both."""


def encode_document(t: Trajectory) -> dict[str, Any]:
    """An ATIF document: the one that was read, or a 1.8 document of a trajectory of another format.

    The latter carries the whole record but its messages and tools in `extra["oresmith"]`, so that nothing is lost. The
    columns of an orobench row are not part of its document. No miner's key is written from any `extra`.

    Raises:
        CodecError: where a step is malformed, a call's arguments are no JSON object, or a message has no place in ATIF.
    """
    read = t.format is Format.ATIF
    document = _published(t.extra.get("atif", {})) if read else _head(t)
    if read and t.tools is not None and "tool_definitions" not in document["agent"]:
        document["agent"] = document["agent"] | {"tool_definitions": t.tools}
    document["steps"] = _steps(t, own_ids=not read)
    try:
        return check_document(document)
    except CodecError as fault:
        raise cannot_carry(Format.ATIF, fault.what) from None


def _head(t: Trajectory) -> dict[str, Any]:
    agent: dict[str, Any] = {"name": UNKNOWN, "version": t.provenance.agent_version or UNKNOWN}
    if t.tools is not None:
        agent["tool_definitions"] = t.tools
    kept = msgspec.to_builtins(t)
    for name in ("messages", "tools"):
        kept.pop(name, None)
    kept = _published(kept)
    if t.steps:
        kept["steps"] = [_published(step) for step in kept["steps"]]
    head = {"schema_version": VERSIONS[-1], "agent": agent, "extra": {"oresmith": {"schema": TRAJECTORY_SCHEMA} | kept}}
    if t.provenance.run_id is not None:
        head["session_id"] = t.provenance.run_id
    if t.trajectory_id:
        head["trajectory_id"] = t.trajectory_id
    return head


def _published(kept: dict[str, Any]) -> dict[str, Any]:
    """A document, an agent in it, or a step, with an `extra` that names no miner."""
    published = {key: without_keys(value) if key == "extra" else value for key, value in kept.items()}
    return published | {"agent": _published(kept["agent"])} if isinstance(kept.get("agent"), dict) else published


def _steps(t: Trajectory, *, own_ids: bool) -> list[dict[str, Any]]:
    if any(step.malformed or step.message < 0 for step in t.steps):
        _refuse("a step is malformed")
    by_message = {step.message: step for step in t.steps}
    kept = t.extra.get("atif_messages", {})
    steps: list[dict[str, Any]] = []
    place = 0
    while place < len(t.messages):
        message = t.messages[place]
        if message.role in ("system", "user"):
            steps.append(
                {"source": message.role, "message": message.content or ""} | _published(kept.get(str(place), {}))
            )
            place += 1
        elif message.role == "assistant":
            step = by_message.get(place, Step(message=place))
            answers, place = _answers(t.messages, place)
            steps.append(_agent_step(message, step, answers, own_ids=own_ids))
            place += step.extra.get("observed", 0) if t.format is Format.ATIF else 0
        else:
            _refuse("it has a message of role developer" if message.role == "developer" else "a result answers no call")
    return [{"step_id": number} | step for number, step in enumerate(steps, start=1)]


def _answers(messages: list[Message], place: int) -> tuple[list[Message | None], int]:
    """The tool message of each call of the assistant message at `place`, and the place after them."""
    by_id: dict[str | None, Message] = {}
    after = place + 1
    while after < len(messages) and messages[after].role == "tool":
        answer = messages[after]
        if answer.tool_call_id in by_id:
            _refuse("a call has two results")
        by_id[answer.tool_call_id] = answer
        after += 1
    answers = [by_id.pop(call.id, None) for call in messages[place].tool_calls]
    if by_id:
        _refuse("a result answers no call of its step")
    return answers, after


def _agent_step(message: Message, step: Step, answers: list[Message | None], *, own_ids: bool) -> dict[str, Any]:
    raw: dict[str, Any] = {"source": "agent", "message": message.content or ""}
    calls = calls_of(message.tool_calls, own_ids=own_ids)
    if calls is None:
        _refuse("the arguments of a call are no JSON object")
    kept: dict[str, Any] = _published(step.extra.get("atif", {}))
    ids = [call["tool_call_id"] for call in kept.get("tool_calls", calls)]
    values = {
        "timestamp": iso_time(step.timestamp),
        "reasoning_content": message.reasoning_content,
        "tool_calls": calls or None,
        "observation": observation_of(ids, answers),
        "llm_call_count": step.llm_calls,
        "is_copied_context": step.copied_context or None,
    }
    return raw | {key: value for key, value in values.items() if value is not None} | kept


def _refuse(why: str) -> NoReturn:
    raise cannot_carry(Format.ATIF, why)
