"""What a model says in one turn: its text read into thinking, content and tool calls, and written back.

One parser for Qwen's and Hermes' `<tool_call>` JSON and for the native `tool_calls` of a server. A reply is hostile
text: reading is linear in its length, never raises, and a reply that breaks the form is a counted outcome (`Malformed`)
none of whose calls is run. Whatever comes out can be rendered again.
"""

from __future__ import annotations

import json
import math
import re
from enum import StrEnum
from typing import Any, NoReturn

from oresmith.records import Record

END = "<|im_end|>"
"""The token that ends a turn in every template of ours."""
MAX_CALLS = 32
"""Calls of one reply."""
MAX_DEPTH = 32
"""Nesting of a call's arguments."""
TOOL_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
"""Names that stand in a template's JSON without escapes."""

_THINK, _UNTHINK = "<think>", "</think>"
_CALL, _UNCALL = "<tool_call>", "</tool_call>"
TAGS = (_THINK, _UNTHINK, _CALL, _UNCALL)
"""Tags that a model writes itself; in some vocabularies they are tokens."""
_BLANK = re.compile(r"[ \t\r\n]*")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Malformed(StrEnum):
    """Why a reply breaks the form. The value is what is counted."""

    UNCLOSED_THINK = "unclosed_think"
    UNCLOSED_CALL = "unclosed_call"
    STRAY_TAG = "stray_tag"
    INVALID_JSON = "invalid_json"
    NO_NAME = "no_name"
    NO_ARGUMENTS = "no_arguments"
    UNSAFE_ARGUMENTS = "unsafe_arguments"
    TOO_MANY_CALLS = "too_many_calls"
    WRONG_SHAPE = "wrong_shape"


class ReplyCall(Record, frozen=True):
    """One call of a reply."""

    name: str
    arguments: str
    """JSON text of an object, keys in the order given."""


class Reply(Record, frozen=True):
    """One reply of a model."""

    raw: str
    """The text as it came, its end token aside; of a native reply, the message's JSON."""
    think: str | None = None
    """None without a block of thinking; without blanks at its ends."""
    content: str = ""
    """The text around the calls, without blanks at its ends."""
    calls: tuple[ReplyCall, ...] = ()
    """Empty in a malformed reply."""
    malformed: Malformed | None = None

    def message(self, first_id: int = 0) -> dict[str, Any]:
        """The assistant message for the conversation so far, in OpenAI's form.

        A malformed reply keeps its raw text as content, so that the model sees what it wrote.

        Args:
            first_id: number of the first call's id, `call_<n>`.
        """
        if self.malformed is not None:
            return {"role": "assistant", "content": self.raw}
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.think:
            message["reasoning_content"] = self.think
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{number}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for number, call in enumerate(self.calls, first_id)
            ]
        return message


class _Fault(Exception):  # noqa: N818 - an outcome
    def __init__(self, kind: Malformed) -> None:
        super().__init__(kind)
        self.kind = kind


def parse_reply(text: str) -> Reply:
    """Read a reply's text, as sampled, with or without its end token. Never raises.

    Thinking is what `<think>` at the start encloses, or what stands before a `</think>` that comes before any call (a
    prompt may have opened it). Each `<tool_call>` must hold one JSON object with a name and an object of arguments, and
    must be closed; a call that is cut off was not made. Text past the calls counts as content.
    """
    raw = _clean(text).removesuffix(END)
    think: str | None = None
    try:
        think, body = _thinking(raw)
        content, calls = _body(body)
    except _Fault as fault:
        return Reply(raw=raw, think=think, malformed=fault.kind)
    return Reply(raw=raw, think=think, content=content, calls=tuple(calls))


def native_reply(message: object) -> Reply:
    """Read an assistant message as an OpenAI-compatible server gives it. Never raises.

    Args:
        message: decoded JSON: `content`, `reasoning_content` or `reasoning`, `tool_calls`. Where a server parsed no
            calls, the content is read as `parse_reply` does.
    """
    if not isinstance(message, dict):
        return Reply(raw="", malformed=Malformed.WRONG_SHAPE)
    raw = _clean(json.dumps(message, ensure_ascii=False, default=str))
    content, think, native = message.get("content"), _reasoning(message), message.get("tool_calls")
    if not isinstance(content, str | None) or not isinstance(native, list | None):
        return Reply(raw=raw, malformed=Malformed.WRONG_SHAPE)
    if not native:
        read = parse_reply(content or "")
        return (
            read
            if think is None
            else Reply(raw=read.raw, think=think, content=read.content, calls=read.calls, malformed=read.malformed)
        )
    try:
        if len(native) > MAX_CALLS:
            _fail(Malformed.TOO_MANY_CALLS)
        calls = [_native_call(call) for call in native]
    except _Fault as fault:
        return Reply(raw=raw, think=think, malformed=fault.kind)
    return Reply(raw=raw, think=think, content=_clean(content or "").strip(), calls=tuple(calls))


def write_reply(message: dict[str, Any], *, always_thinks: bool = False) -> str:
    """The text that a model is to emit for an assistant message, end token included: the inverse of `parse_reply`.

    Written apart from the templates, so that each checks the other.

    Args:
        message: OpenAI form, arguments as JSON text.
        always_thinks: write an empty block where there is no thinking (`Template.always_thinks`).

    Raises:
        ValueError: a call's arguments are not JSON.
    """
    content, thought = message.get("content") or "", message.get("reasoning_content")
    if always_thinks and thought is None and _UNTHINK in content:
        thought = content.partition(_UNTHINK)[0].rpartition(_THINK)[2]
        content = content.rpartition(_UNTHINK)[2].lstrip("\n")
    thinks = thought or always_thinks
    text = f"{_THINK}\n{(thought or '').strip(chr(10))}\n{_UNTHINK}\n\n" if thinks else ""
    calls = [_written(call["function"]) for call in message.get("tool_calls") or []]
    # A line end parts the calls from any content, even from one of line ends alone.
    text += content.lstrip("\n") if always_thinks else content
    return text + ("\n" if content and calls else "") + "\n".join(calls) + END


def _written(function: dict[str, Any]) -> str:
    arguments = function["arguments"]
    text = json.dumps(json.loads(arguments) if isinstance(arguments, str) else arguments, ensure_ascii=False)
    return f'{_CALL}\n{{"name": "{function["name"]}", "arguments": {text}}}\n{_UNCALL}'


def _clean(text: str) -> str:
    """Half surrogates, which no UTF-8 text can carry, become the replacement character."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _fail(kind: Malformed) -> NoReturn:
    raise _Fault(kind)


def _thinking(text: str) -> tuple[str | None, str]:
    body = text.lstrip()
    if body.startswith(_THINK):
        think, closed, rest = body[len(_THINK) :].partition(_UNTHINK)
        return (think.strip(), rest) if closed else _fail(Malformed.UNCLOSED_THINK)
    closing, call = text.find(_UNTHINK), text.find(_CALL)
    if closing >= 0 and (call < 0 or closing < call):
        return text[:closing].strip(), text[closing + len(_UNTHINK) :]
    return None, text


def _body(text: str) -> tuple[str, list[ReplyCall]]:
    parts: list[str] = []
    calls: list[ReplyCall] = []
    place = 0
    while (start := text.find(_CALL, place)) >= 0:
        parts.append(text[place:start])
        if len(calls) == MAX_CALLS:
            _fail(Malformed.TOO_MANY_CALLS)
        call, place = _call(text, start + len(_CALL))
        calls.append(call)
    parts.append(text[place:])
    if any(tag in part for part in parts for tag in TAGS):
        _fail(Malformed.STRAY_TAG)
    return "\n".join(part for part in map(str.strip, parts) if part), calls


def _call(text: str, start: int) -> tuple[ReplyCall, int]:
    """The call whose JSON begins after `start`, and the place after its closing tag."""
    try:
        # The decoder, not the closing tag, finds the end: an argument may quote the tag.
        value, end = _DECODER.raw_decode(text, _past_blanks(text, start))
    except (ValueError, RecursionError):
        _fail(Malformed.INVALID_JSON if _UNCALL in text[start:] else Malformed.UNCLOSED_CALL)
    end = _past_blanks(text, end)
    if not text.startswith(_UNCALL, end):
        _fail(Malformed.INVALID_JSON if _UNCALL in text[end:] else Malformed.UNCLOSED_CALL)
    if not isinstance(value, dict):
        _fail(Malformed.NO_NAME)
    return _checked(value.get("name"), value.get("arguments")), end + len(_UNCALL)


def _past_blanks(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _native_call(call: object) -> ReplyCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        _fail(Malformed.WRONG_SHAPE)
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = _DECODER.decode(arguments)
        except (ValueError, RecursionError):
            _fail(Malformed.INVALID_JSON)
    return _checked(function.get("name"), arguments)


def _checked(name: object, arguments: object) -> ReplyCall:
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        _fail(Malformed.NO_NAME)
    if not isinstance(arguments, dict):
        _fail(Malformed.NO_ARGUMENTS)
    if not plain_json(arguments):
        _fail(Malformed.UNSAFE_ARGUMENTS)
    return ReplyCall(name=name, arguments=json.dumps(arguments, ensure_ascii=False))


def plain_json(value: object) -> bool:
    """Whether every JSON reader gives the same value back: numbers of 64 bits, whole characters, `MAX_DEPTH` levels."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > MAX_DEPTH:
            return False
        if isinstance(item, dict):
            waiting += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, list):
            waiting += [(part, depth + 1) for part in item]
        elif not _plain_scalar(item):
            return False
    return True


def _plain_scalar(item: object) -> bool:
    if isinstance(item, str):
        return item.isascii() or not _SURROGATES.search(item)
    if isinstance(item, bool) or item is None:
        return True
    if isinstance(item, int):
        return -(2**63) <= item < 2**64
    return isinstance(item, float) and math.isfinite(item)


def _reasoning(message: dict[Any, Any]) -> str | None:
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str):
            return _clean(message[key]).strip()
    return None


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
