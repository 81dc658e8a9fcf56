"""A corpus of a few conversations, and a completions server, for the tests of lm-eval's part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oresmith.corpus.shards import Layout, SplitFiles
from schemas.corpus import TRAJECTORIES
from tests.evaluation.fake_openai import FakeOpenAI, serving

TOOLS = [{"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}}]


def call(number: int, name: str = "f", **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": f"call_{number}", "function": function}]}


def shopping(query: str = "a red cup", result: str = "[]", calls: int = 2) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"role": "user", "content": query}]
    for number in range(calls):
        found += [call(number, q=query, page=number), {"role": "tool", "content": result, "name": "f"}]
    return [*found, {"role": "assistant", "content": "It is done."}]


def write_corpus(
    root: Path, dialogues: Sequence[list[dict[str, Any]]], clusters: Sequence[str] = (), **columns: Any
) -> Path:
    """data/corpus as the stage writes it, as far as it is read here."""
    corpus = root / "data" / "corpus"
    corpus.mkdir(parents=True)
    (corpus / "manifest.json").write_text("{}")
    with SplitFiles(corpus / "trajectories", "trajectories", "dev-000-one", Layout(10**6, 10**6)) as files:
        for place, messages in enumerate(dialogues):
            own = {
                "row_id": f"{place:064x}",
                "cluster": clusters[place] if clusters else f"{place:064x}",
                "messages": [json.dumps(message).encode() for message in messages],
                "tools": json.dumps(TOOLS).encode(),
                "system_prompt": "none_logged",
                "copied_context": [],
                "no_model": [],
            }
            absent = {name: [] if str(kind).startswith("list") else None for name, kind in TRAJECTORIES.items()}
            files.add(absent | own | columns)
    return corpus


@contextmanager
def completions(reply: Callable[[list[int]], str], per_token: float = -1.0) -> Iterator[FakeOpenAI]:
    """A server that replies by the ids of the prompt, and finds every token equally likely."""

    def write(body: dict[str, Any]) -> Any:
        choices = []
        for index, ids in enumerate(body["prompt"]):
            found: dict[str, Any] = {"index": index, "text": "" if body.get("echo") else reply(ids)}
            if body.get("echo"):
                likely = [None, *[per_token] * len(ids)]
                tops = [None, *[{"x": per_token}] * len(ids)]
                found["logprobs"] = {"token_logprobs": likely, "top_logprobs": tops, "tokens": ["x"] * len(likely)}
            choices.append(found)
        return {"choices": choices}

    with serving(write) as fake:
        yield fake
