"""Eager contract checks: a table that breaks its contract stops the stage with the rows and the numbers."""

from __future__ import annotations

from typing import Any

import pandera.errors
import pandera.polars as pap
import polars as pl

from oresmith.errors import OresmithError


def holds(data: pap.PolarsData, condition: pl.Expr) -> pl.LazyFrame:
    """A check of whole rows. One that cannot be answered fails: pandera would let a null pass."""
    return data.lazyframe.select(condition.fill_null(False))


def check_table(table: pl.DataFrame, contract: Any, where: str) -> pl.DataFrame:
    """Check a collected table against its pandera model.

    Args:
        table: an eager frame; a lazy one would have only its schema checked, so it is not accepted.
        contract: the `DataFrameModel` class.
        where: what the table is, for the message.

    Returns:
        The same table.

    Raises:
        OresmithError: with the broken checks, how many rows break each, and the first of them.
    """
    if not isinstance(table, pl.DataFrame):
        raise TypeError("only an eager polars.DataFrame is really checked")
    try:
        contract.validate(table, lazy=True)
    except pandera.errors.SchemaErrors as error:
        raise OresmithError(
            "the table breaks its contract",
            where=where,
            expected=contract.__name__,
            got=_summary(error),
            todo="this is a fault of the stage that wrote it: report it with the row named here",
        ) from error
    return table


def _summary(error: pandera.errors.SchemaErrors) -> str:
    cases = pl.DataFrame(error.failure_cases)
    counts = cases.group_by("column", "check").agg(pl.len().alias("n"), pl.col("index").first().alias("row"))
    rows = counts.sort("column", "check").head(8).iter_rows(named=True)
    return "; ".join(f"{row['column']}: {row['check']} ({row['n']} rows, first {row['row']})" for row in rows)
