"""The way back to SN15: a dialogue for the outcome scorer, an envelope or a bare list for a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from oresmith.records import Format, Message, Step, ToolCall, Trajectory
from oresmith.traces.context import cannot_carry
from oresmith.traces.jsontext import loads
from oresmith.traces.private import without_keys
from oresmith.traces.sn15_shape import apply_difference, envelope_of, info_of, log_entry_of


class Turn(NamedTuple):
    """A step with its messages: the assistant's, and the contents of its tool messages by the id they answer."""

    step: Step
    message: Message | None
    results: dict[str, str | None]


def turns(t: Trajectory) -> Iterator[Turn]:
    """The steps of a trajectory in order, each with the tool messages that follow its assistant message."""
    for step in t.steps:
        if not 0 <= step.message < len(t.messages):
            yield Turn(step, None, {})
            continue
        results: dict[str, str | None] = {}
        for place in range(step.message + 1, len(t.messages)):
            answer = t.messages[place]
            if answer.role != "tool":
                break
            if answer.tool_call_id is not None:
                results.setdefault(answer.tool_call_id, answer.content)
        yield Turn(step, t.messages[step.message], results)


def dialogue_of(t: Trajectory) -> list[Any] | None:
    """The SN15 dialogue of a trajectory of any format, for the outcome scorer.

    The raw dialogue where the record keeps it, otherwise steps built anew from messages and steps; None where an
    envelope held no dialogue. Scores are the same as on the dialogue that was logged.
    """
    if t.raw_dialogue is not None:
        return list(t.raw_dialogue) if isinstance(t.raw_dialogue, list) else None
    if not t.steps and t.format is Format.SN15_ENVELOPE:
        return apply_difference(t.extra, "envelope", {"dialogue": None})["dialogue"]  # type: ignore[no-any-return]
    logs: dict[int, list[dict[str, Any]]] = {}
    for entry in t.log or ():
        logs.setdefault(entry.step, []).append(log_entry_of(entry))
    return [_step_of(t, turn, index, logs.get(index, [])) for index, turn in enumerate(turns(t))]


def encode_steps(t: Trajectory) -> list[Any]:
    """A bare list of steps.

    Raises:
        CodecError: where a step list has no place for a message of the trajectory.
    """
    check_messages(t, Format.SN15_STEPS)
    return dialogue_of(t) or []


def encode_envelope(t: Trajectory) -> dict[str, Any]:
    """A sandbox envelope without a miner's key; `content` of its steps is rendered as the runtime does.

    Raises:
        CodecError: where the trajectory has no status, or a message that an envelope has no place for.
    """
    if t.status is None:
        raise cannot_carry(Format.SN15_ENVELOPE, "it has no status")
    check_messages(t, Format.SN15_ENVELOPE)
    extra = t.extra | {"envelope": without_keys(t.extra.get("envelope", {}))}
    envelope = apply_difference(extra, "envelope", envelope_of(t))
    if t.steps or t.raw_dialogue is not None:
        envelope["dialogue"] = dialogue_of(t)
    return envelope


def check_messages(t: Trajectory, target: Format) -> None:
    """Refuse what a list of steps loses: it holds one query, then assistant and tool messages.

    Raises:
        CodecError: naming what has no place; a system prompt has one only in SN15's call log or in a rollout's prompts.
    """
    if t.raw_dialogue is not None:
        return
    body = list(t.messages)
    if body and body[0].role == "system":
        if target is not Format.SHOPPINGBENCH and t.format not in (Format.SN15_ENVELOPE, Format.SN15_STEPS):
            raise cannot_carry(target, "it has a system prompt outside a call log")
        body.pop(0)
    if body and body[0].role == "user" and (body.pop(0).content != t.problem.query or not t.steps):
        raise cannot_carry(target, "its user message is not the problem's query")
    if any(message.role not in ("assistant", "tool") for message in body):
        raise cannot_carry(target, "it has more than one user or system message")
    steps = [step.message for step in t.steps]
    answered = sum(len(turn.results) for turn in turns(t))
    if steps != [place for place, message in enumerate(t.messages) if message.role == "assistant"]:
        raise cannot_carry(target, "its steps are not its assistant messages")
    if answered != sum(message.role == "tool" for message in body):
        raise cannot_carry(target, "a tool message answers no call of its step")


def _step_of(t: Trajectory, turn: Turn, index: int, logged: list[dict[str, Any]]) -> dict[str, Any]:
    step, extra = turn.step, turn.step.extra
    message = _message_of(turn)
    completion = {"reasoning_content": "", "content": rendered(message), "message": message}
    info = apply_difference(extra, "extra_info", info_of(t.problem, t.execution_time, step, index))
    if logged:
        _apply_log(extra, logged)
        info["proxy_calls"] = logged
        if step.log_first and "problem_id" in info:
            info["problem_id"] = info.pop("problem_id")
    raw = {"completion": apply_difference(extra, "completion", completion), "extra_info": info}
    return apply_difference(extra, "step", raw)


def _message_of(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {}
    if turn.message is not None:
        if turn.message.reasoning_content is not None:
            message["think"] = turn.message.reasoning_content
        calls = [
            _call_of(call, place, turn.results, turn.step.extra) for place, call in enumerate(turn.message.tool_calls)
        ]
        if calls:
            message["tool_call"] = calls
        if turn.message.content is not None:
            message["response"] = turn.message.content
    return apply_difference(turn.step.extra, "message", message)


def _call_of(call: ToolCall, place: int, results: dict[str, str | None], extra: dict[str, Any]) -> dict[str, Any]:
    try:
        parameters = loads(call.arguments)
    except ValueError:
        parameters = call.arguments
    raw: dict[str, Any] = {"name": call.name, "parameters": parameters}
    if call.original_id is not None:
        raw["tool_call_id"] = call.original_id
    if call.id in results:
        raw["result"] = _result_of(results[call.id], extra.get("results", {}).get(str(place)))
    raw.update(extra.get("calls", {}).get(str(place), {}))
    return raw


def _result_of(text: str | None, noted: str | None) -> Any:
    if text is None or noted == "str" or (noted is None and text[:1] not in ("[", "{")):
        return text
    try:
        return loads(text)
    except ValueError:
        return text


def _apply_log(extra: dict[str, Any], logged: list[dict[str, Any]]) -> None:
    for place, noted in extra.get("log", {}).items():
        if "is" in noted:
            logged[int(place)] = noted["is"]
        else:
            logged[int(place)].update(noted["set"])


def rendered(message: dict[str, Any]) -> str:
    """`content` of a step as ORO's runtime renders it from the step's message (sn15.md section 3)."""
    parts = []
    if message.get("think"):
        parts.append(f"<think>{message['think']}</think>")
    if message.get("tool_call"):
        calls = [{"name": call["name"], "parameters": call["parameters"]} for call in message["tool_call"]]
        parts.append(f"<tool_call>{json.dumps(calls)}</tool_call>")
    if message.get("response"):
        parts.append(f"<response>{message['response']}</response>")
    return "\n".join(parts)
