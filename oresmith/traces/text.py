"""Message content as plain text."""

from __future__ import annotations

from typing import Any


def text_of(content: object) -> str | None:
    """The text of a message's content: a string, or the text parts of a list of parts, one a line; else None."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts: list[Any] = [part.get("text") for part in content if isinstance(part, dict)]
        texts = [text for text in parts if isinstance(text, str)]
        return "\n".join(texts) if texts else None
    return None
