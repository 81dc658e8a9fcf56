"""Ranking of trajectories by the evidence of their structure, and the caps per problem and per cluster.

Earlier snapshots come first: a later one never takes a place from a row that an earlier one has. Within a snapshot,
from the best on: no pathological repetition; every recommended product viewed before; more rounds of search and view
(from `ENOUGH_DEPTH` on all are equal, or running in circles would win); more reworded queries (likewise); fewer equal
calls; the reasoning judge's quality (of the era in which it is comparable); the id.
"""

from __future__ import annotations

import polars as pl

from oresmith.reasons import Reason

PATHOLOGICAL = 4
"""Times that one and the same call is made before it counts as running in circles."""
ENOUGH_DEPTH, ENOUGH_REFORMULATIONS = 8, 4

RANKED_BY = [
    "depth",
    "reformulations",
    "verified_before_recommend",
    "max_repeat",
    "judge_status",
    "judge_era",
    "judge_quality",
]
"""Columns of the evidence that ranking reads."""


def with_ranks(
    rows: pl.DataFrame, cap_per_problem: int | None = None, cap_per_cluster: int | None = None
) -> pl.DataFrame:
    """Rank rows in their problem and in their cluster, and say which are over a cap.

    The cluster is ranked round by round (the best of each of its problems, then the second best, ..), so that no
    wording of a problem crowds out the others.

    Args:
        rows: columns `order` (place of the snapshot), `problem`, `cluster`, `row_id`, `file`, `line` and `RANKED_BY`.
        cap_per_problem: rows of one problem; None for no cap.
        cap_per_cluster: rows of one cluster, those over the problem's cap left out; None for no cap.

    Returns:
        The rows in another order, with `rank`, `cluster_rank` (from 1; null where the problem's cap already cuts) and
        `over` (reason code or null).
    """
    quality, falling = _quality()
    last = ["row_id", "file", "line"]
    by_problem = rows.sort(
        "order", *quality, *last, descending=[False, *falling, False, False, False], nulls_last=True
    ).with_columns(_place("problem").alias("rank"))
    by_cluster = by_problem.sort(
        "order", "rank", *quality, *last, descending=[False, False, *falling, False, False, False], nulls_last=True
    )
    over_problem = pl.lit(False) if cap_per_problem is None else pl.col("rank") > cap_per_problem
    place = pl.when(~over_problem).then(1).cum_sum().over("cluster").cast(pl.Int64)
    ranked = by_cluster.with_columns(pl.when(~over_problem).then(place).alias("cluster_rank"))
    over_cluster = pl.lit(False) if cap_per_cluster is None else pl.col("cluster_rank") > cap_per_cluster
    over = (
        pl.when(over_problem)
        .then(pl.lit(Reason.OVER_PROBLEM_CAP.value))
        .when(over_cluster)
        .then(pl.lit(Reason.OVER_CLUSTER_CAP.value))
    )
    return ranked.with_columns(over.alias("over"))


def _quality() -> tuple[list[pl.Expr], list[bool]]:
    """Sort keys after the snapshot, and whether larger is better."""
    repeats = pl.col("max_repeat").fill_null(0)
    judged = (pl.col("judge_status") == "judged") & (pl.col("judge_era") == "binned")
    keys: list[tuple[pl.Expr, bool]] = [
        (repeats >= PATHOLOGICAL, False),
        (pl.col("verified_before_recommend").fill_null(False), True),
        (pl.col("depth").fill_null(0).clip(upper_bound=ENOUGH_DEPTH), True),
        (pl.col("reformulations").fill_null(0).clip(upper_bound=ENOUGH_REFORMULATIONS), True),
        (repeats, False),
        (pl.when(judged).then(pl.col("judge_quality")), True),
    ]
    return [key for key, _ in keys], [falling for _, falling in keys]


def _place(group: str) -> pl.Expr:
    """The running number of a row in its group, from 1, in the order at hand."""
    return pl.int_range(1, pl.len() + 1).over(group).cast(pl.Int64)
