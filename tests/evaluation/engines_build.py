"""Requests for the tests of engines, and tiny models of the shapes that transformers knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oresmith.arena.toolschema import tools
from oresmith.evaluation.records import ChatReply, ChatRequest
from oresmith.models.base import write_base
from oresmith.param_models import Base
from oresmith.records import Message, ToolCall

QUERIES = [
    "a black mouse",
    "red shoes for my son, who is 7 and likes football, under 200",
    "kettle",
    "COD only",
    "é 価格",
]


def tiny(home: Path, name: str = "tiny", **changes: Any) -> Path:
    """The tiny model, written."""
    path = home / name
    path.mkdir()
    write_base(Base(model="tiny", **({"dtype": "float32"} | changes)), path)
    _enliven(path / "model.safetensors")
    return path


def _enliven(weights: Path) -> None:
    """Larger weights: as it is, the model says its last token again and again."""
    from safetensors.torch import load_file, save_file

    grown = {name: part * (6 if "proj" in name else 1) for name, part in load_file(weights).items()}
    save_file(grown, weights, metadata={"format": "pt"})


def asked(query: str, *, sample: int = 0, seed: int = 0) -> ChatRequest:
    """The first turn of a conversation."""
    messages = [Message(role="system", content="You shop for the user."), Message(role="user", content=query)]
    return ChatRequest(key=f"{query}/{sample}/0", messages=messages, tools=tools()[:2], seed=seed)


def followed(request: ChatRequest, said: str, result: str = "[]", *, seed: int = 0) -> ChatRequest:
    """The next turn, after a reply that called a tool."""
    name, turn = request.key.rsplit("/", 1)
    call = ToolCall(id=f"call_{turn}", name="find_product", arguments='{"q": "x"}')
    answer = Message(role="assistant", content=said, tool_calls=[call])
    shown = Message(role="tool", content=result, tool_call_id=call.id, name=call.name)
    messages = [*request.messages, answer, shown]
    return ChatRequest(key=f"{name}/{int(turn) + 1}", messages=messages, tools=request.tools, seed=seed)


def told(replies: list[ChatReply]) -> list[tuple[Any, ...]]:
    """Everything of replies but the wall time."""
    return [
        (one.key, one.text, one.finish, one.prompt_tokens, one.completion_tokens, one.prompt_sha256, one.error)
        for one in replies
    ]
