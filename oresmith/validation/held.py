"""A contract that holds, and the refusal where one does not."""

from __future__ import annotations

import msgspec
import polars as pl

from oresmith.errors import OresmithError

_SHOWN = ("row_id", "problem", "snapshot", "file", "line", "split", "pool")


class Held(msgspec.Struct, frozen=True):
    """A contract that holds, as reports list it."""

    name: str
    """Name and version."""
    of: str
    """What it was checked on."""
    states: str
    rows: int
    """Rows that it was checked on."""


REPORT = "nothing was published; run `dvc repro`, and if it stays, report it with these numbers"


def hold(wrong: pl.DataFrame, config: str, name: str, states: str, rows: int, *, todo: str = REPORT) -> Held:
    """The contract, if no row breaks it.

    Args:
        wrong: the rows that break it.
        config: whose rows they are.
        name: of the contract, without prefix and version.
        states: what it states.
        rows: how many rows were looked at.
        todo: what to do about broken ones.

    Raises:
        OresmithError: with the number of rows that break it and the place of the first.
    """
    if wrong.height:
        shown = [column for column in _SHOWN if column in wrong.columns]
        first = wrong.select(shown).row(0, named=True)
        raise OresmithError(
            "a contract of the corpus is broken",
            where=f"data/corpus, config {config}",
            expected=f"{name}: {states}",
            got=f"{wrong.height} of {rows} rows break it, first: "
            + ", ".join(f"{column} {str(value)[:80]}" for column, value in first.items()),
            todo=todo,
        )
    return Held(f"oresmith.check.{name}/1", config, states, rows)
