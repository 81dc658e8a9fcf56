"""Figures over the rows of a config, each computed from the published Parquet files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from oresmith.errors import OresmithError

_DIGITS = 6


class Figure(NamedTuple):
    """How a figure is computed."""

    columns: tuple[str, ...]
    compute: Callable[[pl.DataFrame], int | float | None]


def _unique(column: str) -> Figure:
    return Figure((column,), lambda rows: rows[column].drop_nulls().n_unique())


def _shares(rows: pl.DataFrame, column: str) -> list[float]:
    counts = rows[column].drop_nulls().value_counts()["count"].to_list()
    return [count / sum(counts) for count in counts]


def _largest(rows: pl.DataFrame) -> float | None:
    shares = _shares(rows, "agent_version")
    return round(max(shares), _DIGITS) if shares else None


def _effective(rows: pl.DataFrame) -> float | None:
    shares = sorted(_shares(rows, "agent_version"))
    return round(1 / sum(share * share for share in shares), _DIGITS) if shares else None


def _policies(rows: pl.DataFrame) -> pl.Series:
    told = rows.filter(pl.col("agent_version").is_not_null())
    return told.group_by("problem").agg(pl.col("agent_version").n_unique())["agent_version"]


def _mean(values: pl.Series) -> float | None:
    return None if values.is_empty() else round(float(values.sum()) / len(values), _DIGITS)


def _median(values: pl.Series) -> float | None:
    found = values.drop_nulls().median()
    return round(float(found), _DIGITS) if isinstance(found, int | float) else None


def _most(values: pl.Series) -> int | None:
    found = values.drop_nulls().max()
    return int(found) if isinstance(found, int | float) else None


_PAIR = ("problem", "agent_version")
FIGURES: dict[str, Figure] = {
    "agents": _unique("agent_version"),
    "miners": _unique("miner"),
    "validators": _unique("validator"),
    "races": _unique("race_id"),
    "problems": _unique("problem"),
    "clusters": _unique("cluster"),
    "models": _unique("model"),
    # Concentration of agents
    "largest_agent_share": Figure(("agent_version",), _largest),
    "effective_agents": Figure(("agent_version",), _effective),  # 1 / sum of squared shares (inverse Simpson)
    # Policies per problem: distinct agent versions
    "policies_mean": Figure(_PAIR, lambda rows: _mean(_policies(rows))),
    "policies_median": Figure(_PAIR, lambda rows: _median(_policies(rows))),
    "policies_most": Figure(_PAIR, lambda rows: _most(_policies(rows))),
    "problems_of_one_policy": Figure(_PAIR, lambda rows: int((_policies(rows) == 1).sum())),
    "tokens_median": Figure(("tokens",), lambda rows: _median(rows["tokens"])),
    "tokens_most": Figure(("tokens",), lambda rows: _most(rows["tokens"])),
    "calls_median": Figure(("n_calls",), lambda rows: _median(rows["n_calls"])),
    "reformulations_mean": Figure(("reformulations",), lambda rows: _mean(rows["reformulations"].drop_nulls())),
    "verified_first": Figure(
        ("verified_before_recommend",), lambda rows: int(rows["verified_before_recommend"].fill_null(False).sum())
    ),
}
"""Name -> figure."""


class Rows:
    """The rows of one config's files; each column is read once.

    Args:
        paths: Parquet files.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self._columns: dict[str, pl.Series] = {}

    def figure(self, key: str) -> int | float | None:
        """Compute a figure over all rows.

        Args:
            key: `rows`, `bytes` (before compression), `rows:COLUMN=JSON` (rows with that value, null included), or a
                name of `FIGURES`.

        Raises:
            OresmithError: no such figure.
            OSError, ValueError, polars.exceptions.PolarsError, ..: files that cannot be read, or lack a column.
        """
        if key in ("rows", "bytes"):
            return sum(_sizes(path)[key == "bytes"] for path in self.paths)
        if key.startswith("rows:"):
            column, _, text = key[len("rows:") :].partition("=")
            value, found = msgspec.json.decode(text), self._column(column)
            return int(found.is_null().sum() if value is None else (found == value).sum())
        if key not in FIGURES:
            raise OresmithError("no such figure", expected=", ".join(FIGURES), got=key[:60])
        figure = FIGURES[key]
        return figure.compute(pl.DataFrame({name: self._column(name) for name in figure.columns}))

    def _column(self, name: str) -> pl.Series:
        if name not in self._columns:
            self._columns[name] = pl.concat([_read(path, name) for path in self.paths])
        return self._columns[name]


def having(column: str, value: object) -> str:
    """The key that counts rows with a value in a column."""
    return f"rows:{column}={msgspec.json.encode(value).decode()}"


def _sizes(path: Path) -> tuple[int, int]:
    """Rows, and bytes before compression."""
    import pyarrow.parquet as pq

    told = pq.ParquetFile(path).metadata
    return int(told.num_rows), sum(int(told.row_group(place).total_byte_size) for place in range(told.num_row_groups))


def _read(path: Path, column: str) -> pl.Series:
    import pyarrow.parquet as pq

    return pl.DataFrame(pl.from_arrow(pq.ParquetFile(path).read(columns=[column])))[column]
