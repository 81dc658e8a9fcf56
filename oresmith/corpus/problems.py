"""The problems with their pools: what may be used for what, and which gold products are guarded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from oresmith.errors import OresmithError
from oresmith.leakage.ledger import BENCHMARK, DEV, HELDOUT, TRAIN, VAULT

NO_PROBLEM = "no_problem"
"""`use` of a trajectory of which no problem is known: nobody can say what it leaks, so it is withheld."""
ALWAYS = -1
"""Place in time of a guarded problem that no snapshot holds: it was guarded before the first one."""
PROBLEM_COLUMNS = [
    "problem",
    "problem_id",
    "query",
    "category",
    "difficulty",
    "reward",
    "voucher",
    "snapshot",
    "gold_keys",
]
POOL_COLUMNS = ["problem", "cluster", "pool", "held_out", "benchmarks", "trainable", "flagged"]

_encode = msgspec.json.Encoder().encode


def read_columns(paths: Path | Iterable[Path], columns: list[str], what: str) -> pl.DataFrame:
    """Some columns of a Parquet table of an earlier stage.

    Raises:
        OresmithError: the table is missing, or it lacks a column.
    """
    found = [paths] if isinstance(paths, Path) else sorted(paths)
    if not found or not all(path.is_file() for path in found):
        raise OresmithError(f"there are no {what}", where=str(paths), todo="run `dvc repro`")
    try:
        return pl.scan_parquet(found).select(columns).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        got = str(error)[:300]
        raise OresmithError(f"the table of {what} cannot be read", where=str(found[0]), got=got) from error


def read_problems(data: Path) -> pl.DataFrame:
    """All problems with their pools and `use` (`with_use`).

    Raises:
        OresmithError: a table is missing, or one of them lacks a problem of the other.
    """
    assignments = data / "split" / "assignments.parquet"
    names = pl.read_parquet_schema(assignments) if assignments.is_file() else {}
    vault = ["vault"] if "vault" in names else []
    pools = read_columns(assignments, [*POOL_COLUMNS, *vault], "assignments")
    problems = read_columns(data / "cluster" / "problems.parquet", PROBLEM_COLUMNS, "problems")
    joined = problems.join(pools, on="problem", how="inner", validate="1:1", maintain_order="left")
    if not problems.height == pools.height == joined.height:
        raise OresmithError(
            "clusters and pools are of different problems",
            where=str(assignments),
            expected=f"{problems.height} problems",
            got=f"{pools.height}, of which {joined.height} are known",
            todo="run `dvc repro`",
        )
    return with_use(joined)


def with_use(assignments: pl.DataFrame) -> pl.DataFrame:
    """Add `use`: "train" or "dev" where rows of the problem are published, else the label they are withheld under.

    The labels are `heldout@<date>`, `benchmark:<names>`, `quarantine` and `vault`. A problem of train or dev that has
    become a guarded benchmark's is withheld as that benchmark's, one that has come into the vault as `vault`.

    Args:
        assignments: columns `POOL_COLUMNS`, and `vault` (bool) where it is told apart.
    """
    col = pl.col
    in_vault = col(VAULT).fill_null(False) if VAULT in assignments.columns else pl.lit(False)
    benchmark = col("benchmarks").list.len().fill_null(0) > 0
    named = pl.lit(BENCHMARK) + col("benchmarks").list.join("+")
    use = (
        pl.when(in_vault)
        .then(pl.lit(VAULT))
        .when(col("trainable"))
        .then(pl.lit(TRAIN))
        .when(col("pool") == HELDOUT)
        .then(pl.lit(f"{HELDOUT}@") + col("held_out").cast(pl.String))
        .when(col("pool").is_in([TRAIN, DEV]) & benchmark)
        .then(named)
        .when(col("pool") == TRAIN)
        .then(pl.lit(VAULT))
        .otherwise(col("pool"))
    )
    return assignments.with_columns(use.alias("use"))


def guarded_golds(problems: pl.DataFrame, names: list[str]) -> dict[str, int]:
    """Keys of the gold products that no training row may give away: of held-out, vault and guarded benchmark problems.

    Args:
        problems: `read_problems`.
        names: of the snapshots, in order.

    Returns:
        Gold key -> place of the first snapshot that holds such a problem, `ALWAYS` for one that none does.
    """
    benchmark = (pl.col("benchmarks").list.len().fill_null(0) > 0) & ~pl.col("trainable")
    guarded = problems.filter((pl.col("pool") == HELDOUT) | (pl.col("use") == VAULT) | benchmark)
    place = {name: number for number, name in enumerate(names)}
    found: dict[str, int] = {}
    for snapshot, keys in guarded.select("snapshot", "gold_keys").iter_rows():
        since = place.get(snapshot, ALWAYS)
        for key in keys or ():
            found[key] = min(since, found.get(key, since))
    return found


def grpo_rows(problems: pl.DataFrame, snapshot: str) -> Iterator[dict[str, Any]]:
    """Rows of `grpo` that a snapshot adds: its problems of train with a reward, in the order of their names."""
    chosen = problems.filter(
        (pl.col("snapshot") == snapshot) & (pl.col("use") == TRAIN) & pl.col("reward").is_not_null()
    )
    for row in chosen.sort("problem").iter_rows(named=True):
        yield _asked(row) | {"benchmark_flag": row["flagged"], "reward": row["reward"], "voucher": row["voucher"]}


def heldout_rows(problems: pl.DataFrame, snapshot: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Held-out problems that a snapshot adds: (split, row of `heldout`, row of `heldout_gold`)."""
    chosen = problems.filter((pl.col("snapshot") == snapshot) & pl.col("use").str.starts_with(f"{HELDOUT}@"))
    for row in chosen.sort("problem").iter_rows(named=True):
        date = str(row["held_out"])
        open_row = _asked(row) | {"held_out": date}
        yield heldout_split(date), open_row, open_row | {"reward": row["reward"], "voucher": row["voucher"]}


def heldout_split(date: str) -> str:
    """Name of the split of a dated pool, such as `heldout_2026_05_02`: a split's name may hold no hyphen."""
    return f"{HELDOUT}_{date.replace('-', '_')}"


def _asked(row: Mapping[str, Any]) -> dict[str, Any]:
    """What may be known of a problem before it is solved."""
    query = row["query"]
    kept = ("problem", "problem_id", "snapshot", "cluster", "category", "difficulty", "query")
    prompt = [] if query is None else [_encode({"role": "user", "content": query})]
    return {name: row[name] for name in kept} | {"prompt": prompt, "benchmarks": row["benchmarks"] or []}
