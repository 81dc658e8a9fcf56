"""The published rows of one trajectory, and whether it may stand in a view that is trained on.

Messages are encoded once and shared by all configs. `trajectories` and `subtask` hold them as the record has them; in
`sft` and `kto`, which go straight into a chat template, a null `content` is "", or templates would print "None".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Protocol

import msgspec

from oresmith.arena.toolschema import tools
from oresmith.corpus.plan import KTO, SUBTASK
from oresmith.leakage.ledger import DEV, TRAIN
from oresmith.records import Trajectory
from oresmith.traces import to_openai
from schemas.corpus import CORPUS_SCHEMA, TRAJECTORIES

UNTRAINABLE, NO_QUERY, NO_ANSWER, UNRENDERED = "untrainable_steps", "no_query", "no_answer", "unrendered"
UNFIT: dict[str, str] = {
    UNTRAINABLE: "Steps repeated from elsewhere, or made by no model, would be trained on: views cannot mask them.",
    NO_QUERY: "No user message stands before the first assistant message.",
    NO_ANSWER: "There is no assistant message.",
    UNRENDERED: "The chat template does not render it as it must.",
}
"""Why a trajectory is not in `sft` and `kto` -> what it means."""
VALIDATION = "validation"

Row = dict[str, Any]
_encode = msgspec.json.Encoder().encode


class Renderer(Protocol):
    """What re-checks rows of the views by rendering them, once chat templates exist."""

    def fault(self, messages: list[dict[str, Any]], tools: list[Any]) -> str | None:
        """Why the dialogue cannot be trained on as rendered; None where it can."""


class Dialogue(msgspec.Struct):
    """A trajectory in its published form, encoded."""

    messages: list[bytes]
    """JSON of each message."""
    filled: list[bytes]
    """The same without null content; shares what is equal."""
    tools: bytes
    first_answer: int
    """Index of the first assistant message; -1 where there is none."""
    unfit: str | None
    """Of `UNFIT`."""
    rest: Row
    """The other columns that the dialogue gives."""


def dialogue(trajectory: Trajectory, renderer: Renderer | None = None) -> Dialogue:
    """Bring a trajectory into its published form.

    Args:
        trajectory: any; where it logs no tools, the arena's schema stands in.
        renderer: re-checks rows of the views; None checks nothing.
    """
    found = to_openai(trajectory, _arena_tools()[0])
    messages = found["messages"]
    ready = [message if message["content"] is not None else message | {"content": ""} for message in messages]
    encoded = [_encode(message) for message in messages]
    filled = [
        text if view is message else _encode(view) for message, view, text in zip(messages, ready, encoded, strict=True)
    ]
    roles = [message["role"] for message in messages]
    first = roles.index("assistant") if "assistant" in roles else -1
    return Dialogue(
        messages=encoded,
        filled=filled,
        tools=_arena_tools()[1] if trajectory.tools is None else _encode(trajectory.tools),
        first_answer=first,
        unfit=_unfit(found | {"messages": ready}, roles, first, renderer),
        rest={
            "system_prompt": trajectory.system_prompt,
            "original_call_ids": found["original_call_ids"],
            "copied_context": found["copied_context"],
            "no_model": found["no_model"],
        },
    )


def _unfit(found: Row, roles: list[str], first: int, renderer: Renderer | None) -> str | None:
    if found["copied_context"] or found["no_model"]:
        return UNTRAINABLE
    if first < 0:
        return NO_ANSWER
    if "user" not in roles[:first]:
        return NO_QUERY
    return UNRENDERED if renderer and renderer.fault(found["messages"], found["tools"]) else None


def trajectory_row(trajectory: Trajectory, found: Dialogue, facts: Mapping[str, Any]) -> Row:
    """The row of `trajectories` or `subtask`.

    Args:
        trajectory: the record.
        found: its `dialogue`.
        facts: a row of the plan: evidence, problem and pool, `rank` and `viewed_heldout_gold`.
    """
    query = trajectory.problem.query
    own = {
        "row_id": trajectory.trajectory_id,
        "query": facts["problem_query"] if query is None else query,
        "benchmark_flag": bool(facts["flagged"]),
        "benchmarks": facts["benchmarks"] or [],
        "messages": found.messages,
        "tools": found.tools,
        "schema": CORPUS_SCHEMA,
    }
    return {name: facts.get(name) for name in TRAJECTORIES} | found.rest | own


def view_rows(row_id: str, found: Dialogue, facts: Mapping[str, Any]) -> Iterator[tuple[str, str, Row]]:
    """Rows of `sft` and `kto`: (config, split, row); none for a trajectory that is unfit for views."""
    place = facts["place"]
    if found.unfit is not None or place == SUBTASK:
        return
    split = VALIDATION if place == DEV else TRAIN
    if place != KTO:
        yield "sft", split, {"row_id": row_id, "messages": found.filled, "tools": found.tools}
    halves = {"prompt": found.filled[: found.first_answer], "completion": found.filled[found.first_answer :]}
    yield "kto", split, {"row_id": row_id, "label": place != KTO, "tools": found.tools} | halves


def row_bytes(row: Row) -> int:
    """Bytes of a row as stored plain: texts, and what Parquet adds to each value."""
    return sum(_bytes(value) for value in row.values())


def _bytes(value: Any) -> int:
    if isinstance(value, bytes):
        return len(value) + 4
    if isinstance(value, str):
        return (len(value) if value.isascii() else len(value.encode())) + 4
    return sum(map(_bytes, value)) + 4 if isinstance(value, list) else 8


@cache
def _arena_tools() -> tuple[list[dict[str, Any]], bytes]:
    found = tools()
    return found, _encode(found)
