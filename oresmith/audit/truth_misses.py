"""Where the pipeline's findings and the truth part, place by place."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from oresmith.records import Record

LISTED = 10_000
"""Misses of one kind that are named; all are counted."""


class Miss(Record, frozen=True):
    """One place where finding and truth part."""

    where: str
    """Snapshot and file:line of a trajectory, or snapshot and id of a problem."""
    what: str


class Listed(Record, frozen=True):
    """The misses of one kind."""

    count: int
    misses: list[Miss]
    """The first `LISTED` of them."""


def listed(misses: Iterable[Miss]) -> Listed:
    """Count all, keep the first."""
    kept, count = list[Miss](), 0
    for count, miss in enumerate(misses, 1):
        if count <= LISTED:
            kept.append(miss)
    return Listed(count=count, misses=kept)


def listed_rows(rows: pl.DataFrame, chosen: pl.Expr, *columns: str) -> Listed:
    """The chosen rows by their place, saying what stands in these columns of them.

    Args:
        rows: with snapshot, file and line, in a stable order.
        chosen: a condition.
        columns: what to tell; a list is told as its entries.
    """
    found = rows.filter(chosen)
    told = found.head(LISTED).select("snapshot", "file", "line", *columns)
    misses = [
        Miss(
            where=f"{snapshot} {file}:{line}",
            what=", ".join(f"{name} {_text(value)}" for name, value in zip(columns, values, strict=True)),
        )
        for snapshot, file, line, *values in told.iter_rows()
    ]
    return Listed(count=found.height, misses=misses)


def _text(value: object) -> str:
    return "+".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
