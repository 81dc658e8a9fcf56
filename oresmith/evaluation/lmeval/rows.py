"""The cases of `shopping_next_call`: assistant turns with calls in accepted trajectories of a pool, and their prompts.

lm-eval takes prompts as text and turns them into ids by the model's own tokenizer, so a prompt is the text of our one
renderer, control tokens written out. That is safe only where it comes to the very ids that an engine of ours is given:
the tokenizer must add nothing in front, and no text of a trace may read as a control token. Each case is checked, and
one that fails is dropped and counted. None is ever cut to fit.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from oresmith.errors import OresmithError
from oresmith.evaluation.engines.model import ids_sha256
from oresmith.evaluation.shown_messages import shown_messages
from oresmith.models.prefixes import engine_prompt
from oresmith.models.rendering import Chat, RenderFault, render
from oresmith.models.replies import parse_reply, write_reply
from oresmith.records import Record

DROPPED = {
    "ids_differ": "lm-eval's ids of the prompt are not those that an engine is given (text that reads as a control"
    " token, or text that the tokenizer joins across the beginning of a turn)",
    "too_long": "prompt and reply could pass the context",
    "unrenderable": "the chat template cannot render the conversation",
    "not_read_back": "the calls that were made, as a model would write them, are read as others",
}
"""Why a case is dropped -> what it means."""


class Case(Record, frozen=True):
    """One turn that a model is to repeat."""

    id: str
    """Trajectory and place of the turn's message."""
    cluster: str
    prompt: str
    """Rendered prefix, control tokens written out."""
    calls: str
    """JSON list of the calls that were made: name and arguments."""
    tools: str
    """Names of the tools called, joined by a comma."""
    prompt_tokens: int
    prompt_sha256: str
    """Of the ids, as in `ChatReply`."""


class Cases(NamedTuple):
    """The cases of a pool in their order."""

    cases: list[Case]
    dropped: dict[str, int]
    """Reason of `DROPPED` -> turns looked at and not taken."""
    trajectories: int
    """Of the pool."""
    turns: int
    """Turns with calls in the trajectories that were looked at."""


class Reader(NamedTuple):
    """What turns a conversation into a prompt, and what it must keep to."""

    chat: Chat
    encode: Callable[[str], list[int]]
    """lm-eval's ids of a text."""
    room: int
    """Most tokens of a prompt."""
    view: str
    prompt: str
    """Version of the system prompt of trajectories that log none."""


def cases_of_pool(corpus: Path, pool: str, limit: int | None, reader: Reader) -> Cases:
    """Cases of accepted trajectories: one turn of each, then another of each, until there are enough.

    Trajectories and turns come in an order that is decided by hash. Of a pool larger than the limit only so many
    trajectories are read.

    Args:
        corpus: directory of the stage `corpus`.
        pool: a split of `trajectories`.
        limit: most cases.
        reader: makes and checks prompts.

    Raises:
        OresmithError: there is no corpus.
    """
    if not (corpus / "manifest.json").is_file():
        raise OresmithError("there is no corpus", where=str(corpus), todo="run `dvc repro corpus`")
    rows, total = _rows(sorted((corpus / "trajectories").glob(f"{pool}-*.parquet")), limit)
    found: list[Case] = []
    dropped: Counter[str] = Counter()
    turns = 0
    for row, place in _in_rounds([(row, _turns(row)) for row in rows]):
        if limit is not None and len(found) == limit:
            break
        turns += 1
        case = _case(row, place, reader)
        if isinstance(case, Case):
            found.append(case)
        else:
            dropped[case] += 1
    return Cases(found, dict(sorted(dropped.items())), total, turns)


def prefix(row: dict[str, Any], place: int, view: str, prompt: str) -> list[dict[str, Any]]:
    """What an engine would have been shown before the message at `place`: our system prompt where none is logged, and
    the results of tools in the words of the view."""
    return shown_messages(row["messages"][:place], view, prompt, logged=row["system_prompt"] == "logged")


def _rows(paths: Sequence[Path], limit: int | None) -> tuple[list[dict[str, Any]], int]:
    """The first rows of the pool by hash, decoded, and how many there are."""
    import polars as pl

    if not paths:
        return [], 0
    names = pl.concat([pl.read_parquet(path, columns=["row_id"]) for path in paths])["row_id"].to_list()
    chosen = sorted(names, key=_order)[:limit]
    wanted = ["row_id", "cluster", "messages", "tools", "system_prompt", "copied_context", "no_model"]
    tables = [pl.read_parquet(path, columns=wanted).filter(pl.col("row_id").is_in(chosen)) for path in paths]
    rows = {row["row_id"]: row for table in tables for row in table.iter_rows(named=True)}
    for row in rows.values():
        row["messages"] = [msgspec.json.decode(message) for message in row["messages"]]
        row["tools"] = msgspec.json.decode(row["tools"])
    return [rows[name] for name in chosen], len(names)


def _turns(row: dict[str, Any]) -> list[int]:
    """Places of the turns in which a model called tools, in an order decided by hash."""
    foreign = {*(row["copied_context"] or []), *(row["no_model"] or [])}
    places = [
        place
        for place, message in enumerate(row["messages"])
        if message["role"] == "assistant" and message.get("tool_calls") and place not in foreign
    ]
    return sorted(places, key=lambda place: _order(f"{row['row_id']}:{place}"))


def _in_rounds(turns: list[tuple[dict[str, Any], list[int]]]) -> Iterator[tuple[dict[str, Any], int]]:
    for places in zip_longest(*(places for _, places in turns)):
        for (row, _), place in zip(turns, places, strict=True):
            if place is not None:
                yield row, place


def _case(row: dict[str, Any], place: int, reader: Reader) -> Case | str:
    """The case of a turn, or why there is none."""
    shown = prefix(row, place, reader.view, reader.prompt)
    answer = row["messages"][place]
    try:
        ids = engine_prompt(shown, len(shown), row["tools"], reader.chat)
        text = render(shown, row["tools"], reader.chat, add_generation_prompt=True).text
        wanted = [_call(call) for call in answer["tool_calls"]]
        read = parse_reply(write_reply(answer))
    except (RenderFault, ValueError, KeyError, TypeError, RecursionError):
        return "unrenderable"
    if [{"name": call.name, "arguments": json.loads(call.arguments)} for call in read.calls] != wanted:
        return "not_read_back"
    if len(ids) > reader.room:
        return "too_long"
    if list(reader.encode(text)) != ids:
        return "ids_differ"
    return Case(
        id=f"{row['row_id']}:{place}",
        cluster=row["cluster"],
        prompt=text,
        calls=json.dumps(wanted, ensure_ascii=False),
        tools=",".join(call["name"] for call in wanted),
        prompt_tokens=len(ids),
        prompt_sha256=ids_sha256(ids),
    )


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"name": function["name"], "arguments": json.loads(function["arguments"])}


def _order(name: str) -> tuple[bytes, str]:
    return hashlib.sha256(f"lmeval\0{name}".encode()).digest(), name
