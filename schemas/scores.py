"""Contract of the table of scores: one row a sample that was to be played, without any text of a trace. Version 1.

Null means "not known" or "does not apply"; docs/formats.md describes each column.
"""

from __future__ import annotations

import pandera.polars as pap
import polars as pl
import pyarrow as pa

from schemas.check import holds

SCORES_SCHEMA = "oresmith.scores/1"

_TEXT, _INT, _REAL, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

COLUMNS: dict[str, pa.DataType] = {
    # Place
    "file": _TEXT,
    "line": _INT,
    # Problem
    "problem": _TEXT,
    "key": _TEXT,
    "problem_id": _TEXT,
    "shop": _TEXT,
    "category": _TEXT,
    "difficulty": _TEXT,
    "cluster": _TEXT,
    # Sample
    "sample": _INT,
    "ended": _TEXT,
    # Outcome
    "success": _FLAG,
    "failure": _TEXT,
    "error": _TEXT,
    "score": _TEXT,
    "rule": _REAL,
    "gt": _REAL,
    "product": _REAL,
    "title": _REAL,
    "price": _REAL,
    "service": _REAL,
    "sku & attrs": _REAL,
    "one shop": _REAL,
    "budget": _REAL,
    "format": _REAL,
    "found": _REAL,
    # Conduct
    "invented": _INT,
    "unseen": _INT,
    "calls": _INT,
    "repeats": _INT,
    "invalid_calls": _INT,
    "tool_errors": _INT,
    "malformed": _INT,
    "turns": _INT,
    "prompt_tokens": _INT,
    "completion_tokens": _INT,
}
"""Column name -> Arrow type, in the order on disk. `score` is the scorer's own dict as JSON text."""

ARROW = pa.schema(list(COLUMNS.items()), metadata={"schema": SCORES_SCHEMA})
SHARES = (
    "rule",
    "gt",
    "product",
    "title",
    "price",
    "service",
    "sku & attrs",
    "one shop",
    "budget",
    "format",
    "found",
)
"""Columns whose values lie between 0 and 1."""
COUNTS = (
    "invented",
    "unseen",
    "calls",
    "repeats",
    "invalid_calls",
    "tool_errors",
    "malformed",
    "turns",
    "prompt_tokens",
    "completion_tokens",
)


class ScoresTable(pap.DataFrameModel):
    """What must hold of every table of scores before anything is computed from it."""

    problem: str
    key: str = pap.Field(str_matches=r"^[0-9a-f]{64}$")
    cluster: str
    category: str = pap.Field(nullable=True, isin=["product", "shop", "voucher", "web"])
    sample: int = pap.Field(ge=0)
    line: int = pap.Field(nullable=True, ge=1)
    success: bool
    rule: float = pap.Field(ge=0, le=1)
    format: float = pap.Field(ge=0, le=1)
    found: float = pap.Field(ge=0, le=1)

    class Config:
        """Other columns are allowed here (Arrow fixes them); values are never coerced."""

        strict = False
        coerce = False

    @pap.dataframe_check
    @classmethod
    def one_row_a_sample(cls, data: pap.PolarsData) -> pl.LazyFrame:
        """A sample counts once."""
        return holds(data, pl.struct("problem", "sample").is_unique())

    @pap.dataframe_check
    @classmethod
    def a_class_for_each_failure(cls, data: pap.PolarsData) -> pl.LazyFrame:
        """What succeeds has no class of failure, and what fails has one."""
        return holds(data, pl.col("success") == pl.col("failure").is_null())

    @pap.dataframe_check
    @classmethod
    def success_is_earned(cls, data: pap.PolarsData) -> pl.LazyFrame:
        """Success needs rule 1, and one shop or the budget where the category asks for it."""
        earned = (pl.col("rule") >= 1) & (pl.col("one shop").fill_null(1) >= 1) & (pl.col("budget").fill_null(1) >= 1)
        return holds(data, pl.col("success") == (earned & pl.col("error").is_null()))

    @pap.dataframe_check
    @classmethod
    def shares_and_counts(cls, data: pap.PolarsData) -> pl.LazyFrame:
        """Shares lie between 0 and 1, counts are not negative."""
        shares = pl.all_horizontal(pl.col(*SHARES).is_between(0, 1).fill_null(True))
        return holds(data, shares & pl.all_horizontal((pl.col(*COUNTS) >= 0).fill_null(True)))
