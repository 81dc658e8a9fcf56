"""`oresmith cards check`: every number of every card is computed again from the file that it names.

From the core install alone. A card is right where each listed number stands at its place, each has the value that its
file gives now, and no other number stands on it: not in front matter, and no digit outside of code, link targets, the
title and what `_lines` names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from oresmith.errors import OresmithError
from oresmith.params import Params, load_params
from oresmith.release.cards.check_tree import in_tree, tree_faults
from oresmith.release.cards.footer import EARLIER, split_footer, split_front_matter
from oresmith.release.cards.numbers import CardNumber, fenced, places, written
from oresmith.release.cards.sources import (
    DATASET_CARDS,
    EVAL_RESULTS,
    MODEL_CARD,
    NUMBERS,
    in_folder,
    in_project,
    repository_of,
)
from oresmith.release.cards.values import Values
from oresmith.release.layout import CARDS, DATASET, MODEL, inside

MAX_BYTES = 16 * 1024 * 1024
_PLACE = re.compile(r"(.*), line ([0-9]{1,7}), column ([0-9]{1,7})", re.DOTALL)
_VERSION = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}")
_TICKS = re.compile("`+")
_TARGET = re.compile(r"\]\([^()\[\]\s]*\)")
_DIGITS = re.compile(r"(?<![A-Za-z0-9_])[0-9][0-9.,]*")


class Wrong(NamedTuple):
    """One thing on a card that does not hold."""

    card: str
    where: str
    """Place on the card."""
    what: str
    """What is wrong with it, with the source's file and key."""


class Checked(NamedTuple):
    """What a check found."""

    cards: tuple[str, ...]
    """Files that were checked."""
    numbers: int
    """Numbers that were computed again."""
    wrong: tuple[Wrong, ...]


class _Card(NamedTuple):
    """A card, the numbers that are said to stand on it, and where their files are."""

    path: Path
    numbers: list[CardNumber]
    values: Values


class _Line(NamedTuple):
    """A line of a card."""

    section: str
    number: int
    """In its section."""
    text: str
    plain: bool
    """Whether its digits must be accounted for."""


def check_cards(root: Path) -> Checked:
    """Check every card of a project (its data/cards/), a bundle, or one repository's folder.

    Args:
        root: a project (`params.yaml` and `data/cards/`), a bundle (`dataset/` and `model/`), or the folder of one
            repository (`README.md`, `CHANGELOG.md`, `.eval_results/` with the files that they cite).

    Returns:
        What was checked and what is wrong; nothing wrong means that the numbers hold.

    Raises:
        OresmithError: there is no card there, or a project's parameters cannot be read.
    """
    if (root / CARDS / NUMBERS).is_file():
        found = list(_of_project(load_params(root / "params.yaml"), root, root / CARDS))
    elif (root / DATASET).is_dir() and (root / MODEL).is_dir():
        found = [*_of_folder(root / DATASET), *_of_folder(root / MODEL)]
    else:
        found = list(_of_folder(root))
    if not found:
        raise OresmithError(
            "there is no card",
            where=str(root),
            expected="a project whose stage cards has run, a bundle, or a folder with README.md",
        )
    return _checked(found, root)


def _checked(cards: Sequence[_Card], root: Path) -> Checked:
    wrong = [fault for card in cards for fault in _faults(card, root)]
    names = tuple(card.path.relative_to(root).as_posix() for card in cards)
    return Checked(names, sum(len(card.numbers) for card in cards), tuple(wrong))


def listed(card: str) -> list[CardNumber]:
    """The numbers that a card's footer lists.

    Raises:
        OresmithError: it has none, or one that cannot be read.
    """
    return split_footer(card)[1]


def check_made(params: Params, root: Path, folder: Path) -> Checked:
    """Check the cards of a project that are being made, before they are put in place.

    Args:
        params: of the project.
        root: its directory.
        folder: what `make_cards` has written.

    Raises:
        OresmithError: as `check_cards`.
    """
    return _checked(list(_of_project(params, root, folder)), folder)


def _of_project(params: Params, root: Path, folder: Path) -> Iterator[_Card]:
    path = folder / NUMBERS
    try:
        numbers = msgspec.json.decode(path.read_bytes(), type=list[CardNumber])
    except (OSError, msgspec.MsgspecError) as error:
        raise OresmithError("the list of numbers cannot be read", where=str(path), got=str(error)[:200]) from error
    values = {kind: Values(in_project(params, root, kind, folder)) for kind in (DATASET, MODEL)}
    names = [*DATASET_CARDS, MODEL_CARD, *sorted({number.card for number in numbers} - {*DATASET_CARDS, MODEL_CARD})]
    for name in names:
        mine = [number for number in numbers if number.card == name]
        yield _Card(inside(folder, name), mine, values[repository_of(name)])


def _of_folder(folder: Path) -> Iterator[_Card]:
    values = Values(in_folder(folder))
    for name in ("README.md", "CHANGELOG.md"):
        if not (folder / name).is_file():
            continue
        numbers = listed(_text(folder / name))
        beside = {number.card for number in numbers if number.card.startswith(f"{EVAL_RESULTS}/")}
        yield _Card(folder / name, [number for number in numbers if number.card not in beside], values)
        if name == "README.md":
            beside |= {f"{EVAL_RESULTS}/{path.name}" for path in (folder / f".{EVAL_RESULTS}").glob("*.yaml")}
        for card in sorted(beside):
            mine = [number for number in numbers if number.card == card]
            yield _Card(inside(folder, f".{card}"), mine, values)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise OresmithError("too large for a card", where=str(path))
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OresmithError("a card cannot be read", where=str(path), got=str(error)[:200]) from error


def _faults(card: _Card, root: Path) -> Iterator[Wrong]:
    name = card.path.relative_to(root).as_posix()
    try:
        text = _text(card.path)
        shown = _faults_of_text(text, card)
        for where, what in [*shown, *_faults_of_values(card)]:
            yield Wrong(name, where, what)
    except OresmithError as error:
        yield Wrong(name, "", error.sentence())


def _faults_of_text(text: str, card: _Card) -> list[tuple[str, str]]:
    if card.path.suffix == ".yaml":
        return list(tree_faults(text, card.numbers))
    if card.path.suffix == ".html":
        return list(_placed(_lines(text, False), card.numbers, lambda _: []))
    body, own = split_footer(text)
    told = [number for number in own if not number.card.startswith(f"{EVAL_RESULTS}/")]
    listing = [] if told == card.numbers else [("footer", "the footer and numbers.json list different numbers")]
    in_head = [number for number in card.numbers if in_tree(number)]
    on_page = [number for number in card.numbers if not in_tree(number)]
    lines = _lines(body, card.path.name.lower() == "changelog.md")
    return [*listing, *tree_faults(split_front_matter(body)[0], in_head), *_placed(lines, on_page, _stray)]


def _placed(
    lines: Iterable[_Line], numbers: Sequence[CardNumber], stray: Callable[[str], list[str]]
) -> Iterator[tuple[str, str]]:
    """Faults of the places of numbers, and of digits that no number accounts for."""
    here: dict[tuple[str, int], list[tuple[int, CardNumber]]] = {}
    for number in numbers:
        found = _PLACE.fullmatch(number.where)
        if found is None:
            yield number.where, "a place of no known form"
            continue
        here.setdefault((found[1], int(found[2])), []).append((int(found[3]), number))
    for section, line, text, plain in lines:
        rest = text
        for column, number in here.pop((section, line), []):
            end = column + len(number.text)
            around = text[max(0, column - 1) : column], text[end : end + 1]
            if text[column:end] != number.text or any(part.isdigit() for part in around):
                yield number.where, f"{number.text!r} does not stand there ({number.file} {number.key})"
            rest = f"{rest[:column]}{' ' * len(number.text)}{rest[end:]}"
        for digits in stray(rest) if plain else []:
            yield f"{section}, line {line}", f"{digits!r} comes from no file"
    for left in here.values():
        for _, number in left:
            yield number.where, f"{number.text!r} does not stand there: no such line"


def _lines(body: str, changelog: bool) -> Iterator[_Line]:
    """The lines of a card; digits need not be accounted for in front matter and fenced code, in the title and the
    quotations below it, and in a changelog in its versions and in what it repeats of earlier releases."""
    head, _ = split_front_matter(body)
    skipped = head.count("\n") + 3 if head else 0
    earlier = False
    for count, ((section, line, text), within) in enumerate(zip(places(body), fenced(body), strict=True)):
        earlier = earlier or (changelog and text == EARLIER)
        titled = not section and text.startswith(("# ", ">"))
        versioned = changelog and line == 0 and _VERSION.fullmatch(section) is not None
        yield _Line(section, line, text, not (earlier or within or titled or versioned or count < skipped))


def _stray(line: str) -> list[str]:
    return _DIGITS.findall(_TARGET.sub("]", _outside_code(line)))


def _outside_code(line: str) -> str:
    """A line without its code spans; a run of backticks is closed by the next run of the same length."""
    runs = list(_TICKS.finditer(line))
    after: dict[int, int] = {}
    closing = [0] * len(runs)
    for place in range(len(runs) - 1, -1, -1):
        length = len(runs[place][0])
        closing[place] = after.get(length, place)
        after[length] = place
    kept, begin, place = [], 0, 0
    while place < len(runs):
        if closing[place] > place:
            kept.append(line[begin : runs[place].start()])
            place = closing[place]
            begin = runs[place].end()
        place += 1
    return "".join([*kept, line[begin:]])


def _faults_of_values(card: _Card) -> Iterator[tuple[str, str]]:
    for number in card.numbers:
        source = f"{number.file} {number.key}"
        try:
            value = card.values.value(number.file, number.key)
            text = "" if number.format == "raw" else written(value, number.format)
        except (OresmithError, ValueError, OverflowError) as error:
            yield number.where, f"{number.text or number.value}: {str(error)[:500]}"
            continue
        if value != number.value or text != number.text:
            stated = number.text or number.value
            yield number.where, f"the card says {stated}, its source gives {text or value} ({source})"
