"""Stored evidence of as many rows as a benchmark asks for, made from that of a thousand trajectories."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.measure import Settings, SkippedError
from benchmarks.normalising import normalise
from benchmarks.project import NAME, inside, params, project

SOURCE_ROWS = 1_000


def tiled_evidence(settings: Settings, rows: int) -> tuple[Path, Path]:
    """A project whose `data/evidence` holds `rows` rows; returns it and the directory of the snapshot behind it."""
    where, home = _source(settings)
    target = settings.home / f"tiled-{rows}"
    with inside(where):
        import polars as pl

        table = pl.read_parquet(sorted(Path("data/evidence", NAME, "table").glob("*.parquet")))
    copies = [_copy(table, number) for number in range(-(-rows // table.height))]
    _store(target, pl.concat(copies).head(rows))
    return target, home


def _source(settings: Settings) -> tuple[Path, Path]:
    try:
        from stages import evidence as stage
    except ImportError as error:
        raise SkippedError(f"the stage `evidence` is not there ({error})") from error
    where, home = project(settings, SOURCE_ROWS, distinct=SOURCE_ROWS)
    with inside(where):
        if not Path("data/evidence", NAME).exists():
            normalise(where, home, True, "zstd")
            stage.run(params(home), NAME)
    return where, home


def _copy(table: Any, number: int) -> Any:
    """The same facts as the rows of other files, runs and problems."""
    import polars as pl

    def renamed(column: str) -> Any:
        return pl.col(column).map_elements(
            lambda v: sha256(f"{number}/{v}".encode()).hexdigest(), return_dtype=pl.String
        )

    return table.with_columns(
        pl.concat_str(pl.lit(f"{number:04d}/"), pl.col("file")).alias("file"),
        pl.concat_str(pl.col("problem"), pl.lit(f"/{number}")).alias("problem"),
        *(renamed(column).alias(column) for column in ("trajectory_id", "identity", "content", "call_sequence")),
    )


def _store(target: Path, table: Any) -> None:
    """Lay the table out as the earlier stages would have left it, with accounts that add up."""
    import pyarrow.parquet as pq

    from oresmith.blocks.accounts import FileAccount
    from oresmith.report import make_report, write_report
    from schemas.evidence import ARROW

    accounts = [
        FileAccount(snapshot=NAME, file=file, read=count, forwarded=count, kept=count)
        for file, count in table.group_by("file").len().sort("file").iter_rows()
    ]
    for stage in ("normalize", "evidence"):
        folder = target / "data" / stage / NAME
        folder.mkdir(parents=True, exist_ok=True)
        write_report(make_report(stage, NAME, accounts), folder)
    (target / "data" / "evidence" / NAME / "table").mkdir(exist_ok=True)
    pq.write_table(table.to_arrow().cast(ARROW), target / "data" / "evidence" / NAME / "table" / "00000.parquet")
