"""Contract of the index that `normalize` writes beside the trajectories: one small row each. Version 1."""

from __future__ import annotations

import pandera.polars as pap
import polars as pl
import pyarrow as pa

from schemas.check import holds

INDEX_SCHEMA = "oresmith.index/1"

ARROW = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("identity", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("offset", pa.int64()),
        ("format", pa.string()),
        ("status", pa.string()),
        ("problem_id", pa.string()),
        ("query", pa.string()),
        ("messages", pa.int64()),
        ("final_ids", pa.list_(pa.string())),
        # The problem as JSON text where the row itself states more of it than id and query.
        ("own_problem", pa.string()),
    ],
    metadata={"schema": INDEX_SCHEMA},
)


class IndexTable(pap.DataFrameModel):
    """What must hold of every index."""

    trajectory_id: str = pap.Field(str_matches=r"^[0-9a-f]{64}$")
    identity: str = pap.Field(str_matches=r"^[0-9a-f]{64}$")
    file: str
    line: int = pap.Field(ge=1)
    offset: int = pap.Field(ge=0)
    format: str = pap.Field(
        isin=["sn15-envelope", "sn15-steps", "shoppingbench-rollout", "openai-messages", "atif"],
    )
    messages: int = pap.Field(ge=0)

    class Config:
        """Values are never coerced."""

        strict = False
        coerce = False

    @pap.dataframe_check
    @classmethod
    def one_row_a_place(cls, data: pap.PolarsData) -> pl.LazyFrame:
        """A line of a file is one trajectory."""
        return holds(data, pl.struct("file", "line").is_unique())
