"""Tool calls in a model's own reply: native `tool_calls`, `<tool_call>` blocks, and JSON in running text.

Replies are hostile text. Parsing is bounded (`MAX_TEXT`, `MAX_FAILED`, `MAX_CALLS`, `MAX_DEPTH`), evaluates nothing
and never raises; what does not parse is kept raw, so that a caller can still look for a name in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Set as AbstractSet
from typing import Any

from oresmith.records import Record

MAX_TEXT = 65_536
"""Characters of one reply that are read; longer ones are cut (a tool call stands in far fewer)."""
MAX_FAILED = 32
"""Places in one text where JSON seems to begin and does not, before the search ends (bounds quadratic work)."""
MAX_CALLS = 256
"""Calls taken from one reply."""
MAX_DEPTH = 12
"""Nesting that is followed in a call's arguments and around a call."""

_TAG = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_OPENING = re.compile(r"[{\[]")
_TRAILING_COMMA = re.compile(r",\s*(?=[}\]])")
_DECODER = json.JSONDecoder(strict=False)
_NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "action")
_ARGUMENT_KEYS = ("parameters", "arguments", "args", "params", "input", "tool_input", "action_input")
_HOLDERS = ("tool_calls", "tool_call", "calls", "actions", "action", "tool", "function", "function_call")
_NEAR = 64
"""Characters before a JSON object in which the name of a known tool makes the object its arguments."""


class TextCall(Record, frozen=True):
    """One call as a reply states it."""

    name: str
    arguments: Any
    """Parsed JSON; the raw text where it does not parse; None where the reply states none."""
    raw: str = ""
    """The text the call was read from ("" for native calls), at most `MAX_TEXT` characters."""


def canonical(value: Any, depth: int = 0) -> str:
    """One string for all spellings of the same argument value that agents use interchangeably.

    Numbers and their text are equal (`1`, `1.0`, `"1"`), a list of scalars equals its comma list, JSON inside a string
    equals the JSON itself, blanks at the ends and runs of blanks do not count, key order does not count.

    Args:
        value: any JSON value.
        depth: levels already descended; below `MAX_DEPTH` levels values are told apart no more.

    Returns:
        The canonical text. Never raises.
    """
    if isinstance(value, str):
        return _canonical_text(value, depth)
    if not isinstance(value, dict | list):
        return _canonical_scalar(value)
    if depth >= MAX_DEPTH:
        return "..."
    if isinstance(value, dict):
        pairs = sorted((str(key), canonical(item, depth + 1)) for key, item in value.items())
        return "{" + "".join(f"{len(key)}:{key}{len(item)}:{item}" for key, item in pairs) + "}"
    if any(isinstance(item, dict | list) for item in value):
        items = [canonical(item, depth + 1) for item in value]
        return "[" + "".join(f"{len(item)}:{item}" for item in items) + "]"
    return ",".join(canonical(item, MAX_DEPTH) for item in value)


def _canonical_scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value) if -(10**18) < value < 10**18 else hex(value)
    if isinstance(value, float) and -1e15 < value < 1e15 and value == int(value):
        return str(int(value))
    return repr(value) if isinstance(value, float) else type(value).__name__


def _canonical_text(text: str, depth: int) -> str:
    stripped = text.strip()
    if stripped[:1] in ("{", "[") and depth < MAX_DEPTH:
        parsed = loads(stripped)
        if isinstance(parsed, dict | list):
            return canonical(parsed, depth + 1)
    if "," in stripped:
        return ",".join(" ".join(part.split()) for part in stripped.split(","))
    if stripped[-2:] == ".0" and stripped[:-2].isdigit():
        return stripped[:-2]
    return " ".join(stripped.split())


def loads(text: str) -> Any:
    """Parse JSON, forgiving raw line ends in strings and trailing commas; None where it still does not parse."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        pass
    if len(text) > MAX_TEXT or not _TRAILING_COMMA.search(text):
        return None
    try:
        return json.loads(_TRAILING_COMMA.sub("", text), strict=False)
    except (ValueError, RecursionError):
        return None


def spoken(text: str) -> str:
    """The reply past its thinking: what follows the last `</think>`, or all of it. At most `MAX_TEXT` characters."""
    text = text[:MAX_TEXT]
    return text[text.rfind("</think>") + 8 :] if "</think>" in text else text


def calls_in_text(text: str, names: AbstractSet[str] = frozenset()) -> list[TextCall]:
    """Find the tool calls that a reply's text makes, in order.

    Read are `<tool_call>` blocks (closed or not, a list or one object), else JSON anywhere in the text past the
    thinking: an object with a name and arguments under the usual keys, also nested (`function`, `tool_calls`, ..), or
    an object of bare arguments right after the name of a known tool (`Action: find_product {..}`).

    Args:
        text: the reply's text.
        names: tools the trajectory calls; only these make a bare object a call.

    Returns:
        The calls, at most `MAX_CALLS`; empty where there is none. Never raises.
    """
    body = spoken(text)
    blocks = _TAG.findall(body) if "<tool_call>" in body else []
    found: list[TextCall] = []
    for block in blocks or [body]:
        for value, start, raw in _json_values(block):
            calls = harvest(value, names, raw)
            if not calls and isinstance(value, dict):
                name = _name_before(block, start, names)
                calls = [TextCall(name=name, arguments=value, raw=raw)] if name else []
            found += calls
            if len(found) >= MAX_CALLS:
                return found[:MAX_CALLS]
    return found


def _json_values(text: str) -> list[tuple[Any, int, str]]:
    """Outermost JSON objects and lists in running text: (value, place, raw text)."""
    values: list[tuple[Any, int, str]] = []
    whole = text.strip()
    if whole[:1] in ("{", "["):
        parsed = loads(whole)
        if parsed is not None:
            return [(parsed, text.find(whole[0]), whole)]
    place = failed = 0
    while failed < MAX_FAILED and len(values) < MAX_CALLS:
        opening = _OPENING.search(text, place)
        if opening is None:
            break
        start = opening.start()
        try:
            value, place = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            failed, place = failed + 1, start + 1
            continue
        values.append((value, start, text[start:place]))
    return values


def _name_before(text: str, start: int, names: AbstractSet[str]) -> str | None:
    """The known tool named last in the `_NEAR` characters before a place."""
    before = text[max(0, start - _NEAR) : start]
    places = [(before.rfind(name), len(name), name) for name in names if name and name in before]
    return max(places)[2] if places else None


def harvest(value: Any, names: AbstractSet[str] = frozenset(), raw: str = "", depth: int = 0) -> list[TextCall]:
    """Calls in a JSON value of any of the usual shapes (OpenAI, Hermes, `tool`/`args`, lists of them), in order."""
    if depth > MAX_DEPTH:
        return []
    if isinstance(value, list):
        found: list[TextCall] = []
        for item in value:
            if len(found) >= MAX_CALLS:
                break
            if isinstance(item, dict | list):
                found += harvest(item, names, raw, depth + 1)
        return found
    if not isinstance(value, dict):
        return []
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    key = next((key for key in _ARGUMENT_KEYS if key in value), None)
    if name is not None and (key is not None or name.strip() in names):
        arguments = value[key] if key is not None else None
        if isinstance(arguments, str) and (parsed := loads(arguments)) is not None:
            arguments = parsed
        return [TextCall(name=name.strip().removeprefix("functions."), arguments=arguments, raw=raw)]
    held = [value[holder] for holder in _HOLDERS if isinstance(value.get(holder), dict | list)]
    return [call for item in held for call in harvest(item, names, raw, depth + 1)]


def bare_json(text: str) -> Any:
    """The JSON value that is the whole reply, thinking and a code fence aside; None where it is anything else."""
    body = spoken(text).strip()
    if body[:3] == "```" and body[-3:] == "```" and "\n" in body:
        body = body[body.index("\n") : -3].strip()
    if body[:1] not in ("{", "[") or body[-1:] not in ("}", "]"):
        return None
    parsed = loads(body)
    return parsed if isinstance(parsed, dict | list) else None
