"""SN15: sandbox envelopes of both runtimes, and the bare lists of steps of older files and per-problem logs.

A step becomes one assistant message (`think` is its reasoning, `response` its content) and one tool message per call
that has a `result`; a result that is no string is kept as compact JSON. The runtime's log goes to `Trajectory.log` in
logged order. Whatever has no field of its own goes to `Step.extra` and `Trajectory.extra`, under names that
`sn15_encode` reads back:

* `step`, `completion`, `message`, `extra_info`, `envelope`: keys of that object with the values that were logged;
* `absent`: keys that the encoder writes by default and the source does not hold ("extra_info.query");
* `calls`, `log`: keys of a call or of a log entry that have no field, by its place in the step;
* `results`: "str" or "json" for a result whose type cannot be told from its text.

A step of another shape is marked malformed, and the trajectory then keeps the whole raw dialogue.
"""

from __future__ import annotations

from typing import Any

from oresmith.records import Format, Source, Trajectory
from oresmith.traces.context import Context, wrong_shape
from oresmith.traces.identity import seal
from oresmith.traces.sn15_reader import DialogueReader
from oresmith.traces.sn15_shape import envelope_of, infos, note_difference, small_int
from oresmith.traces.text import text_of
from oresmith.traces.tools import nested_tools


def decode_envelope(row: dict[str, Any], ctx: Context, source: Source) -> Trajectory:
    """One sandbox envelope. FAILED, TIMED_OUT and empty dialogues become trajectories without steps.

    Raises:
        CodecError: WRONG_SHAPE where `status` is no string or `dialogue` neither a list nor null.
    """
    status, dialogue = row.get("status"), row.get("dialogue")
    if not isinstance(status, str):
        raise wrong_shape("`status` of the envelope", "a string", status)
    if dialogue is not None and not isinstance(dialogue, list):
        raise wrong_shape("`dialogue` of the envelope", "a list of steps or null", dialogue)
    t = _reader(dialogue or [], row.get("problem_id"), row.get("execution_time")).read(
        Format.SN15_ENVELOPE, ctx, source
    )
    t.status = status
    t.error = row.get("error")
    t.inference_total = small_int(row.get("inference_total"))
    t.inference_failures = small_int(row.get("inference_failure_count"))
    logged = row if not dialogue else {**row, "dialogue": None}
    note_difference(t.extra, "envelope", envelope_of(t), logged)
    return seal(t, ctx.source_name)


def decode_steps(row: list[Any], ctx: Context, source: Source) -> Trajectory:
    """A bare list of steps; it has no status, and its problem id is that of its steps."""
    problem_id = next((info["problem_id"] for info in infos(row) if isinstance(info.get("problem_id"), str)), None)
    seconds = next((info.get("execution_time") for info in infos(row[:1])), None)
    return seal(_reader(row, problem_id, seconds).read(Format.SN15_STEPS, ctx, source), ctx.source_name)


def _reader(dialogue: list[Any], problem_id: object, seconds: object) -> DialogueReader:
    request = first_request(dialogue)
    tools = nested_tools(request.get("tools")) if request else None
    return DialogueReader(dialogue, problem_id, seconds, system=system_of(request), tools=tools)


def first_request(dialogue: list[Any]) -> dict[str, Any] | None:
    """The body of the first logged inference call, or None. Only the newer runtime logs its `messages`."""
    for info in infos(dialogue):
        calls = info.get("proxy_calls")
        for call in calls if isinstance(calls, list) else ():
            path = call.get("path") if isinstance(call, dict) else None
            if isinstance(path, str) and path.endswith("/chat/completions"):
                body = call.get("json_data")
                return body if isinstance(body, dict) else None
    return None


def system_of(request: dict[str, Any] | None) -> str | None:
    """The text of the system message that opens a logged request, or None."""
    messages = request.get("messages") if request else None
    first = messages[0] if isinstance(messages, list) and messages else None
    return text_of(first.get("content")) if isinstance(first, dict) and first.get("role") == "system" else None
