"""Models in Python, for tests and for policies that play through the server: a function of the conversation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from oresmith.arena.server.config import Policy
from oresmith.arena.witness import digest
from oresmith.errors import OresmithError

NAMED: dict[str, Policy] = {}
"""The policies that a command line can name."""


def echo(body: dict[str, Any]) -> str:
    """Repeat the text of the user's last message."""
    texts = [message.get("content") for message in conversation(body) if message.get("role") == "user"]
    return next((text for text in reversed(texts) if isinstance(text, str)), "")


def scripted(replies: Sequence[str]) -> Policy:
    """A policy that gives these replies in turn: the n-th to a conversation with n replies in it; the last one again.

    It keeps nothing between requests, so that conversations at the same time do not disturb each other.
    """

    def policy(body: dict[str, Any]) -> str:
        spoken = sum(message.get("role") == "assistant" for message in conversation(body))
        return replies[min(spoken, len(replies) - 1)] if replies else ""

    return policy


def read_script(path: Path) -> Policy:
    """The scripted policy of a file.

    Args:
        path: a JSON list of at least one text, the replies in turn.

    Raises:
        OresmithError: the file cannot be read or holds something else.
    """
    try:
        replies = msgspec.json.decode(path.read_bytes(), type=Annotated[list[str], msgspec.Meta(min_length=1)])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OresmithError(
            "no script of replies", where=str(path), expected="a JSON list of texts", got=str(error)[:200]
        ) from error
    return scripted(replies)


def conversation(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a request that are objects."""
    messages = body.get("messages")
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def completion(body: dict[str, Any], said: str | dict[str, Any]) -> dict[str, Any]:
    """A chat completion around what a policy said; tokens are counted as a quarter of the characters."""
    message = {"role": "assistant", "content": said} if isinstance(said, str) else {"role": "assistant", **said}
    prompt = sum(len(str(one.get("content") or "")) // 4 + 4 for one in conversation(body))
    reply = len(str(message.get("content") or "")) // 4 + 1
    model = body.get("model")
    return {
        "id": f"chatcmpl-{digest([body, message])[:32]}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model if isinstance(model, str) else "scripted",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply},
    }


NAMED["echo"] = echo
