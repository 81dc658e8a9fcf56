"""OpenAI rows: `messages` and `tools`, as the published release, NeMo, nebius and NVIDIA ship them.

Read: `messages` (or nebius' and NVIDIA's `trajectory`) with `tool_calls` nested under `function` or flat, arguments as
JSON string or object, content as string or list of parts; `tools` nested or flat, also as a JSON string. Keys that are
null count as absent, because Arrow writes them everywhere. Call ids are minted anew and the source's kept; a tool
message answers the first open call of that id in the latest turn with calls, or the next open call if it names none.

Columns read into the record where their type fits (all others stay in `extra["columns"]`):

* problem: `problem_id`, `instance_id` or `task_id`; `query` (else the first user message).

Only where the rows are trusted (`Context.trust_rows`), because their author may be the agent:

* problem: `category` (a known one), `difficulty`, `voucher`, and `reward` where it is an object or a list;
* provenance: see `columns.PROVENANCE`; what the provenance file declares wins;
* outcome: `is_successful`, `success` or `resolved` (also 0 and 1); `score`, or `reward` where it is a number; `scorer`;
* judge: `reasoning_quality`, `reasoning_model`, `reasoning_version`, `reasoning_judged_at`, `reasoning_explanation`;
* `license` or `licence`, where the provenance file declares none;
* `trajectory_id`, the source's id of the attempt, which is then part of the identity.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from oresmith.records import Format, Message, Source, Step, Trajectory
from oresmith.traces.columns import LICENCE, Columns, columns_of
from oresmith.traces.context import Context, wrong_shape
from oresmith.traces.identity import seal
from oresmith.traces.jsontext import loads_strict
from oresmith.traces.openai_messages import MessageReader
from oresmith.traces.private import without_keys
from oresmith.traces.tools import nested_tools


def decode_row(row: dict[str, Any], ctx: Context, source: Source) -> Trajectory:
    """One OpenAI row.

    Raises:
        CodecError: WRONG_SHAPE where messages or tools are not as the module's text says; the reader's own codes for
            JSON that is embedded in a string.
    """
    columns = Columns(row, trusted=ctx.trust_rows)
    raw_messages = columns.rest.pop("messages", None)
    if raw_messages is None:
        raw_messages = columns.rest.pop("trajectory", None)
    if not isinstance(raw_messages, list):
        raise wrong_shape("`messages`", "a list", raw_messages)
    reader = MessageReader()
    for raw in raw_messages:
        reader.read(raw)
    messages, steps = _own_columns(columns, reader)
    query = next((message.content for message in messages if message.role == "user"), None)
    attempt = columns.claim(None, "trajectory_id") or None
    t = Trajectory(
        trajectory_id="",
        identity="",
        content="",
        source=source,
        format=Format.OPENAI,
        provenance=columns.provenance(ctx.provenance),
        problem=columns.problem(query),
        messages=messages,
        tools=_tools(columns),
        system_prompt="logged" if messages and messages[0].role == "system" else "none_logged",
        steps=steps,
        outcome=columns.outcome(),
        judge=columns.judge(),
        licence=columns.claim(ctx.licence, *LICENCE),
    )
    extra = {"attempt": attempt, "columns": columns.rest, "messages": reader.extra}
    t.extra = {name: value for name, value in extra.items() if value}
    return seal(t, ctx.source_name, attempt)


def _tools(columns: Columns) -> list[Any] | None:
    raw = columns.rest.pop("tools", None)
    if isinstance(raw, str):
        raw = loads_strict(raw)
    tools = nested_tools(raw)
    if tools is None and raw is not None:
        raise wrong_shape("`tools`", "a list of tool definitions, each with a name", raw)
    return tools


def _own_columns(columns: Columns, reader: MessageReader) -> tuple[list[Message], list[Step]]:
    """Read back what `to_openai` writes beside messages and tools; anything else stays a column."""
    messages, steps = reader.messages, reader.steps
    originals: Any = columns.rest.get("original_call_ids")
    if _all_of(originals, str, type(None)) and len(originals) == sum(len(m.tool_calls) for m in messages):
        remaining = iter(columns.rest.pop("original_call_ids"))
        messages = [
            replace(m, tool_calls=[replace(call, original_id=next(remaining)) for call in m.tool_calls])
            if m.tool_calls
            else m
            for m in messages
        ]
    copied, no_model = _places(columns, "copied_context", steps), _places(columns, "no_model", steps)
    if copied or no_model:
        steps = [
            Step(
                message=step.message,
                copied_context=step.message in copied,
                llm_calls=0 if step.message in no_model else None,
            )
            for step in steps
        ]
    return messages, steps


def _places(columns: Columns, name: str, steps: list[Step]) -> frozenset[int]:
    """A list of indices of assistant messages; a column of that name that holds anything else is not ours."""
    value: Any = columns.rest.get(name)
    if not _all_of(value, int) or not {step.message for step in steps}.issuperset(value):
        return frozenset()
    return frozenset(columns.rest.pop(name))


def _all_of(value: Any, *kinds: type) -> bool:
    return isinstance(value, list) and all(type(item) in kinds for item in value)


def to_openai(t: Trajectory, tools: list[Any] | None = None) -> dict[str, Any]:
    """The row that is published: OpenAI messages that any client reads, with what training needs to know beside them.

    Args:
        t: the trajectory; what it holds beside messages and tools is not part of the row.
        tools: definitions (nested) for a source that logs none of its own.

    Returns:
        `messages` (arguments as JSON strings, unique call ids, one tool message a call), `tools` (nested, or None),
        `original_call_ids` (the source's id of `call_<n>` at place n, or None), and two lists of message indices that
        must not be trained on: `copied_context` (repeated from an earlier trajectory) and `no_model` (a program acted
        there, no model). Every row has the same keys, so that no Arrow schema has to invent them.
    """
    return {
        "messages": [_message(message) for message in t.messages],
        "tools": tools if t.tools is None else t.tools,
        "original_call_ids": [call.original_id for message in t.messages for call in message.tool_calls],
        "copied_context": [step.message for step in t.steps if step.copied_context],
        "no_model": [step.message for step in t.steps if step.llm_calls == 0],
    }


def encode_row(t: Trajectory) -> dict[str, Any]:
    """`to_openai` with the columns that `decode_row` reads and those of the source row, but no miner's key.

    A column that was kept aside comes back as it was, also where the record says otherwise.
    """
    row = columns_of(t.provenance, t.problem, t.outcome, t.judge)
    row |= {} if t.licence is None else {"licence": t.licence}
    row |= {} if "attempt" not in t.extra else {"trajectory_id": t.extra["attempt"]}
    row |= without_keys(t.extra.get("columns", {})) | to_openai(t)
    if t.format is Format.OPENAI:
        for place, keys in t.extra.get("messages", {}).items():
            row["messages"][int(place)].update(without_keys(keys))
    return row


def _message(message: Message) -> dict[str, Any]:
    raw: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning_content is not None:
        raw["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        raw["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        raw["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        raw["name"] = message.name
    return raw
