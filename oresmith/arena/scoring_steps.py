"""What the scorer reads in the dialogue itself: its length, its format, and what was recommended."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from oresmith.errors import OresmithError

UNTIMED = 0.5
"""Factor on the format of a step without a positive timestamp (sn15.md section 4)."""

_TAG = re.compile(r"</?(?:think|tool_call|response)>")
_OPEN_TAG = re.compile(r"<(?:think|tool_call|response)>")


class ScoreError(OresmithError):
    """The trajectory cannot be scored and stays unscored: ORO's scorer raises here too. Holds no text of the trace."""


def length_score(dialogue: Sequence[Any]) -> float:
    """Return 1 / number of steps if the last step calls terminate, else 0.

    Any call of the last step may be the one. Errors: a last step without completion and message, or a call there
    without a name, raises a lookup or type error, which `score` turns into ScoreError.
    """
    if not dialogue:
        return 0.0
    message = dialogue[-1]["completion"]["message"]
    if not message or "tool_call" not in message or not message["tool_call"]:
        return 0.0
    names = [call["name"] for call in message["tool_call"]]
    return 1 / len(dialogue) if "terminate" in names else 0.0


def format_score(dialogue: Sequence[Any]) -> float:
    """Return the mean of `step_format` over the steps; 0 without steps."""
    return sum(map(step_format, dialogue)) / len(dialogue) if dialogue else 0.0


def step_format(step: object) -> float:
    """Return 1 for a well-formed step, half of it without a positive timestamp, 0 for any other.

    A step whose message is no object, or whose `extra_info` is there but no object, counts 0.

    Errors: ScoreError for a message whose parts have wrong types, and for a number that JSON cannot write.
    """
    message = _message(step)
    if message is None:
        return 0.0
    _check_types(message)
    well_formed = _well_formed(message)
    extra = step.get("extra_info", {}) if isinstance(step, dict) else None
    if not isinstance(extra, dict):
        return 0.0
    timestamp = extra.get("timestamp")
    timed = isinstance(timestamp, int | float) and not timestamp <= 0
    return well_formed * (1.0 if timed else UNTIMED)


def last_recommendation(dialogue: Sequence[Any]) -> object:
    """Return `product_ids` of the last recommend_product call as logged; "" without such a call.

    A call that is no object, lacks a name, or recommends without an object of parameters ends the reading of its
    own step: what stood before it counts, what follows in that step does not.
    """
    product_ids: object = ""
    for step in dialogue:
        for call in _calls(step):
            if not isinstance(call, dict) or "name" not in call:
                break
            if call["name"] == "recommend_product":
                parameters = call.get("parameters")
                if not isinstance(parameters, dict):
                    break
                product_ids = parameters.get("product_ids", "")
    return product_ids


def recommended_ids(value: object) -> list[str]:
    """Return the ids of a recommendation: split at commas, stripped, each once, in order; a non-string gives none."""
    if not isinstance(value, str):
        return []
    return list(dict.fromkeys(product_id for part in value.split(",") if (product_id := part.strip())))


def _message(step: object) -> dict[str, Any] | None:
    completion = step.get("completion") if isinstance(step, dict) else None
    message = completion.get("message") if isinstance(completion, dict) else None
    return message if isinstance(message, dict) else None


def _calls(step: object) -> Iterator[Any]:
    calls = (_message(step) or {}).get("tool_call")
    return iter(calls) if isinstance(calls, list) else iter(())


def _check_types(message: dict[str, Any]) -> None:
    """Refuse a message that ORO's message model refuses; keys that it does not know are ignored."""
    for part in ("user", "think", "response"):
        if not isinstance(message.get(part, ""), str):
            raise ScoreError("a step's message is malformed", where=part, expected="a string")
    for part in ("tool_call", "obs"):
        calls = message.get(part, [])
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise ScoreError("a step's message is malformed", where=part, expected="a list of objects")


def _well_formed(message: dict[str, Any]) -> bool:
    """Tell whether the rendered message has thinking, a call or a response, and each tag once and not interleaved.

    The rendering, `<think>..</think>` and so on, need not be made. It holds each part's own two tags, so any further
    tag inside a part's text is a second one or lies interleaved. Calls are rendered as JSON in which `/` is written
    `\\/`, so that only an opening tag can occur in them.
    """
    think, calls, response = message.get("think", ""), message.get("tool_call", []), message.get("response", "")
    tag_in_calls = _opens_tag(calls)
    return (
        bool(think and (calls or response))
        and not tag_in_calls
        and not (_TAG.search(think) or _TAG.search(response))
        and all(isinstance(call.get("name"), str) and isinstance(call.get("parameters"), dict) for call in calls)
    )


def _opens_tag(value: object) -> bool:
    """Tell whether a string anywhere inside `value`, keys included, holds an opening tag of the format.

    Errors: ScoreError for an infinite number or NaN, which ORO's JSON writer refuses.
    """
    found = False
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            found = found or ("<" in item and _OPEN_TAG.search(item) is not None)
        elif isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise ScoreError("a tool call holds a number that JSON cannot write", where="tool_call")
    return found
