"""Contract of the decisions that `gate` writes: every row of evidence, accepted or rejected. Version 1."""

from __future__ import annotations

from typing import Annotated

import pandera.polars as pap
import polars as pl
import pyarrow as pa

from schemas.check import holds

DECISIONS_SCHEMA = "oresmith.decisions/1"

ARROW = pa.schema(
    [
        ("snapshot", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("trajectory_id", pa.string()),
        ("problem_id", pa.string()),
        ("problem", pa.string()),
        ("category", pa.string()),
        ("origin", pa.string()),
        ("judge_status", pa.string()),
        ("accepted", pa.bool_()),
        ("reasons", pa.list_(pa.string())),
    ],
    metadata={"schema": DECISIONS_SCHEMA},
)


class DecisionTable(pap.DataFrameModel):
    """What must hold of every decision table."""

    snapshot: str
    file: str
    line: int = pap.Field(ge=1)
    trajectory_id: str = pap.Field(str_matches=r"^[0-9a-f]{64}$")
    accepted: bool
    reasons: Annotated[pl.List, pl.String()]

    class Config:
        """Values are never coerced."""

        strict = False
        coerce = False

    @pap.dataframe_check
    @classmethod
    def one_decision_a_row(cls, data: pap.PolarsData) -> pl.LazyFrame:
        """A row is decided once."""
        return holds(data, pl.struct("snapshot", "file", "line").is_unique())

    @pap.dataframe_check
    @classmethod
    def rejected_means_reasons(cls, data: pap.PolarsData) -> pl.LazyFrame:
        """Accepted rows have no reason, rejected ones at least one."""
        return holds(data, pl.col("accepted") == (pl.col("reasons").list.len() == 0))
