"""What can only be seen by reading a row's messages: whether they are a sound OpenAI dialogue, and which one it is.

One pass a row: decoding checks types (no unknown key, no null where a key is absent in the record), and a walk over the
calls checks what types cannot say. Nothing is executed and no text is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from oresmith.records import Message, Source

RECOMMEND = "recommend_product"
NOT_A_MESSAGE = "not_a_message"
CALL_ID_TWICE = "call_id_twice"
ARGUMENTS_NOT_OBJECT = "arguments_not_an_object"
ANSWER_WITHOUT_CALL = "answer_without_call"
CALL_ANSWERED_TWICE = "call_answered_twice"
CALL_UNANSWERED = "call_unanswered"
NO_MESSAGES = "no_messages"
CONTENT_NULL = "content_null"
TOOLS_NOT_NESTED = "tools_not_nested"

FAULTS: dict[str, str] = {
    NOT_A_MESSAGE: "a message is not of the OpenAI schema: an unknown key or role, a null or another type",
    CALL_ID_TWICE: "two calls share an id",
    ARGUMENTS_NOT_OBJECT: "a call's arguments are not the text of a JSON object",
    ANSWER_WITHOUT_CALL: "a tool message answers no call made before it",
    CALL_ANSWERED_TWICE: "a call is answered twice",
    CALL_UNANSWERED: "a call has no answer",
    NO_MESSAGES: "the row holds no message",
    CONTENT_NULL: "a message has no content, which chat templates print as the word None",
    TOOLS_NOT_NESTED: "the tools are no list of definitions nested under `function`",
}
"""Fault -> what it means."""


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: str


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    type: Literal["function"]
    function: _Function


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    """A published message. A key that is absent stays absent: null is refused, since templates print it."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[_Call] | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET


class _Definition(msgspec.Struct):
    name: str


class _Tool(msgspec.Struct):
    """The source's own definition: what stands in it beside the name is the source's matter."""

    function: _Definition


class Normalised(msgspec.Struct):
    """As much of a `records.Trajectory` as a published dialogue is compared with; other fields are skipped unread."""

    trajectory_id: str
    source: Source
    messages: list[Message] = []


class Dialogue(NamedTuple):
    """What one row's messages are."""

    fault: str
    """Of `FAULTS`; "" for a sound dialogue."""
    calls: int
    recommends: int
    """Calls of `recommend_product`."""
    roles: tuple[str, ...]
    digest: str
    """Names the dialogue: equal digests, equal messages, where a null content and an empty one are equal. Empty where
    the messages could not be read."""


_message = msgspec.json.Decoder(_Message).decode
_tools = msgspec.json.Decoder(list[_Tool]).decode
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_pack = msgspec.msgpack.Encoder().encode


def read_dialogue(messages: Iterable[str | None], *, filled: bool = False) -> Dialogue:
    """Check one row's messages.

    Args:
        messages: the JSON text of each, in order.
        filled: the row goes straight into a chat template, so no content may be null.
    """
    try:
        decoded = [_message(text) for text in messages]  # type: ignore[arg-type]
    except (msgspec.MsgspecError, RecursionError, UnicodeError, TypeError):  # the last one of a null
        return Dialogue(NOT_A_MESSAGE, 0, 0, (), "")
    fault = _fault(decoded)
    if not fault and filled and any(message.content is None for message in decoded):
        fault = CONTENT_NULL
    names = [call.function.name for message in decoded for call in message.tool_calls or ()]
    roles = tuple(message.role for message in decoded)
    return Dialogue(fault, len(names), names.count(RECOMMEND), roles, _digest(map(_published, decoded)))


def normalised_digest(messages: Iterable[Message]) -> str:
    """The digest that the published form of a normalised record's messages must have."""
    return _digest(map(_recorded, messages))


@lru_cache(maxsize=512)
def tools_fault(tools: str) -> str:
    """The fault of the JSON text of a row's tool definitions; "" where they are sound. Most rows share one text."""
    try:
        _tools(tools)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return TOOLS_NOT_NESTED
    return ""


def _fault(messages: Sequence[_Message]) -> str:
    called: set[str] = set()
    waiting: set[str] = set()
    for message in messages:
        if message.role == "tool":
            fault = _answer(message, called, waiting)
            if fault:
                return fault
        elif message.tool_call_id is not UNSET or (message.role != "assistant" and message.tool_calls is not UNSET):
            return NOT_A_MESSAGE
        for call in message.tool_calls or ():
            if call.id in called:
                return CALL_ID_TWICE
            if not _is_object(call.function.arguments):
                return ARGUMENTS_NOT_OBJECT
            called.add(call.id)
            waiting.add(call.id)
    return CALL_UNANSWERED if waiting else "" if messages else NO_MESSAGES


def _answer(message: _Message, called: set[str], waiting: set[str]) -> str:
    """Take the call that a tool message answers off the waiting ones."""
    identity = message.tool_call_id
    if identity is UNSET or message.tool_calls is not UNSET or identity not in called:
        return ANSWER_WITHOUT_CALL
    if identity not in waiting:
        return CALL_ANSWERED_TWICE
    waiting.remove(identity)
    return ""


def _is_object(arguments: str) -> bool:
    try:
        _object(arguments)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return True


def _published(message: _Message) -> list[Any]:
    calls = [[call.id, call.function.name, call.function.arguments] for call in message.tool_calls or ()]
    rest = (message.reasoning_content, message.tool_call_id, message.name)
    return [message.role, message.content or "", calls, *(None if value is UNSET else value for value in rest)]


def _recorded(message: Message) -> list[Any]:
    calls = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    return [message.role, message.content or "", calls, message.reasoning_content, message.tool_call_id, message.name]


def _digest(messages: Iterable[list[Any]]) -> str:
    return hashlib.blake2b(_pack(list(messages)), digest_size=16).hexdigest()
