"""The call log as origin reads it: flattened, sorted by time, cut into one window a step.

The runtime stores a call in the last step that is not later than the call's end, so mostly one step early; its
`timestamp` is the call's END. A step is stamped when it is complete, after its tools ran: the calls of step k are those
that ended after step k-1 was stamped and not after step k was. Everything here takes values of any type.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from oresmith.evidence.toolcall_text import MAX_TEXT, TextCall, bare_json, calls_in_text, harvest
from oresmith.records import ProxyCall, Trajectory

STALE_SLACK_MS = 2_000
"""A call that ended this long before the run can have begun belongs to an earlier run in the same output folder."""
MAX_CHOICES = 8
"""Choices of one reply that are read."""
_FAR = 1e15
_REDACTED = re.compile(r"\[\d{1,20} characters\]\Z")


class Reply(msgspec.Struct, frozen=True):
    """A model's reply as logged."""

    text: str
    """The content of all choices, at most `MAX_TEXT` characters."""
    thinking: str
    """`reasoning_content` of all choices, at most `MAX_TEXT` characters."""
    calls: list[TextCall]
    """Native `tool_calls` first, then those in the text."""
    bare: Any
    """The JSON value that is the whole content, if it is one and makes no call; else None."""


class Inference(msgspec.Struct):
    """One inference call of the log."""

    start: float | None
    end: float | None
    answered: bool
    """The call succeeded, whether or not its reply was kept."""
    reply: Reply | None
    """None: it failed, or the log dropped the text."""
    prompt_tokens: int | None
    body: dict[str, Any]
    """The request as logged."""
    step: int = -1
    """Index of the step in whose window it ended; len(steps) after the last one; -1 where no time tells."""

    @property
    def speaks(self) -> bool:
        """Answered with anything: an empty reply, like a failed call, is tried again."""
        return self.answered and (
            self.reply is None or bool(self.reply.text or self.reply.calls or self.reply.thinking)
        )

    @property
    def dropped(self) -> bool:
        """Answered, but what the model said is not in the log."""
        return self.answered and self.reply is None


class Tool(msgspec.Struct):
    """One call of the log that is not inference, with the step in whose window it ended."""

    start: float
    end: float
    step: int


class Log(msgspec.Struct):
    """The flattened log."""

    inferences: list[Inference]
    """In the order of their ends; those without a time last."""
    tools: list[Tool]
    windows: list[list[int]]
    """Per step: indices into `inferences`."""
    timed: list[bool]
    """Per step: its window is known (it has a time that is not before an earlier step's)."""
    stale: int
    """Calls of earlier runs, left out of everything else."""
    others: int
    """Calls that are not inference, with a time or without."""
    untimed: int
    """Inference calls without a usable time."""
    unplaced: bool
    """At least half of the timed inference calls ended after the last step: the two clocks disagree."""


def number(value: Any) -> float | None:
    """A finite number of sane size as float, else None (bool, text, NaN, huge and other types)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_FAR < value < _FAR:
        return None
    return float(value)


def is_inference(path: Any) -> bool:
    """Whether a logged path asks a model for text (embeddings do not)."""
    if not isinstance(path, str) or "embedding" in path:
        return False
    return "/inference/" in path or "chat/completions" in path


def read_log(trajectory: Trajectory, names: AbstractSet[str]) -> Log:
    """Flatten, sort and cut the log.

    Args:
        trajectory: any trajectory; one without a log gives empty lists.
        names: the tools that its steps call.

    Returns:
        The log by step windows. Never raises.
    """
    stamps, timed = _stamps(trajectory)
    bounds, places = _bounds(stamps)
    begun = _begun(stamps, trajectory.execution_time)
    inferences: list[Inference] = []
    tools: list[Tool] = []
    stale = others = 0
    for call in trajectory.log if isinstance(trajectory.log, list) else []:
        end = number(call.timestamp)
        if end is not None and begun is not None and end < begun:
            stale += 1
            continue
        start = None if end is None else end - max(number(call.duration_ms) or 0.0, 0.0)
        step = -1 if end is None or not bounds else _place(end, bounds, places, len(stamps))
        if is_inference(call.path):
            inferences.append(_inference(call, start, end, step, names))
        else:
            others += 1
            if start is not None and end is not None:
                tools.append(Tool(start, end, step))
    inferences.sort(key=lambda one: (one.end is None, one.end or 0.0))
    windows: list[list[int]] = [[] for _ in stamps]
    for index, one in enumerate(inferences):
        if 0 <= one.step < len(stamps):
            windows[one.step].append(index)
    placed = [one.step for one in inferences if one.step >= 0]
    after = sum(step >= len(stamps) for step in placed)
    return Log(
        inferences=inferences,
        tools=tools,
        windows=windows,
        timed=timed,
        stale=stale,
        others=others,
        untimed=len(inferences) - len(placed),
        unplaced=bool(placed) and after * 2 >= len(placed) and after > 1,
    )


def _stamps(trajectory: Trajectory) -> tuple[list[float | None], list[bool]]:
    """Each step's time, and whether it can end a window: present and not before an earlier step's."""
    stamps = [number(step.timestamp) for step in trajectory.steps]
    timed: list[bool] = []
    latest = -_FAR
    for stamp in stamps:
        timed.append(stamp is not None and stamp >= latest)
        latest = max(latest, stamp) if stamp is not None else latest
    return [stamp if good else None for stamp, good in zip(stamps, timed, strict=True)], timed


def _bounds(stamps: list[float | None]) -> tuple[list[float], list[int]]:
    """Times of the steps that have one, ascending, and the steps' indices."""
    known = [(stamp, index) for index, stamp in enumerate(stamps) if stamp is not None]
    return [stamp for stamp, _ in known], [index for _, index in known]


def _place(end: float, bounds: list[float], places: list[int], after: int) -> int:
    """The first step that is not earlier than a call's end (of several at one time the first)."""
    at = bisect_left(bounds, end)
    return places[at] if at < len(places) else after


def _begun(stamps: list[float | None], execution_time: Any) -> float | None:
    """The earliest time, in ms, at which the run can have begun; None where the source does not tell."""
    seconds = number(execution_time)
    last = max((stamp for stamp in stamps if stamp is not None), default=None)
    if seconds is None or seconds <= 0 or last is None:
        return None
    return last - seconds * 1000 - STALE_SLACK_MS


def _inference(
    call: ProxyCall, start: float | None, end: float | None, step: int, names: AbstractSet[str]
) -> Inference:
    response = call.response if isinstance(call.response, dict) else None
    status = number(call.status_code)
    answered = status is not None and 200 <= status < 300
    if status is None:
        answered = response is not None or call.response_truncated is True
    usage = response.get("usage") if response is not None else None
    tokens = number(usage.get("prompt_tokens")) if isinstance(usage, dict) else None
    return Inference(
        start=start,
        end=end,
        answered=answered,
        reply=_reply(response, names) if answered and response is not None else None,
        prompt_tokens=int(tokens) if tokens is not None and tokens > 0 else None,
        body=call.json_data if isinstance(call.json_data, dict) else {},
        step=step,
    )


def _reply(response: dict[str, Any], names: AbstractSet[str]) -> Reply | None:
    """The reply of a chat completion; None where its text is not there (no message, empty content, a stand-in for it).

    An empty reply is known as such where the usage counts no completion token. Where there is thinking but no content,
    the calls are looked for in the thinking: servers leave a whole reply there when its thinking does not end.
    """
    choices, usage = response.get("choices"), response.get("usage")
    texts: list[str] = []
    thoughts: list[str] = []
    native: list[TextCall] = []
    for choice in choices[:MAX_CHOICES] if isinstance(choices, list) else []:
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        texts.append("" if is_redacted(content) else content_text(content))
        thoughts.append(content_text(message.get("reasoning_content")))
        native += harvest(message.get("tool_calls")) + harvest(message.get("function_call"))
    text, thinking = "\n".join(texts).strip()[:MAX_TEXT], "\n".join(thoughts)[:MAX_TEXT]
    calls = native + calls_in_text(text or thinking, names)
    silent = bool(texts) and isinstance(usage, dict) and number(usage.get("completion_tokens")) == 0
    if not (text or calls or silent):
        return None
    return Reply(text=text, thinking=thinking, calls=calls, bare=None if calls else bare_json(text))


def is_redacted(content: Any) -> bool:
    """Whether a text was replaced by its length ("[7302 characters]")."""
    return isinstance(content, str) and len(content) < 40 and _REDACTED.match(content) is not None


def content_text(content: Any) -> str:
    """The text of a chat message's content: a string, or the `text` parts of a list."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(part for part in parts if isinstance(part, str))
