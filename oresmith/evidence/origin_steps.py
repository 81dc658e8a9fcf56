"""Steps as origin reads them: their calls, results and labels."""

from __future__ import annotations

from typing import Any

import msgspec

from oresmith.evidence.origin_facts import CallEcho, CallLabel, StepLabel
from oresmith.evidence.origin_log import Log, content_text
from oresmith.evidence.toolcall_text import canonical, loads
from oresmith.records import Message, Step, Trajectory

CLOSING_TOOLS = frozenset({"recommend_product", "terminate"})
_TEXT_HEAD = 120


class StepCalls(msgspec.Struct, frozen=True):
    """The calls of one step, ready to compare."""

    names: list[str]
    arguments: list[Any]
    keys: list[tuple[str, str]]


def step_calls(trajectory: Trajectory) -> list[StepCalls]:
    """The tool calls of each step: entry k belongs to `trajectory.steps[k]`; empty for a malformed step."""
    found = []
    for step in trajectory.steps:
        message = step_message(trajectory, step)
        calls = message.tool_calls if message is not None else []
        names = [call.name if isinstance(call.name, str) else "" for call in calls]
        arguments = [_parsed(call.arguments) for call in calls]
        keys = [(name, canonical(value)) for name, value in zip(names, arguments, strict=True)]
        found.append(StepCalls(names, arguments, keys))
    return found


def step_message(trajectory: Trajectory, step: Step) -> Message | None:
    """The assistant message of a step, or None."""
    index = step.message
    if not isinstance(index, int) or not 0 <= index < len(trajectory.messages):
        return None
    return trajectory.messages[index]


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    value = loads(arguments)
    return arguments if value is None else value


def result_sizes(trajectory: Trajectory) -> list[int]:
    """Characters of the tool results that each step records."""
    return [sum(len(text) for text in texts) for texts in step_results(trajectory)]


def step_results(trajectory: Trajectory) -> list[list[str]]:
    """The tool results of each step, as text: the tool messages right after its assistant message."""
    found = []
    for step in trajectory.steps:
        texts: list[str] = []
        at = step.message + 1 if isinstance(step.message, int) and step.message >= 0 else len(trajectory.messages)
        while at < len(trajectory.messages) and trajectory.messages[at].role == "tool":
            texts.append(content_text(trajectory.messages[at].content))
            at += 1
        found.append(texts)
    return found


def closing_step(calls: list[StepCalls], found: list[CallEcho]) -> int:
    """Index of a last step that only recommends or terminates and stands in no reply; -1 where there is none."""
    last = max((index for index, own in enumerate(calls) if own.names), default=-1)
    earlier = any(own.names for own in calls[:last]) if last > 0 else False
    if not earlier or not set(calls[last].names) <= CLOSING_TOOLS:
        return -1
    ended = all(call.label == "not_found" for call in found if call.step == last)
    return last if ended else -1


def step_labels(
    trajectory: Trajectory, calls: list[StepCalls], log: Log, found: list[CallEcho], has_log: bool
) -> list[StepLabel]:
    """One label a step: that of its calls, or, where it calls nothing, whether a reply of its window holds its text."""
    by_step: dict[int, list[CallEcho]] = {}
    for call in found:
        by_step.setdefault(call.step, []).append(call)
    labels: list[StepLabel] = []
    for index, step in enumerate(trajectory.steps):
        own = by_step.get(index)
        if own is not None:
            labels.append(_of_calls([call.label for call in own]))
        elif calls[index].names or step.llm_calls == 0 or not has_log:
            labels.append("not_found" if step.llm_calls == 0 else "unknown")
        else:
            labels.append(_of_text(step_message(trajectory, step), log, index))
    return labels


def _of_calls(labels: list[CallLabel]) -> StepLabel:
    if "not_found" in labels:
        return "not_found"
    return "unknown" if "unknown" in labels else "model_emitted"


def _of_text(message: Message | None, log: Log, index: int) -> StepLabel:
    """A step without calls: its thinking or its answer, by the first characters, in a reply of its window."""
    parts = [message.reasoning_content, message.content] if message is not None else []
    heads = [" ".join(part[: 4 * _TEXT_HEAD].split())[:_TEXT_HEAD] for part in parts if isinstance(part, str)]
    heads = [head for head in heads if head]
    if not heads or not log.timed[index] or log.untimed or log.unplaced:
        return "unknown"
    inferences = [log.inferences[at] for at in log.windows[index]]
    replies = [one.reply for one in inferences if one.reply is not None]
    texts = [" ".join(f"{reply.thinking} {reply.text}".split()) for reply in replies]
    if any(head in text for head in heads for text in texts):
        return "model_emitted"
    return "unknown" if any(one.dropped for one in inferences) else "not_found"
