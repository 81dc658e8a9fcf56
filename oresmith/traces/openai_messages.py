"""OpenAI chat messages into the record's messages and steps."""

from __future__ import annotations

from collections import deque
from typing import Any

from oresmith.reasons import Reason
from oresmith.records import Message, Step, ToolCall
from oresmith.traces.context import CodecError, shown, wrong_shape
from oresmith.traces.jsontext import dumps, loads_strict
from oresmith.traces.text import text_of

ROLES = ("system", "developer", "user", "assistant", "tool")


class OpenCalls:
    """The calls of one turn that wait for their results. Finding one costs the same however many wait."""

    def __init__(self, calls: list[ToolCall]) -> None:
        self._calls = calls
        self._answered = [False] * len(calls)
        self._next = 0
        self._by_original: dict[str | None, deque[int]] = {}
        for place, call in enumerate(calls):
            self._by_original.setdefault(call.original_id, deque()).append(place)

    def named(self, original_id: str) -> ToolCall | None:
        """The first open call of that source id."""
        waiting = self._by_original.get(original_id, deque())
        while waiting:
            place = waiting.popleft()
            if not self._answered[place]:
                self._answered[place] = True
                return self._calls[place]
        return None

    def first(self) -> ToolCall | None:
        """The first open call."""
        while self._next < len(self._calls):
            place, self._next = self._next, self._next + 1
            if not self._answered[place]:
                self._answered[place] = True
                return self._calls[place]
        return None


class MessageReader:
    """Reads a list of chat messages. `extra` holds, by message index, the keys that no field takes."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.steps: list[Step] = []
        self.extra: dict[str, dict[str, Any]] = {}
        self._calls = 0
        self._open = OpenCalls([])

    def read(self, raw: object) -> None:
        """Take one message over.

        Raises:
            CodecError: WRONG_SHAPE where a role, a content or a call has the wrong type.
        """
        if not isinstance(raw, dict):
            raise wrong_shape("a message", "an object", raw)
        present = {key: value for key, value in raw.items() if value is not None}
        role = present.pop("role", None)
        if role not in ROLES:
            raise CodecError(
                Reason.WRONG_SHAPE,
                "`role` of a message is not a known one",
                expected=" | ".join(ROLES),
                got=shown(role),
            )
        content = self._content(present)
        if role == "assistant":
            self._assistant(content, present)
        elif role == "tool":
            self._tool(content, present)
        else:
            self.messages.append(Message(role=role, content=content))
        if present:
            self.extra[str(len(self.messages) - 1)] = present

    def _content(self, present: dict[str, Any]) -> str | None:
        content = present.get("content")
        if isinstance(content, list):
            return text_of(content)  # the parts stay in `present`: text alone may not be all of them
        if content is not None and not isinstance(content, str):
            raise wrong_shape("`content` of a message", "a string, a list of parts or null", content)
        present.pop("content", None)
        return content

    def _assistant(self, content: str | None, present: dict[str, Any]) -> None:
        name = "reasoning_content" if isinstance(present.get("reasoning_content"), str) else "reasoning"
        reasoning = present.pop(name) if isinstance(present.get(name), str) else None
        raw_calls = present.pop("tool_calls", [])
        if isinstance(raw_calls, str):
            raw_calls = loads_strict(raw_calls)
        if not isinstance(raw_calls, list):
            raise wrong_shape("`tool_calls` of a message", "a list", raw_calls)
        calls = [self._call(raw) for raw in raw_calls]
        if calls:
            self._open = OpenCalls(calls)
        self.steps.append(Step(message=len(self.messages)))
        self.messages.append(Message(role="assistant", content=content, reasoning_content=reasoning, tool_calls=calls))

    def _call(self, raw: object) -> ToolCall:
        if not isinstance(raw, dict):
            raise wrong_shape("a tool call", "an object", raw)
        function = raw.get("function")
        if not isinstance(function, dict):
            function = raw
        name, original = function.get("name"), raw.get("id")
        if not isinstance(name, str):
            raise wrong_shape("`name` of a tool call", "a string", name)
        arguments = function.get("arguments", function.get("parameters"))
        if not isinstance(arguments, str):
            arguments = "{}" if arguments is None else dumps(arguments)
        call_id = f"call_{self._calls}"
        self._calls += 1
        return ToolCall(
            id=call_id, name=name, arguments=arguments, original_id=original if isinstance(original, str) else None
        )

    def _tool(self, content: str | None, present: dict[str, Any]) -> None:
        named = present.get("tool_call_id")
        answered = self._open.first() if named is None else self._open.named(named) if isinstance(named, str) else None
        if answered is not None:
            present.pop("tool_call_id", None)
        name = present.pop("name") if isinstance(present.get("name"), str) else None
        self.messages.append(
            Message(
                role="tool",
                content=content,
                tool_call_id=answered.id if answered else None,
                name=name if name is not None else answered.name if answered else None,
            )
        )
