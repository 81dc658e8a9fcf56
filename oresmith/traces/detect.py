"""Which trace format a row has, from its structure alone. Two that fit are refused, never chosen between.

* sn15-envelope: an object with `dialogue` and `status`.
* openai-messages: an object with `messages`, or with a `trajectory` that is a list of messages (nebius).
* atif: an object with `schema_version`, `agent` and `steps`, or a row with `atif_json` (orobench).
* sn15-steps, shoppingbench-rollout: a list of steps, told apart by what only one of the two programs writes. The SN15
  sandbox adds `problem_id`, `proxy_calls` or `execution_time` to a step's `extra_info`; the rollout script of
  ShoppingBench writes each step's `prompt`. Where a list has neither, its calls decide: SN15 keeps a call's `result` in
  the call, ShoppingBench keeps `obs` beside the calls.
"""

from __future__ import annotations

from typing import Any

from oresmith.reasons import Reason
from oresmith.records import Format
from oresmith.traces.context import CodecError, kind

KNOWN = ", ".join(sorted(Format))


def detect(row: object) -> Format:
    """The format of a parsed row.

    Raises:
        CodecError: UNKNOWN_FORMAT with the known ones, or AMBIGUOUS_FORMAT with the two that fit.
    """
    if isinstance(row, dict):
        return _of_object(row)
    if isinstance(row, list):
        return _of_list(row)
    raise CodecError(Reason.UNKNOWN_FORMAT, "the row is no known trace format", expected=KNOWN, got=kind(row))


def _of_object(row: dict[str, Any]) -> Format:
    found: list[Format] = []
    if "dialogue" in row and "status" in row:
        found.append(Format.SN15_ENVELOPE)
    if "messages" in row or _is_messages(row.get("trajectory")):
        found.append(Format.OPENAI)
    if "atif_json" in row or ("schema_version" in row and "agent" in row and "steps" in row):
        found.append(Format.ATIF)
    if len(found) == 1:
        return found[0]
    if found:
        raise _ambiguous(*found[:2])
    raise CodecError(
        Reason.UNKNOWN_FORMAT,
        "the row is no known trace format",
        expected=KNOWN,
        got="an object without the keys of any of them",
    )


def _is_messages(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(m, dict) and "role" in m for m in value)


def _of_list(row: list[Any]) -> Format:
    steps = [step for step in row if isinstance(step, dict) and ("completion" in step or "extra_info" in step)]
    if row and not steps:
        raise CodecError(
            Reason.UNKNOWN_FORMAT, "the row is no known trace format", expected=KNOWN, got="a list without a step"
        )
    for signs in (_runtime_signs, _call_signs):
        sn15, rollout = signs(steps)
        if sn15 and rollout:
            break
        if sn15:
            return Format.SN15_STEPS
        if rollout:
            return Format.SHOPPINGBENCH
    raise _ambiguous(Format.SN15_STEPS, Format.SHOPPINGBENCH)


def _runtime_signs(steps: list[dict[str, Any]]) -> tuple[bool, bool]:
    """What the programs that write the files add by themselves."""
    sn15 = False
    for step in steps:
        info = step.get("extra_info")
        if isinstance(info, dict) and ("problem_id" in info or "proxy_calls" in info or "execution_time" in info):
            sn15 = True
            break
    return sn15, any("prompt" in step for step in steps)


def _call_signs(steps: list[dict[str, Any]]) -> tuple[bool, bool]:
    """Where results of calls are kept."""
    sn15 = rollout = False
    for step in steps:
        completion = step.get("completion")
        message = completion.get("message") if isinstance(completion, dict) else None
        if not isinstance(message, dict):
            continue
        calls = message.get("tool_call")
        rollout = rollout or "obs" in message
        sn15 = sn15 or (isinstance(calls, list) and any(isinstance(call, dict) and "result" in call for call in calls))
    return sn15, rollout


def _ambiguous(one: Format, other: Format) -> CodecError:
    return CodecError(
        Reason.AMBIGUOUS_FORMAT,
        f"the row fits {one.value} and {other.value}",
        expected="a row with the marks of one format only",
        got="no mark that decides" if one is Format.SN15_STEPS else "the keys of both",
    )
