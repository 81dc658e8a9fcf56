"""Conversations and tables for the tests of rows and of their leak check."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oresmith.arena.toolschema import tools
from oresmith.blocks.atomic import stage_output
from oresmith.corpus.shards import Layout, SplitFiles
from oresmith.training.guarded import Guarded
from schemas.corpus import CORPUS_SCHEMA, TRAJECTORIES

LAYOUT = Layout(10**6, 10**6)
TOOLS = tools()


def call(name: str, number: int = 0, **arguments: Any) -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def shopping(query: str = "a red cup", found: str = "111", turns: int = 1) -> list[dict[str, Any]]:
    """As the corpus' `sft` holds it: no null content, results as JSON text."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": query}]
    result = json.dumps([{"product_id": found, "title": "A cup", "shop_id": "7"}])
    for number in range(turns):
        search = call("find_product", number, q="cup", page=number + 1)
        messages.append({"role": "assistant", "content": "", "reasoning_content": "I search.", "tool_calls": [search]})
        messages.append({"role": "tool", "content": result, "tool_call_id": f"call_{number}", "name": "find_product"})
    last = call("recommend_product", turns, product_ids=found)
    messages.append({"role": "assistant", "content": "", "reasoning_content": "It fits.", "tool_calls": [last]})
    return messages


def write_corpus(
    corpus: Path, talks: Sequence[Mapping[str, Any]], pool: str = "train", split: str = "train"
) -> dict[str, Mapping[str, Any]]:
    """data/corpus with `trajectories` and `sft`; a talk has `problem`, and what differs from a short conversation.

    Returns:
        The talks by row id.
    """
    written = {f"{place:064x}": talk for place, talk in enumerate(talks)}
    absent = {name: [] if str(kind).startswith("list") else None for name, kind in TRAJECTORIES.items()}
    with (
        stage_output(corpus, "corpus", schema=CORPUS_SCHEMA) as staged,
        SplitFiles(staged.path / "trajectories", "trajectories", f"{pool}-000-one", LAYOUT) as trajectories,
        SplitFiles(staged.path / "sft", "sft", f"{split}-000-one", LAYOUT) as sft,
    ):
        for row_id, talk in written.items():
            view = {
                "row_id": row_id,
                "messages": [json.dumps(message).encode() for message in talk.get("messages", shopping())],
                "tools": json.dumps(TOOLS).encode(),
            }
            own = {
                "problem": talk["problem"],
                "cluster": talk.get("cluster", talk["problem"]),
                "category": talk.get("category", "product"),
                "system_prompt": talk.get("system_prompt", "none_logged"),
            }
            if talk.get("known", True):
                trajectories.add(absent | view | own)
            sft.add(view)
    return written


def problem(name: str, query: str = "", pool: str = "train", gold: str = "", **more: Any) -> dict[str, Any]:
    """A row of the problems joined with their pools."""
    row = {
        "problem": name,
        "query": query,
        "reward": json.dumps({"product_id": gold}) if gold else None,
        "voucher": None,
        "cluster": name,
        "pool": pool,
        "held_out": "2026-05-02" if pool == "heldout" else None,
        "benchmarks": [],
        "vault": False,
        "trainable": pool == "train",
    }
    return row | more


def guarded(*rows: Mapping[str, Any], **more: Any) -> Guarded:
    return Guarded(rows, **more)
