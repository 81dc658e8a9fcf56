"""What engines, harness and scores hand to one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from oresmith.records import Message, Record

ROLLOUT_SCHEMA = "oresmith.rollout/1"
Finish = Literal["stop", "length", "context", "error"]
"""How a generation ended: the model's own end, the limit of new tokens, no room for any, or the engine's fault."""


class Sampling(Record, frozen=True):
    """How tokens are chosen. Temperature 0 is greedy, and `top_p` then changes nothing."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_new_tokens: int = 256
    """Of one turn."""


class ChatRequest(Record, frozen=True):
    """One turn that a model is to write."""

    key: str
    """Names the request in the record that is kept: problem, sample and turn."""
    messages: list[Message]
    tools: list[dict[str, Any]]
    seed: int
    """Of this turn of this sample; what else is in the batch does not change it."""


class ChatReply(Record, frozen=True):
    """What came back. `text` is kept as it is, whatever a parser makes of it."""

    key: str
    text: str
    """All that the model wrote, without the end token."""
    finish: Finish
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_sha256: str | None = None
    """Of the token ids that the engine was given, as little-endian 32-bit integers; None where a server renders."""
    tool_calls: list[dict[str, Any]] | None = None
    """Native tool calls of a server that parses them itself."""
    error: str | None = None
    seconds: float | None = None
    """Wall time; an observed fact, never part of an artefact."""


class Engine(Protocol):
    """Writes turns. One that cannot go on answers `error` for the request and goes on with the others."""

    name: str
    context: int
    """Tokens of prompt and answer together."""

    def chat(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[ChatReply]:
        """One reply a request, in the order of the requests."""

    def identity(self) -> dict[str, Any]:
        """What a comparison must know: engine, model files' hash, template id and hash, dtype, batch."""

    def close(self) -> None:
        """Free the model or end the server."""


class Rollout(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One sample of one problem."""

    problem: str
    """Name of the problem in data/cluster (64 hex), or its id where there is no pipeline."""
    problem_id: str | None
    sample: int
    seed: int
    messages: list[Message]
    results: list[Any] = []
    """Raw results of the tool calls in order: the messages hold what the model was shown of them."""
    replies: list[ChatReply] = []
    ended: str
    """terminated, stopped (an answer without a call), malformed (too many such replies in a row), turns, length,
    context, error."""
    malformed: int = 0
    """Replies with tool-call text that is none."""
