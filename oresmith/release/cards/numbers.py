"""Numbers of the cards: each is read from a published file by a key, formatted in one way, and listed with both.

A card is rendered with every number between two marks that no text can hold (`oresmith.release.cards.escape` shows them
by their number); taking the marks out tells where each number stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from oresmith.errors import OresmithError

OPEN, CLOSE = "\ue000", "\ue001"
"""Around a number while a card is rendered (private use: `escape.visible` lets neither through)."""
_MARKED = re.compile(f"{OPEN}([0-9]+)\\|([^{OPEN}{CLOSE}]*){CLOSE}")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
UNKNOWN = "not known"
"""What stands on a card for a null."""

Value = int | float | None


class CardNumber(msgspec.Struct, frozen=True, kw_only=True):
    """One number of one card, as `numbers.json` and the card's footer list it."""

    card: str
    """File below data/cards/: dataset.md, model.md, changelog.md, report.html, eval_results/NAME.yaml."""
    where: str
    """`SECTION, line L, column C` (L from the section's heading, which is 0; C from 0), or `front matter, at POINTER`
    (`document, at POINTER` in YAML files)."""
    text: str
    """As it stands there; empty in front matter, where the value itself stands."""
    file: str
    """Path in the card's repository; `*` takes all files of that form."""
    key: str
    """What is read of the file (`oresmith.release.cards.values`)."""
    format: str
    """One of `FORMATS`, or `raw`."""
    value: Value


class Reader(Protocol):
    """Gives the value of a key in a published file."""

    def value(self, file: str, key: str) -> Value:
        """See `oresmith.release.cards.values.Values.value`."""


def _number(value: int | float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _p(value: float) -> str:
    return "under 0.0001" if value < 0.0001 else f"{value:.4f}"


FORMATS: dict[str, Callable[[int | float], str]] = {
    "count": _number,  # 4,522
    "plain": lambda value: msgspec.json.encode(value).decode(),  # parameters: as JSON has them
    "percent": lambda value: f"{100 * value:.1f}%",
    "points": lambda value: f"{100 * value:.1f}",  # ends of an interval, in percent
    "signed": lambda value: f"{100 * value:+.1f}",  # differences, in points
    "decimal": lambda value: f"{value:.3f}",
    "p": _p,
    "megabytes": lambda value: f"{value / 1e6:,.1f} MB",
    "millions": lambda value: f"{value / 1e6:,.1f} M",
}
"""How a value is written."""


def written(value: Value, form: str) -> str:
    """A value in one of `FORMATS`; null is said in words.

    Raises:
        OresmithError: no such format.
    """
    if form not in FORMATS:
        raise OresmithError("no such format of a number", expected=", ".join(FORMATS), got=form[:40])
    return UNKNOWN if value is None else FORMATS[form](value)


class Sourced(NamedTuple):
    """A number in structured text (front matter, YAML), before it is written."""

    file: str
    key: str
    value: Value


class Numbers:
    """The numbers of one card while it is made.

    Args:
        card: its file.
        reader: gives values.
    """

    def __init__(self, card: str, reader: Reader) -> None:
        self.card, self.reader = card, reader
        self._asked: list[tuple[str, str, str, Value]] = []
        self.listed: list[CardNumber] = []

    def number(self, file: str, key: str, form: str = "count") -> str:
        """The text of a number, marked; the only way for one onto a card.

        Args:
            file: path in the card's repository.
            key: what is read of it.
            form: one of `FORMATS`.

        Raises:
            OresmithError: the file has no such key, or the value there is no number.
        """
        value = self.reader.value(file, key)
        text = written(value, form)
        self._asked.append((file, key, form, value))
        return f"{OPEN}{len(self._asked) - 1}|{text}{CLOSE}"

    def sourced(self, file: str, key: str) -> Sourced:
        """A number for structured text, where `plain` puts it.

        Raises:
            OresmithError: as `number`.
        """
        return Sourced(file, key, self.reader.value(file, key))

    def plain(self, tree: object, place: str = "front matter", pointer: str = "") -> object:
        """A tree of YAML values with each `Sourced` replaced by its value and listed with its pointer."""
        if isinstance(tree, Sourced):
            where = f"{place}, at {pointer}"
            self._list(where, "", (tree.file, tree.key, "raw", tree.value))
            return tree.value
        if isinstance(tree, dict):
            return {name: self.plain(part, place, f"{pointer}/{_escaped(name)}") for name, part in tree.items()}
        if isinstance(tree, list | tuple):
            return [self.plain(part, place, f"{pointer}/{index}") for index, part in enumerate(tree)]
        return tree

    def unmark(self, text: str) -> str:
        """Take the marks out of a rendered card and list each number with its place.

        Raises:
            OresmithError: two sections have one title, or a number spans lines.
        """
        found = list(places(text))
        titles = [section for section, number, line in found if number == 0 and section]
        if len(titles) != len(set(titles)):
            raise OresmithError("two sections have one title", where=self.card, got=", ".join(titles)[:200])
        return "\n".join(self._unmark_line(section, number, line) for section, number, line in found)

    def _unmark_line(self, section: str, number: int, line: str) -> str:
        done, last, column = [], 0, 0
        for match in _MARKED.finditer(line):
            before = line[last : match.start()]
            done.append(before)
            column += len(before)
            asked = self._asked[int(match[1])]
            self._list(f"{section}, line {number}, column {column}", match[2], asked)
            done.append(match[2])
            column += len(match[2])
            last = match.end()
        rest = line[last:]
        if OPEN in rest or CLOSE in rest:
            raise OresmithError("a number spans lines", where=f"{self.card}, {section}")
        return "".join([*done, rest])

    def _list(self, where: str, text: str, asked: tuple[str, str, str, Value]) -> None:
        file, key, form, value = asked
        self.listed.append(
            CardNumber(card=self.card, where=where, text=text, file=file, key=key, format=form, value=value)
        )


def places(text: str) -> Iterator[tuple[str, int, str]]:
    """Each line of a card with its section and its number there: (title of the last `## ` heading, lines since, line).

    Lines in fenced code open no section. Before the first heading the title is empty and counting starts at 0.
    """
    section, number = "", 0
    for line, inside in zip(text.split("\n"), fenced(text), strict=True):
        if not inside and line.startswith("## "):
            section, number = line[3:].strip(), 0
        yield section, number, line
        number += 1


def fenced(text: str) -> list[bool]:
    """Whether each line is in fenced code, the fences themselves included."""
    found, fence = [], ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        bare = line.strip()
        closes = bool(match and fence and bare.startswith(fence) and set(bare) == {fence[0]})
        found.append(bool(match or fence))
        if match and not fence:
            fence = match[1]
        elif closes:
            fence = ""
    return found


def _escaped(name: object) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")
