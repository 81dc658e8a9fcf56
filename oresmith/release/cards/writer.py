"""Renders one card: a template that can print nothing but numbers with a source and text that was escaped."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import Environment, StrictUndefined, TemplateError

from oresmith.errors import OresmithError
from oresmith.release.cards import escape
from oresmith.release.cards.footer import with_footer
from oresmith.release.cards.numbers import CardNumber, Numbers
from oresmith.release.cards.values import Values, pointer

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")


class Shown(str):
    """Text that may stand on a card as it is."""

    __slots__ = ()


class Writer:
    """One card under construction.

    Args:
        card: its file below data/cards/.
        values: the files of its repository.
    """

    def __init__(self, card: str, values: Values) -> None:
        self.card, self.values = card, values
        self.numbers = Numbers(card, values)

    @property
    def listed(self) -> list[CardNumber]:
        """The numbers, once the card is rendered."""
        return self.numbers.listed

    def number(self, file: str, key: str, form: str = "count") -> Shown:
        """A number with its source. Errors: OresmithError, as `Numbers.number`."""
        return Shown(self.numbers.number(file, key, form))

    def rate(self, file: str, *place: str | int) -> Shown:
        """A rate as `11 of 60 = 18.3% [9.7, 29.7]`, from `k, n, share, low, high` at a place of a file."""
        found = self._at(file, place)
        shown = f"{self._part(file, place, 'k')} of {self._part(file, place, 'n')}"
        if found.get("share") is None:
            return Shown(shown)
        shown += f" = {self._part(file, place, 'share', 'percent')}"
        return Shown(shown + self._interval(file, place, found, "points"))

    def mean(self, file: str, *place: str | int, form: str = "percent") -> Shown:
        """A mean with its interval, from `value, low, high` at a place of a file."""
        ends = "points" if form == "percent" else form
        return Shown(self._part(file, place, "value", form) + self._interval(file, place, self._at(file, place), ends))

    def difference(self, file: str, *place: str | int) -> Shown:
        """A difference in points with its interval, from `difference, low, high` at a place of a file."""
        shown = self._part(file, place, "difference", "signed")
        return Shown(shown + self._interval(file, place, self._at(file, place), "signed"))

    def markdown(
        self,
        template: str,
        context: Mapping[str, Any],
        front_matter: str = "",
        *,
        beside: Sequence[CardNumber] = (),
        after: str = "",
    ) -> str:
        """Render a Markdown template of cards/ into a card with its footer.

        Args:
            template: file name.
            context: what the template reads; text in it stands on the card only through a filter.
            front_matter: YAML with its two fences, if the card has one.
            beside: numbers of files that have no footer, listed in this card's.
            after: text that stands behind the body as it is.

        Raises:
            OresmithError: the template prints what was not escaped, or a number has no source.
        """
        body = self._render(template, context, Environment(finalize=_checked, **_SETTINGS))  # noqa: S701 (Markdown)
        text = self.numbers.unmark(front_matter + body.rstrip() + "\n")
        return with_footer(text + after, [*self.listed, *beside])

    def html(self, template: str, context: Mapping[str, Any]) -> str:
        """Render an HTML template of cards/; text is escaped by Jinja, what hides or reorders it by `visible`.

        Raises:
            OresmithError: as `markdown`.
        """
        environment = Environment(autoescape=True, finalize=_checked, **_SETTINGS)
        return self.numbers.unmark(self._render(template, context, environment))

    def _render(self, template: str, context: Mapping[str, Any], environment: Environment) -> str:
        environment.filters |= {
            "code": lambda value: Shown(escape.code(value)),
            "span": lambda value: Shown(escape.span(value)),
            "words": lambda value: Shown(escape.words(value)),
            "python": lambda value: Shown(escape.python(value)),
            "visible": lambda value: Shown(escape.visible(value)),
            "json": lambda value: Shown(escape.code(msgspec.json.encode(value).decode())),
            "base64": lambda value: Shown(base64.b64encode(value).decode()),
            "name": name,
        }
        environment.globals |= {
            "number": self.number,
            "rate": self.rate,
            "mean": self.mean,
            "difference": self.difference,
            "at": pointer,
        }
        source = files("cards").joinpath(template).read_text("utf-8")
        try:
            return environment.from_string(source).render(context)
        except TemplateError as error:
            raise OresmithError("a card cannot be written", where=template, got=str(error)[:300]) from error

    def _at(self, file: str, place: tuple[str | int, ...]) -> dict[str, Any]:
        found = self.values.document(file)
        try:
            for part in place:
                found = found[part]
        except (LookupError, TypeError) as error:
            raise OresmithError("no such key", where=f"{file} {pointer(*place)}"[:300]) from error
        if not isinstance(found, dict):
            raise OresmithError("no rate, mean or difference", where=f"{file} {pointer(*place)}"[:300])
        return found

    def _part(self, file: str, place: tuple[str | int, ...], field: str, form: str = "count") -> str:
        return self.numbers.number(file, pointer(*place, field), form)

    def _interval(self, file: str, place: tuple[str | int, ...], found: dict[str, Any], form: str) -> str:
        if found.get("low") is None or found.get("high") is None:
            return ""
        return f" [{self._part(file, place, 'low', form)}, {self._part(file, place, 'high', form)}]"


def name(value: object) -> Shown:
    """A name of ours as it is: a repository, a version, a config, a file.

    Raises:
        OresmithError: any other text.
    """
    text = str(value)
    if not _NAME.fullmatch(text):
        raise OresmithError("not a name that can stand on a card as it is", got=repr(text[:100]))
    return Shown(text)


_SETTINGS: dict[str, Any] = {
    "undefined": StrictUndefined,
    "keep_trailing_newline": True,
    "trim_blocks": True,
    "lstrip_blocks": True,
}


def _checked(value: object) -> object:
    if isinstance(value, StrictUndefined):
        return value  # says itself what is missing
    if not isinstance(value, Shown):
        raise OresmithError("a card prints what was not escaped", got=f"{type(value).__name__} {str(value)[:60]!r}")
    return value
