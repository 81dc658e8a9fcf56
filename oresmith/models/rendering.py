"""Messages into token ids and the mask of what the model is to emit: the only way anything is rendered.

A conversation is rendered by its template, and the text is then encoded in segments: control tokens that the template
wrote, and the plain text between them, cut again where the model begins to emit and where it ends. So the prefix that
an engine is given and the same prefix inside a training row are the same ids, and text of users, tools and arguments
can never become a control token, because it is hidden from the search for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from oresmith.errors import OresmithError
from oresmith.models.replies import TAGS, TOOL_NAME, plain_json
from oresmith.models.template import EMITS, ENDS, Template
from oresmith.models.tokenizer import ChatTokenizer

_HIDES = "\ufdd0"
_BASE = 0xF0000
"""`_HIDES` and the character `_BASE + n` stand for the n-th hidden string while the template runs."""
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_SURROGATES = re.compile("[\ud800-\udfff]")

Message = Mapping[str, Any]


class RenderFault(OresmithError):  # noqa: N818 - a reason to reject a row, or a refusal
    """A conversation cannot be rendered."""


class Turn(NamedTuple):
    """What the model is to emit in one assistant turn."""

    message: int
    """Index of the assistant message."""
    start: int
    """Index of its first token."""
    end: int
    """One past its end token."""


class Rendered(NamedTuple):
    """A rendered conversation."""

    ids: list[int]
    mask: list[int]
    """1 exactly on what the model is to emit, end tokens included; as long as `ids`."""
    text: str
    """For people: control tokens and text that looks like them cannot be told apart in it."""
    turns: list[Turn]
    """The runs of the mask, in order."""


class Chat:
    """A template with a tokenizer: what is needed to render for a model.

    Args:
        template: of the model's family.
        tokenizer: of the model.
    """

    def __init__(self, template: Template, tokenizer: ChatTokenizer) -> None:
        self.template, self.tokenizer = template, tokenizer
        control = sorted(tokenizer.control, key=lambda token: (-len(token), token))
        self.hide = _Hide([*control, _HIDES, EMITS, ENDS])
        self.hide_emitted = self.hide.without(TAGS)
        self.pieces = re.compile("|".join(map(re.escape, [EMITS, ENDS, *control])))

    @classmethod
    def load(cls, directory: Path) -> Chat:
        """The chat of a model directory: the template that stands in it where it is one of ours, else its family's.

        Raises:
            OresmithError: no config, no tokenizer, or none that our templates fit.
        """
        from oresmith.models.directory import template_of

        return cls(template_of(directory), ChatTokenizer.load(directory))

    def identity(self) -> dict[str, str]:
        """What a manifest or certificate records: id and hash of the template, hash of the tokenizer."""
        return {
            "template": self.template.id,
            "template_sha256": self.template.sha256,
            "tokenizer_sha256": self.tokenizer.sha256,
        }


class _Hide:
    """Replaces control tokens, and the characters used for that, by stand-ins no template or tokenizer knows."""

    def __init__(self, hidden: Sequence[str]) -> None:
        self._number = {text: chr(_BASE + place) for place, text in enumerate(hidden)}
        self._text = {number: text for text, number in self._number.items()}
        self._search = re.compile("|".join(map(re.escape, hidden)))

    def without(self, texts: Collection[str]) -> _Hide:
        """The same stand-ins, but these texts are left as they are."""
        other = copy(self)
        other._search = re.compile("|".join(re.escape(text) for text in self._number if text not in texts))
        return other

    def __call__(self, text: str) -> str:
        return self._search.sub(lambda found: _HIDES + self._number[found[0]], text)

    def restored(self, text: str) -> str:
        """The text with what was hidden in it."""
        first, *rest = text.split(_HIDES)
        return first + "".join(self._text[part[0]] + part[1:] for part in rest)


def render(
    messages: Sequence[Message],
    tools: Sequence[Any] | None,
    chat: Chat,
    *,
    add_generation_prompt: bool = False,
) -> Rendered:
    """Render a conversation.

    Args:
        messages: OpenAI form: `role`, `content` (text or None), `reasoning_content`, `tool_calls` with arguments as
            JSON text (or an object), rendered as a JSON object with its keys in the order given.
        tools: definitions in OpenAI's nested form; None or empty for none.
        chat: template and tokenizer.
        add_generation_prompt: end with the head of an assistant turn: the prompt of an engine.

    Returns:
        Ids, mask and text. Where the template does not keep prefixes, only a last assistant message is in the mask:
        earlier ones are not rendered as the model emitted them.

    Raises:
        RenderFault: no messages, an unknown role, content that is no text, arguments that are no JSON object.
    """
    shown = [_message(message, place, chat) for place, message in enumerate(messages)]
    if not shown:
        raise RenderFault("an empty conversation cannot be rendered")
    try:
        text = chat.template.apply(shown, _tools(tools, chat.hide), add_generation_prompt=add_generation_prompt)
    except (jinja2.TemplateError, TypeError) as error:
        raise RenderFault("the chat template cannot render this", got=str(error)[:200]) from error
    answers = [place for place, message in enumerate(shown) if message["role"] == "assistant"]
    return _encoded(text, answers, len(shown), chat)


def training_rows(messages: Sequence[Message], tools: Sequence[Any] | None, chat: Chat) -> list[Rendered]:
    """The rows that a conversation is trained on: itself, up to its last assistant message, or one row a turn.

    Raises:
        RenderFault: as `render`.
    """
    answers = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    if chat.template.keeps_prefixes:
        answers = answers[-1:]
    return [render(messages[: place + 1], tools, chat) for place in answers]


def _encoded(text: str, answers: list[int], length: int, chat: Chat) -> Rendered:
    ids: list[int] = []
    turns: list[Turn] = []
    written: list[str] = []
    waiting, begun = iter(answers), -1
    for piece, plain in _segments(text, chat):
        if not plain and piece == EMITS:
            begun = len(ids)
        elif not plain and piece == ENDS:
            turns.append(Turn(next(waiting), begun, len(ids)))
        else:
            written.append(piece)
            ids += chat.tokenizer.plain(piece) if plain else [chat.tokenizer.control[piece]]
    if len(turns) != len(answers):
        raise RenderFault("the template left an assistant message out", got=f"{len(turns)} of {len(answers)}")
    if not chat.template.keeps_prefixes:
        turns = [turn for turn in turns if turn.message == length - 1]
    mask = [0] * len(ids)
    for turn in turns:
        mask[turn.start : turn.end] = [1] * (turn.end - turn.start)
    return Rendered(ids, mask, "".join(written), turns)


def _segments(text: str, chat: Chat) -> Iterator[tuple[str, bool]]:
    """The rendered text in pieces: (mark, control token or text, whether it is plain text)."""
    place = 0
    for found in chat.pieces.finditer(text):
        if found.start() > place:
            yield chat.hide.restored(text[place : found.start()]), True
        yield found[0], False
        place = found.end()
    if place < len(text):
        yield chat.hide.restored(text[place:]), True


def _message(message: Message, place: int, chat: Chat) -> dict[str, Any]:
    where = f"message {place}"
    role = _ROLES.get(str(message.get("role")))
    if role is None:
        raise RenderFault("unknown role", where=where, expected=", ".join(_ROLES), got=str(message.get("role"))[:40])
    content = _text(message.get("content"), where)
    if role != "assistant":
        return {"role": role, "content": chat.hide(content)}
    # A malformed reply stands in the content as it was sampled, with the tags that the model wrote.
    shown: dict[str, Any] = {"role": role, "content": chat.hide_emitted(content)}
    if message.get("reasoning_content") is not None:
        shown["reasoning_content"] = chat.hide(_text(message["reasoning_content"], where))
    if message.get("tool_calls"):
        shown["tool_calls"] = [_call(call, where, chat.hide) for call in message["tool_calls"]]
    return shown


def _text(text: object, where: str) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise RenderFault("content is not text", where=where, got=type(text).__name__)
    if not text.isascii() and _SURROGATES.search(text):
        raise RenderFault("half of a surrogate pair, which no tokenizer takes", where=where)
    return text


def _call(call: object, where: str, hide: _Hide) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise RenderFault("a tool call is not in OpenAI's form", where=where)
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise RenderFault("a call names no tool", where=where, got=str(name)[:80])
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise RenderFault("a call's arguments are not JSON", where=where, got=str(arguments)[:80]) from None
    if not isinstance(arguments, dict) or not plain_json(arguments):
        raise RenderFault("a call's arguments are no plain JSON object", where=where)
    return {"function": {"name": name, "arguments": _deep(arguments, hide)}}


def _tools(tools: Sequence[Any] | None, hide: _Hide) -> list[Any]:
    shown = []
    for tool in tools or []:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not TOOL_NAME.fullmatch(name) or not plain_json(tool):
            raise RenderFault("a tool is not in OpenAI's nested form", where="tools", got=str(name)[:80])
        shown.append(_deep(tool, hide))
    return shown


def _deep(value: Any, hide: Callable[[str], str]) -> Any:
    """Hide in every string of a JSON value, keys too. `plain_json` has bounded its depth."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list):
        return [_deep(item, hide) for item in value]
    if isinstance(value, dict):
        return {hide(key): _deep(item, hide) for key, item in value.items()}
    return value
