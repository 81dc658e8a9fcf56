"""All gates over all snapshots: evidence tables in, one decision a row out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from oresmith.gates.rows import apply_rules, row_rules
from oresmith.gates.sets import SEEN, decide_snapshot
from oresmith.param_data import Gate
from oresmith.records import Reject, Source

DECISION = [
    "snapshot",
    "file",
    "line",
    "trajectory_id",
    "problem_id",
    "problem",
    "category",
    "origin",
    "judge_status",
    "accepted",
    "reasons",
]
"""Columns of the decisions table; `reasons[0]` is the deciding one of a rejected row."""
SET_QUOTES = ("identity", "agent_version", "validator")


def decide(evidence: Iterable[pl.DataFrame], gate: Gate) -> pl.DataFrame:
    """Decide every row.

    Args:
        evidence: one table a snapshot (schemas/evidence.py), in the order of the parameters.
        gate: thresholds.

    Returns:
        The evidence rows in (snapshot order, file, line), with `reasons` and `accepted`.
    """
    rules = row_rules(gate)
    decided: list[pl.DataFrame] = []
    seen: pl.DataFrame | None = None
    for table in evidence:
        rows = apply_rules(table, rules)
        if seen is None:
            seen = rows.clear().with_columns(pl.lit(False).alias("accepted")).select(SEEN)
        rows = decide_snapshot(rows, seen, gate)
        decided.append(rows)
        seen = pl.concat([seen, rows.select(SEEN)])
    return pl.concat(decided)


def rejects(decided: pl.DataFrame, gate: Gate) -> Iterator[Reject]:
    """The rejected rows as records, each with the facts that its reasons rest on."""
    quotes = {rule.reason.value: rule.quotes for rule in row_rules(gate)}
    refused = decided.filter(~pl.col("accepted"))
    for row in refused.iter_rows(named=True):
        wanted = dict.fromkeys(column for code in row["reasons"] for column in quotes.get(code, SET_QUOTES))
        yield Reject(
            stage="gate",
            source=_source(row),
            reasons=row["reasons"],
            trajectory_id=row["trajectory_id"],
            problem_id=row["problem_id"],
            evidence={column: row[column] for column in wanted if row[column] is not None},
        )


def _source(row: dict[str, Any]) -> Source:
    return Source(
        snapshot=row["snapshot"],
        file=row["file"],
        file_sha256=row["file_sha256"],
        line=row["line"],
        offset=row["offset"],
        length=row["length"],
    )
