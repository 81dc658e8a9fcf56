"""ATIF 1.7 and 1.8 documents, and orobench rows that hold one in `atif_json`.

A step of source system or user becomes a message of that role; an agent step an assistant message with a `Step` and
one tool message per call that has a result (several results of one call are joined, one a line). A result of no call
becomes a user message after the step, because the model saw it; `Step.extra["observed"]` counts these. An empty agent
message is no content.

Kept for the way back: in `Step.extra["atif"]` and, by message index, in `Trajectory.extra["atif_messages"]` the keys of
a step that no field takes; in `Trajectory.extra["atif"]` those of the document, in `extra["columns"]` those of the row.

The `extra` of a document is only kept, never believed: its author may be the agent. An orobench row brings `task_id`
(the problem). Only where the rows are trusted (`Context.trust_rows`), a document brings its `session_id` (the run) and
its `trajectory_id` (the attempt), and an orobench row `eval_run_id`, `agent_version_id`, `episode_result_id` (the
attempt) and the other columns of an OpenAI row; `outcome` and `aggregate_reward` then stand in `SourceOutcome.score` as
stated, and `success` is known only where the outcome is a boolean: a null reward can stand for a failed verdict, and is
never 0.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from oresmith.records import Format, Message, Source, SourceOutcome, Step, ToolCall, Trajectory
from oresmith.traces.atif_shape import calls_of, check_document, iso_time, milliseconds, observation_of, pair
from oresmith.traces.columns import LICENCE, Columns
from oresmith.traces.context import Context
from oresmith.traces.identity import seal
from oresmith.traces.jsontext import dumps, loads_strict
from oresmith.traces.text import text_of
from oresmith.traces.tools import nested_tools

VIEWS = ("atif_json", "agent_json", "steps", "schema_version", "session_id")
"""Columns of an orobench row that are the document, or repeat parts of it."""


def decode_document(row: dict[str, Any], ctx: Context, source: Source) -> Trajectory:
    """One document, or one orobench row.

    Raises:
        CodecError: WRONG_SHAPE where the document breaks the models or the rules; the reader's own codes for JSON that
            is embedded in a string.
    """
    embedded = row.get("atif_json")
    own = {} if embedded is None else {key: row[key] for key in row if key not in VIEWS}
    columns = Columns(own, trusted=ctx.trust_rows)
    document = check_document(
        row if embedded is None else loads_strict(embedded) if isinstance(embedded, str) else embedded
    )
    reader = _StepReader()
    for step in document["steps"]:
        reader.read(step)
    agent = document["agent"]
    tools = nested_tools(agent.get("tool_definitions"))
    if tools is not None and tools == agent["tool_definitions"]:
        agent = {key: value for key, value in agent.items() if key != "tool_definitions"}
    attempt = columns.claim(None, "episode_result_id") or None
    outcome = _outcome(columns, row)
    provenance = columns.provenance(ctx.provenance)
    if ctx.trust_rows:
        attempt = attempt or document.get("trajectory_id") or None
        if provenance.run_id is None:
            provenance = replace(provenance, run_id=document.get("session_id"))
    t = Trajectory(
        trajectory_id="",
        identity="",
        content="",
        source=source,
        format=Format.ATIF,
        provenance=provenance,
        problem=columns.problem(reader.query),
        messages=reader.messages,
        tools=tools,
        system_prompt="logged" if reader.messages and reader.messages[0].role == "system" else "none_logged",
        steps=reader.steps,
        outcome=outcome,
        licence=columns.claim(ctx.licence, *LICENCE),
    )
    kept = {key: value for key, value in document.items() if key != "steps" and value is not None}
    extra = {"atif": kept | {"agent": agent}, "atif_messages": reader.extra, "columns": columns.rest}
    t.extra = {name: value for name, value in extra.items() if value}
    return seal(t, ctx.source_name, attempt)


def _outcome(columns: Columns, row: dict[str, Any]) -> SourceOutcome | None:
    if not columns.trusted or not columns.rest or ("outcome" not in row and "aggregate_reward" not in row):
        return None
    stated = {name: row.get(name) for name in ("outcome", "aggregate_reward")}
    for name in stated:
        columns.rest.pop(name, None)
    success = stated["outcome"]
    return SourceOutcome(success=success if isinstance(success, bool) else None, score=stated, scorer="orobench")


class _StepReader:
    """Reads the steps of a valid document."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.steps: list[Step] = []
        self.extra: dict[str, dict[str, Any]] = {}
        self.query: str | None = None
        self._calls = 0

    def read(self, step: dict[str, Any]) -> None:
        if step["source"] == "agent":
            self._agent(step)
            return
        text = text_of(step["message"])
        if step["source"] == "user" and self.query is None:
            self.query = text
        rest = _rest(step, "step_id", "source", "message")
        if not isinstance(step["message"], str):
            rest["message"] = step["message"]
        if rest:
            self.extra[str(len(self.messages))] = rest
        self.messages.append(Message(role=step["source"], content=text))

    def _agent(self, step: dict[str, Any]) -> None:
        raw_calls = step.get("tool_calls") or []
        ids = [raw["tool_call_id"] for raw in raw_calls]
        calls = [self._call(raw) for raw in raw_calls]
        answered, free = pair(ids, (step.get("observation") or {}).get("results", []))
        answers = [
            Message(role="tool", content=_joined(results), tool_call_id=call.id, name=call.name) if results else None
            for call, results in zip(calls, answered, strict=True)
        ]
        rest = _rest(step, "step_id", "source", "message", "reasoning_content", "llm_call_count", "is_copied_context")
        if not isinstance(step["message"], str):
            rest["message"] = step["message"]
        if step.get("is_copied_context") is False:
            rest["is_copied_context"] = False
        taken = {
            "tool_calls": calls_of(calls, own_ids=False) or None,
            "observation": observation_of(ids, answers),
            "timestamp": iso_time(milliseconds(step.get("timestamp"))),
        }
        for key, value in taken.items():
            if key in rest and rest[key] == value:
                del rest[key]
        extra: dict[str, Any] = {"atif": rest} if rest else {}
        if free:
            extra["observed"] = len(free)
        self.steps.append(
            Step(
                message=len(self.messages),
                number=step["step_id"],
                timestamp=milliseconds(step.get("timestamp")),
                copied_context=bool(step.get("is_copied_context")),
                llm_calls=step.get("llm_call_count"),
                extra=extra,
            )
        )
        self.messages.append(
            Message(
                role="assistant",
                content=text_of(step["message"]) or None,
                reasoning_content=step.get("reasoning_content"),
                tool_calls=calls,
            )
        )
        self.messages += [answer for answer in answers if answer is not None]
        self.messages += [Message(role="user", content=_joined([result])) for result in free]

    def _call(self, raw: dict[str, Any]) -> ToolCall:
        call_id = f"call_{self._calls}"
        self._calls += 1
        original = (raw.get("extra") or {}).get("original_id", raw["tool_call_id"])
        return ToolCall(
            id=call_id,
            name=raw["function_name"],
            arguments=dumps(raw["arguments"]),
            original_id=original if original is None or isinstance(original, str) else raw["tool_call_id"],
        )


def _rest(step: dict[str, Any], *taken: str) -> dict[str, Any]:
    return {key: value for key, value in step.items() if key not in taken and value is not None}


def _joined(results: list[dict[str, Any]]) -> str | None:
    texts = [text for result in results if (text := text_of(result.get("content"))) is not None]
    return "\n".join(texts) if texts else None
