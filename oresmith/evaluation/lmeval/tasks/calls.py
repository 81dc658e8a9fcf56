"""What the tasks' YAML names: documents, prompts and how a reply is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oresmith.errors import OresmithError
from oresmith.models.replies import parse_reply

TEXT = Path(__file__).resolve().parents[1] / "general_english.txt"
METRICS = ("call", "name", "called", "well_formed")
"""Shares: all calls of the turn with their arguments, the tools' names alone, any call at all, a reply in form."""


def cases(cases: str = "", **_: object) -> dict[str, Any]:
    """The documents of `shopping_next_call`, from the lines of the file that the metadata name as `cases`."""
    if not cases:
        raise OresmithError("the task needs its cases", todo='--metadata \'{"cases": "FILE"}\'')
    return _split([json.loads(line) for line in Path(cases).read_bytes().splitlines()])


def paragraphs(**_: object) -> dict[str, Any]:
    """The documents of `general_english`: the paragraphs of our text."""
    return _split([{"text": text} for text in TEXT.read_text("utf-8").strip().split("\n\n")])


def prompt(doc: dict[str, Any]) -> str:
    """The rendered prefix, as it is."""
    return str(doc["prompt"])


def target(doc: dict[str, Any]) -> str:
    """The calls that were made, as JSON."""
    return str(doc["calls"])


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The metrics of one reply, each 0 or 1."""
    reply = parse_reply(results[0])
    wanted = json.loads(doc["calls"])
    made = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in reply.calls]
    hits = {
        "call": plain(made) == plain(wanted),
        "name": [call["name"] for call in made] == [call["name"] for call in wanted],
        "called": bool(made),
        "well_formed": reply.malformed is None,
    }
    return {name: float(hits[name]) for name in METRICS}


def plain(value: Any) -> str:
    """A JSON value as text that is equal for equal values: keys sorted, 1.0 as 1, true never 1."""
    return json.dumps(_whole(value), ensure_ascii=False, sort_keys=True)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _split(rows: list[dict[str, Any]]) -> dict[str, Any]:
    from datasets import Dataset

    return {"test": Dataset.from_list(rows)}
