"""A logged conversation as an engine would have been shown it: for prompts and for training rows alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from oresmith.arena.views import render as show
from oresmith.evaluation.prompts import system_prompt


def shown_messages(
    messages: Iterable[Mapping[str, Any]], view: str, prompt: str, *, logged: bool, replace: bool = False
) -> list[dict[str, Any]]:
    """The messages with our system prompt where none is logged, and the results of tools in the words of the view.

    Args:
        messages: in OpenAI's form, decoded; results of tools as JSON text, or as values.
        view: version of the view, as in "compact/1".
        prompt: version of the system prompt.
        logged: whether the messages hold the system prompt that was used.
        replace: put ours in place of a logged one.

    Raises:
        OresmithError: no such view or prompt.
    """
    own = [] if logged and not replace else [{"role": "system", "content": system_prompt(prompt)}]
    return own + [
        dict(message) | {"content": show(view, message.get("name"), _result(message.get("content")))}
        if message.get("role") == "tool"
        else dict(message)
        for message in messages
        if not (own and message.get("role") == "system")
    ]


def _result(content: Any) -> Any:
    """A tool's result as it came: the corpus holds it as text."""
    try:
        return msgspec.json.decode(content) if isinstance(content, str) else content
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return content
