"""The figures that metrics, plots, the report and the suites are made of; each comes from a summary or a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from oresmith.corpus.problems import read_columns
from oresmith.validation.layout import SplitFiles
from oresmith.validation.page import ConfigShape, LargeCluster, Page

TOKEN_BIN = 1024
LARGEST = 20
"""Clusters that the report lists."""
_SIZES = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 9), (10, 49), (50, 99), (100, None)]
UNKNOWN = "unknown"
NOT_COMPUTED = "not computed"
Bars = list[tuple[str, int]]


def config_shapes(
    splits: Iterable[SplitFiles], tables: Mapping[str, pl.DataFrame], decided: pl.DataFrame, problems: pl.DataFrame
) -> list[ConfigShape]:
    """Rows, distinct problems and distinct clusters of each split, side by side.

    Args:
        splits: the files.
        tables: summaries of the configs.
        decided: `trajectory_id, problem` of every trajectory: views do not name the problems of their rows.
        problems: `problem, cluster`.
    """
    owners = decided.select(row_id="trajectory_id", problem="problem").unique("row_id")
    owners = owners.join(problems.select("problem", "cluster"), on="problem", how="left")
    shapes = []
    for one in splits:
        rows = tables[one.config].filter(pl.col("split") == one.split)
        if "row_id" in rows.columns:
            rows = rows.select("row_id").join(owners, on="row_id", how="left")
        known = "problem" in rows.columns
        shapes.append(
            ConfigShape(
                config=one.config,
                split=one.split,
                rows=one.rows,
                problems=rows["problem"].n_unique() if known else None,
                clusters=rows["cluster"].n_unique() if known else None,
                files=one.files,
                bytes=one.bytes,
                largest_row_group=one.largest_row_group,
            )
        )
    return shapes


def in_components(problems: pl.DataFrame, data: Path) -> pl.DataFrame:
    """The problems with the cluster that they stand in now; the one they were assigned with may have merged since."""
    now = read_columns(data / "cluster" / "problems.parquet", ["problem", "cluster"], "problems")
    return problems.drop("cluster").join(now, on="problem", how="left", maintain_order="left")


def cluster_sizes(problems: pl.DataFrame) -> Bars:
    """Clusters by their number of problems (column `cluster`)."""
    sizes = problems.group_by("cluster").len()["len"]
    bars = []
    for least, most in _SIZES:
        label = str(least) if most == least else f"{least}+" if most is None else f"{least}-{most}"
        within = sizes >= least if most is None else sizes.is_between(least, most)
        bars.append((label, int(within.sum())))
    return bars


def largest_clusters(problems: pl.DataFrame) -> list[LargeCluster]:
    """The largest clusters of two problems and more, with the first query and the pools of each.

    Args:
        problems: columns `problem, cluster, query, use`.
    """
    grouped = (
        problems.sort("problem")
        .group_by("cluster")
        .agg(
            pl.len().alias("problems"),
            pl.col("query").drop_nulls().first(),
            pl.col("use").unique().sort().str.join(" + ").alias("pool"),
        )
        .filter(pl.col("problems") > 1)
        .sort("problems", "cluster", descending=[True, False])
        .head(LARGEST)
    )
    return [LargeCluster(**row) for row in grouped.fill_null("").iter_rows(named=True)]


def token_bins(tokens: pl.Series) -> Bars:
    """Rows by tokens in bins of 1,024, every bin up to the last; those that were not counted at the end."""
    known = tokens.drop_nulls()
    counted = Counter((known // TOKEN_BIN).to_list())
    last = max(counted, default=-1)
    bars = [(f"{n * TOKEN_BIN}-{(n + 1) * TOKEN_BIN - 1}", counted[n]) for n in range(last + 1)]
    missing = tokens.null_count()
    return [*bars, (NOT_COMPUTED, missing)] if missing else bars


def spread(values: pl.Series) -> Bars:
    """Rows by value, sorted by value."""
    return sorted(Counter(values.cast(pl.String).fill_null(UNKNOWN).to_list()).items())


def gx_frames(tables: Mapping[str, pl.DataFrame]) -> Iterator[tuple[str, Any]]:
    """The summaries as pandas frames, one after the other, without the columns that only our own checks read."""
    for config in sorted(tables):
        yield config, tables[config].drop(_own(tables[config])).to_pandas()


def _own(table: pl.DataFrame) -> Sequence[str]:
    derived = ("digest", "dialogue", "json_fault", "too_long", "tools_fault", "asks", "facts_hash", "tools_hash")
    nested = [name for name, kind in table.schema.items() if isinstance(kind, pl.List)]
    return [*(name for name in derived if name in table.columns), *nested]


def metrics(page: Page) -> dict[str, Any]:
    """What DVC shows as metrics."""
    funnel = page.funnel
    return {
        "read": funnel.read,
        "trajectories": funnel.trajectories,
        "subtask": funnel.subtask,
        "withheld": funnel.withheld,
        "rejects": funnel.rejects,
        "rows": {f"{one.config}/{one.split}": one.rows for one in page.configs},
        "contracts": len(page.contracts),
        "expectations": sum(suite["statistics"]["evaluated_expectations"] for suite in page.gx["suites"]),
        "least_version": page.version.least,
    }
