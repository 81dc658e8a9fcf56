"""What an engine says of the model that it runs from a directory, and the ids that a request comes to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oresmith.evaluation.records import ChatRequest
from oresmith.models.directory import CheckedModel
from oresmith.models.rendering import Chat, render
from oresmith.records import Format, Message, Source, Trajectory
from oresmith.traces import to_openai

GENERATION = "generation_config.json"


def model_identity(checked: CheckedModel) -> dict[str, Any]:
    """Hash of the files that decide what the model says, and its template and tokenizer.

    `model_sha256` is over lines of name and sha256 of config, generation config, tokenizer and weights, sorted.
    """
    named = ("config.json", GENERATION, "tokenizer.json")
    files = [checked.path / name for name in named if (checked.path / name).is_file()] + checked.weights
    lines = sorted(f"{file.name} {_sha256(file)}\n" for file in files)
    return {
        "model_sha256": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "template": checked.template.id,
        "template_sha256": checked.template.sha256,
        "tokenizer_sha256": checked.tokenizer.sha256,
    }


def end_tokens(checked: CheckedModel) -> list[int]:
    """Tokens that end a reply: the template's, and those that the model's own files name; sorted."""
    found = {checked.tokenizer.end}
    path = checked.path / GENERATION
    generation = json.loads(path.read_bytes()) if path.is_file() else {}
    for config in (checked.config, generation):
        named = config.get("eos_token_id")
        found |= {one for one in (named if isinstance(named, list) else [named]) if type(one) is int}
    return sorted(found)


def prompt_ids(request: ChatRequest, chat: Chat) -> list[int]:
    """The token ids that the model is given for a request.

    Raises:
        RenderFault: the conversation cannot be rendered.
    """
    return render(messages_of(request.messages), request.tools, chat, add_generation_prompt=True).ids


def messages_of(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in OpenAI's form."""
    bare = Trajectory(trajectory_id="", identity="", content="", source=_NOWHERE, format=Format.OPENAI)
    bare.messages = list(messages)
    found: list[dict[str, Any]] = to_openai(bare)["messages"]
    return found


def ids_sha256(ids: Sequence[int]) -> str:
    """The sha256 of token ids, as little-endian 32-bit integers."""
    return hashlib.sha256(np.array(ids, "<u4").tobytes()).hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_NOWHERE = Source(snapshot="", file="", file_sha256="", line=1, offset=0, length=0)
