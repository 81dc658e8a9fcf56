"""The text of a trajectory, part by part, and the readings of a text that hide nothing.

`parts` and `written_parts` name the parts; `leaves` names each string in a part. Places are built from our own field
names, positions and plain short keys only, because a key of a hostile object can itself be a secret.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from oresmith.records import Trajectory

Part = tuple[str, Any]
"""Place of a part and its value: a string, or any JSON value that holds strings."""

LEAST_NUMBER = 10**9
"""Integers from here on are read as text too: an identity or card number may stand in JSON without quotes."""

_SHOWN_KEY = re.compile(r"[a-z][a-z_]{0,19}\Z")


def parts(trajectory: Trajectory) -> Iterator[Part]:
    """All that a source brought into the record: messages, tools, problem, log, error, outcome, judge, extras.

    `source` and `provenance` are left out: the operator declares them. Parts may be None or of any JSON type.
    """
    t = trajectory
    yield "problem.query", t.problem.query
    yield "problem.problem_id", t.problem.problem_id
    yield "problem.category", t.problem.category
    yield "problem.difficulty", t.problem.difficulty
    yield "problem.reward", t.problem.reward
    yield "problem.voucher", t.problem.voucher
    for number, message in enumerate(t.messages):
        place = f"messages[{number}]"
        yield f"{place}.role", message.role
        yield f"{place}.content", message.content
        yield f"{place}.reasoning_content", message.reasoning_content
        if message.name is not None:
            yield f"{place}.name", message.name
        for index, call in enumerate(message.tool_calls):
            yield f"{place}.tool_calls[{index}].name", call.name
            yield f"{place}.tool_calls[{index}].arguments", call.arguments
            yield f"{place}.tool_calls[{index}].original_id", call.original_id
    yield "tools", t.tools
    for number, step in enumerate(t.steps):
        if step.extra:
            yield f"steps[{number}].extra", step.extra
    for number, entry in enumerate(t.log or ()):
        yield f"log[{number}].kind", entry.kind
        yield f"log[{number}].method", entry.method
        yield f"log[{number}].path", entry.path
        yield f"log[{number}].params", entry.params
        yield f"log[{number}].json_data", entry.json_data
        yield f"log[{number}].response", entry.response
        yield f"log[{number}].result_product_ids", entry.result_product_ids
        yield f"log[{number}].completion_tokens", entry.completion_tokens
    yield "status", t.status
    yield "error", t.error
    if t.outcome is not None:
        yield "outcome.score", t.outcome.score
    if t.judge is not None:
        yield "judge.explanation", t.judge.explanation
    yield "raw_dialogue", t.raw_dialogue
    yield "extra", t.extra


def written_parts(trajectory: Trajectory) -> Iterator[Part]:
    """What the agent wrote for a judge or a model to read: assistant and tool messages, and the error it raised.

    Tool results count: the agent's program writes them into the dialogue. The problem and a logged system prompt do
    not: the first is not the agent's, and the second consists of instructions by its nature.
    """
    for number, message in enumerate(trajectory.messages):
        if message.role in ("assistant", "tool"):
            place = f"messages[{number}]"
            yield f"{place}.content", message.content
            yield f"{place}.reasoning_content", message.reasoning_content
            for index, call in enumerate(message.tool_calls):
                yield f"{place}.tool_calls[{index}].name", call.name
                yield f"{place}.tool_calls[{index}].arguments", call.arguments
    yield "error", trajectory.error


def gather(values: Iterator[Part], numbers: bool) -> list[str]:
    """All strings of the parts, keys included, in no stated order: what a pre-check reads."""
    found: list[str] = []
    pending: list[Any] = [value for _, value in values]
    while pending:
        value = pending.pop()
        if type(value) is str:
            found.append(value)
        elif type(value) is dict:
            pending.extend(value)
            pending.extend(value.values())
        elif type(value) is list or type(value) is tuple:
            pending.extend(value)
        elif numbers and type(value) is int and value >= LEAST_NUMBER:
            found.append(_digits(value))
    return found


def leaves(where: str, value: Any) -> Iterator[tuple[str, str]]:
    """Place and text of every string in a JSON value, keys included, in the value's order.

    A key's own place is `<object>.keys[n]`; the value under a key that cannot be shown is `<object>.values[n]`.
    """
    pending: list[Part] = [(where, value)]
    while pending:
        where, value = pending.pop()
        if type(value) is str:
            yield where, value
        elif type(value) is dict:
            held: list[Part] = []
            for number, (key, inner) in enumerate(value.items()):
                shown = type(key) is str and _SHOWN_KEY.match(key)
                held.append((f"{where}.keys[{number}]", key))
                held.append((f"{where}.{key}" if shown else f"{where}.values[{number}]", inner))
            pending.extend(reversed(held))
        elif type(value) is list or type(value) is tuple:
            pending.extend((f"{where}[{number}]", value[number]) for number in range(len(value) - 1, -1, -1))
        elif type(value) is int and value >= LEAST_NUMBER:
            yield where, _digits(value)


def _digits(number: int) -> str:
    """The number as text; a number of over 40 digits is no identity and is not worth its conversion."""
    return str(number) if number < 10**40 else ""


class View(NamedTuple):
    """A reading of a text, with the way back to the text's own positions."""

    text: str
    places: tuple[list[int], list[int]] | None
    """Positions in the reading, and beside each the position in the raw text; None: the same."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Start and end in the raw text of a stretch of the reading."""
        if self.places is None:
            return start, end
        mine, raw = self.places
        low = bisect_right(mine, start) - 1
        high = bisect_left(mine, end)
        first = raw[low] + start - mine[low]
        last = raw[high] if high < len(mine) and mine[high] == end else raw[high - 1] + end - mine[high - 1]
        return first, last


HIDDEN = (
    r"[\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180E\u200B-\u200F\u202A-\u202E\u2060-\u206F"
    r"\u3164\uFE00-\uFE0F\uFEFF\uFFA0\U000E0000-\U000E0FFF]"
)
"""Characters that show nothing. Python's `re` and Rust's `regex` read this class alike."""
SPLIT = rf"[!-~]{HIDDEN}+[!-~]"
"""Something invisible inside a word."""
STYLED = r"[\uFF10-\uFF5A\U0001D400-\U0001D7FF]"
"""Full-width and mathematical letters and digits, which look like ASCII."""
MIXED = r"(?:[a-z][\u0370-\u03FF\u0400-\u052F]|[\u0370-\u03FF\u0400-\u052F][a-z])"
"""Latin beside Greek or Cyrillic in one word."""
ESCAPED = r"(?:%[2-7][0-9A-Fa-f]|\\u00[2-7][0-9A-Fa-f])"
"""URL quoting or a JSON escape of an ASCII character."""
LISTED = r"[a-z]{3,8}\\+[nrt][a-z]{3,9}\\+[nrt][a-z]{3,8}"
"""Short words on lines of their own, in JSON inside a string."""
DISGUISE = f"(?:{SPLIT}|{STYLED}|{MIXED}|{ESCAPED}|{LISTED})"
"""What makes a second reading of a text worth while."""

_LOOKALIKES = dict(
    zip(
        "асеорухіјѕһԁԛԝАВЕКМНОРСТУХІЈЅοαινρυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
        "aceopyxijshdqwABEKMHOPCTYXIJSoaivpuxABEZHIKMNOPTYX",
        strict=True,
    )
)
"""Cyrillic and Greek letters that look like Latin ones."""
_UNITS = re.compile(
    rf"{HIDDEN}+|%(?:25){{0,4}}(?P<quoted>[2-7][0-9A-Fa-f])"
    r"|(?<!\\)\\{1,8}(?:u00(?P<escaped>[2-7][0-9A-Fa-f])|(?P<blank>[nrt]))"
)


def _fold_table() -> dict[int, str]:
    styled = [*range(0xFF10, 0xFF5B), *range(0x1D400, 0x1D800)]
    folded = {code: unicodedata.normalize("NFKC", chr(code)) for code in styled}
    table = {code: text for code, text in folded.items() if len(text) == 1}
    return table | {ord(key): value for key, value in _LOOKALIKES.items()}


_FOLD = _fold_table()


def plain_view(text: str) -> View:
    """The text as a reader or a parser one level up would see it.

    Invisible characters go, look-alike letters become ASCII, URL quoting and JSON's escapes of ASCII characters are
    undone (nested quoting too), an escaped line end becomes a blank. Base64, other encodings and values that are
    split over several fields are beyond it.
    """
    folded = text if text.isascii() else text.translate(_FOLD)
    pieces: list[str] = []
    mine, raw, length, done = [0], [0], 0, 0
    for unit in _UNITS.finditer(folded):
        start, end = unit.span()
        pieces.append(folded[done:start])
        length += start - done
        mine.append(length)
        raw.append(start)
        code = unit["quoted"] or unit["escaped"]
        shown = chr(int(code, 16)) if code else " " if unit["blank"] else ""
        pieces.append(shown)
        length += len(shown)
        mine.append(length)
        raw.append(end)
        done = end
    pieces.append(folded[done:])
    return View("".join(pieces), (mine, raw))
