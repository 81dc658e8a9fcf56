"""The front matter of a README, read as the Hub reads it: plain values, no aliases, of bounded size."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

MAX_FRONT = 1 << 20
"""Bytes of front matter that are read."""
_FENCED = re.compile(r"---[ \t]*\r?\n(?:(.*?)\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.S)
# what PyYAML's own conversions of a hostile scalar let through
_FAULTS = (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, OverflowError, RecursionError)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FrontMatterError(ValueError):
    """The front matter is no mapping of plain values."""


def split_card(text: str) -> tuple[str | None, str]:
    """Front matter (None where there is none) and the rest."""
    match = _FENCED.match(text.removeprefix("\ufeff"))
    return (None, text) if match is None else (match[1] or "", text.removeprefix("\ufeff")[match.end() :])


def front_matter(text: str) -> dict[str, Any]:
    """The front matter of a card as JSON values; empty where there is none.

    Raises:
        FrontMatterError: not YAML, no mapping, aliases (a few lines of them make gigabytes), too large or too deep.
    """
    front, _ = split_card(text)
    if front is None:
        return {}
    if len(front) > MAX_FRONT:
        raise FrontMatterError(f"more than {MAX_FRONT} characters")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(front, Loader=_Loader)):
            raise FrontMatterError("aliases are not accepted")
        value = _plain(yaml.load(front, Loader=_Loader))  # noqa: S506 (a safe loader)
    except _FAULTS as error:
        raise FrontMatterError(" ".join(str(error).split())[:500] or type(error).__name__) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FrontMatterError("the metadata must be a mapping")
    return value


def _plain(value: Any) -> Any:
    """The value with what JSON does not have (dates, infinities, keys that are no text) as text."""
    if isinstance(value, dict):
        return {_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return value
    return _text(value)


def _text(value: Any) -> str:
    """As text, half surrogates replaced."""
    return str(value).encode("utf-8", "replace").decode()
