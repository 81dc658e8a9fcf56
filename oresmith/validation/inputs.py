"""What the stages before say of every line, read anew: the corpus is held against this, not against its own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import polars as pl

from oresmith.blocks.rejects import read_rejects
from oresmith.corpus.account import CorpusReport
from oresmith.corpus.problems import read_columns
from oresmith.errors import OresmithError
from oresmith.leakage.ledger import DEV, TRAIN
from oresmith.report import REPORT_FILE, read_report
from oresmith.validation.funnel import PLACE, Placed

_COUNTS = {"snapshot": pl.String, "file": pl.String}


def read_decided(data: Path, problems: pl.DataFrame) -> pl.DataFrame:
    """Every decision of the gate with the `use` of its problem (null where nothing is known of the problem).

    Args:
        data: the pipeline's data directory.
        problems: `corpus.problems.read_problems`.

    Raises:
        OresmithError: the gate and stage cluster are not of the same rows.
    """
    columns = [*PLACE, "trajectory_id", "accepted", "reasons"]
    decisions = read_columns(data / "gate" / "decisions.parquet", columns, "decisions")
    attempts = read_columns(data / "cluster" / "attempts.parquet", [*PLACE, "problem"], "attempts")
    joined = decisions.join(attempts, on=PLACE, how="inner", validate="1:1")
    if not decisions.height == attempts.height == joined.height:
        raise OresmithError(
            "the gate and stage cluster are of different rows",
            where=str(data / "cluster" / "attempts.parquet"),
            expected=f"{decisions.height} decided rows",
            got=f"{attempts.height}, {joined.height} of them in common",
            todo="run `dvc repro`",
        )
    return joined.join(problems.select("problem", "use"), on="problem", how="left")


def read_corpus_report(corpus: Path) -> CorpusReport:
    """The account that stage corpus wrote. Errors: OresmithError where it is missing or of another form."""
    path = corpus / REPORT_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=CorpusReport)
    except (OSError, msgspec.MsgspecError) as error:
        raise OresmithError(
            "the report of stage corpus cannot be read", where=str(path), got=str(error)[:200]
        ) from error


def placed_rows(
    data: Path, names: Sequence[str], decided: pl.DataFrame, tables: Mapping[str, pl.DataFrame], report: CorpusReport
) -> Placed:
    """The places that the stages give to every line.

    Args:
        data: the pipeline's data directory.
        names: of the snapshots, in order.
        decided: `read_decided`.
        tables: summaries of the configs.
        report: of stage corpus.
    """
    accounts = [account for name in names for account in read_report(data / "normalize" / name).files]
    read = [{"snapshot": one.snapshot, "file": one.file, "read": one.read} for one in accounts]
    withheld = [
        {"snapshot": fate.snapshot, "file": fate.file, "pool": pool, "rows": count}
        for fate in report.fates
        for pool, count in fate.withheld.items()
    ]
    published = pl.col("use").is_in([TRAIN, DEV])
    return Placed(
        # Files of different shards stand in one account each: their parts are added up.
        read=pl.DataFrame(read, schema=_COUNTS | {"read": pl.Int64})
        .group_by("snapshot", "file", maintain_order=True)
        .agg(pl.col("read").sum()),
        unreadable=_unreadable(data, names),
        decided=decided.with_columns(pl.col("use").alias("pool"), published.alias("published")),
        trajectories=tables["trajectories"],
        subtask=tables["subtask"],
        rejects=tables["rejects"],
        withheld=pl.DataFrame(withheld, schema=_COUNTS | {"pool": pl.String, "rows": pl.Int64}),
    )


def _unreadable(data: Path, names: Iterable[str]) -> pl.DataFrame:
    rows = [
        (reject.source.snapshot, reject.source.file, reject.source.line, reject.reasons[0])
        for name in names
        for reject in read_rejects(data / "normalize" / name / "rejects")
    ]
    schema = _COUNTS | {"line": pl.Int64, "reason": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
