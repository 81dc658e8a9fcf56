"""What a check finds: a result with a state, and for each fault the item, the file and the row."""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal, NamedTuple

from oresmith.errors import OresmithError

State = Literal["ok", "failed", "not computed"]


class Finding(NamedTuple):
    """One thing that does not hold. Texts can come from the release: `errors.shown` them."""

    what: str
    file: str = ""
    """Path in the release."""
    row: int | None = None
    """Counted from 1."""
    item: str = ""
    """Id of the row, problem, number or tensor."""

    def sentence(self) -> str:
        """On one line."""
        place = self.file + (f", row {self.row}" if self.row is not None else "")
        return ": ".join(part for part in (place, self.item, self.what) if part)


def of_error(error: OresmithError) -> Finding:
    """A refusal of a reader as a finding: its place is the file."""
    parts = {"expected": error.expected, "got": error.got, "to do": error.todo}
    told = [error.what, *(f"{label}: {text}" for label, text in parts.items() if text)]
    return Finding("; ".join(told)[:1000], error.where)


Findings = Generator[Finding, None, str]
"""What a check is: it yields findings, and returns a sentence that says how much it looked at."""


class NotComputedError(Exception):
    """A check cannot be made here; the text says what is missing. That is neither success nor failure."""


class Result(NamedTuple):
    """One line of the table."""

    name: str
    proves: str
    state: State
    said: str
    """How much was looked at, or why nothing was."""
    findings: tuple[Finding, ...] = ()
    more: int = 0
    """Further findings that are not listed."""


class Report(NamedTuple):
    """All lines."""

    source: str
    kind: str
    """bundle, dataset or model."""
    version: str | None
    yanked: str | None
    """Why the release was withdrawn."""
    results: tuple[Result, ...]

    @property
    def held(self) -> bool:
        """Whether no check failed."""
        return all(result.state != "failed" for result in self.results)
