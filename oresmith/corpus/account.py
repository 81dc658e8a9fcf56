"""The account of the corpus: every line that was read stands in one place, and the counts that cards quote.

What is published is counted in the files as written; what the plan said is only compared with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow.parquet as pq

from oresmith.blocks.accounts import FileAccount
from oresmith.corpus.plan import KTO
from oresmith.corpus.shards import File
from oresmith.errors import AccountingError
from oresmith.leakage.ledger import BENCHMARK, DEV, TRAIN
from oresmith.reasons import ORDER
from oresmith.report import StageReport, make_report
from schemas.corpus import CORPUS_SCHEMA


class Fate(msgspec.Struct, kw_only=True):
    """Where the lines of one input file are: `read == trajectories + subtask + sum(withheld) + sum(rejected)`."""

    snapshot: str
    file: str
    read: int
    """Lines, as stage normalize counted them."""
    trajectories: int = 0
    subtask: int = 0
    withheld: dict[str, int] = msgspec.field(default_factory=dict)
    """Why the row's problem is not published (`problems.with_use`) -> rows."""
    rejected: dict[str, int] = msgspec.field(default_factory=dict)
    """Deciding reason -> rows, of all stages."""


class CorpusReport(StageReport, kw_only=True):
    """`report.json` of stage corpus. `read` is what the gate accepted, `kept` are trajectories and withheld rows."""

    trajectories: int
    trained: int
    """Those of the split train."""
    subtask: int
    """Rejects of the gate that are published on their own."""
    withheld: dict[str, int]
    fates: list[Fate]
    """Of each input file, from the lines read on."""


class _Fates(dict[tuple[str, str], Fate]):
    def __missing__(self, key: tuple[str, str]) -> Fate:
        where = f"stage corpus, snapshot {key[0]}, file {key[1]}"
        raise AccountingError("rows of a file that was never read", where=where, todo="run `dvc repro`")


def make_fates(read: Iterable[FileAccount], plan: pl.DataFrame, files: list[File]) -> list[Fate]:
    """Add up where each input file's lines are.

    Args:
        read: accounts of stage normalize.
        plan: `plan.decide`, for what is withheld.
        files: the published files.

    Raises:
        AccountingError: a file whose lines do not add up, with the numbers.
    """
    fates = _Fates()
    for account in read:
        fate = fates.setdefault(
            (account.snapshot, account.file), Fate(snapshot=account.snapshot, file=account.file, read=0)
        )
        fate.read += account.read
    held = plan.filter(pl.col("withheld").is_not_null()).group_by("snapshot", "file", "withheld").len()
    for snapshot, file, label, count in held.sort("snapshot", "file", "withheld").iter_rows():
        fates[snapshot, file].withheld[label] = count
    for config in ("trajectories", "subtask"):
        for snapshot, file, count in _by_file(files, config, []).iter_rows():
            setattr(fates[snapshot, file], config, count)
    for snapshot, file, reason, count in _by_file(files, "rejects", ["reason"]).iter_rows():
        fates[snapshot, file].rejected[reason] = count
    for fate in fates.values():
        fate.rejected = by_precedence(fate.rejected)
        _check(fate)
    return [fates[key] for key in sorted(fates)]


def make_corpus_report(plan: pl.DataFrame, fates: list[Fate]) -> CorpusReport:
    """The stage's own report over what the gate accepted."""
    accounts: dict[tuple[str, str], FileAccount] = {}
    mine = plan.filter("accepted").select("snapshot", "file", "stage", "reasons")
    for snapshot, file, stage, reasons in mine.iter_rows():
        account = accounts.setdefault((snapshot, file), FileAccount(snapshot=snapshot, file=file))
        account.read += 1
        account.forwarded += 1
        if stage:
            account.rejected[reasons[0]] = account.rejected.get(reasons[0], 0) + 1
        else:
            account.kept += 1
    report = make_report("corpus", None, accounts.values())
    withheld = added(fate.withheld for fate in fates)
    trajectories = sum(fate.trajectories for fate in fates)
    if report.kept != trajectories + sum(withheld.values()):
        raise AccountingError(
            "accepted rows are neither published nor withheld",
            where="stage corpus",
            expected=f"{report.kept} rows that are not rejected",
            got=f"{trajectories} trajectories + {sum(withheld.values())} withheld",
        )
    return CorpusReport(
        **{name: getattr(report, name) for name in StageReport.__struct_fields__},
        trajectories=trajectories,
        trained=plan.filter(pl.col("place") == TRAIN).height,
        subtask=sum(fate.subtask for fate in fates),
        withheld=withheld,
        fates=fates,
    )


def make_counts(plan: pl.DataFrame, problems: pl.DataFrame, files: list[File]) -> dict[str, Any]:
    """`corpus.json`: rows, distinct problems and clusters, files and bytes of each split, and what views leave out.

    Null stands for a count that has no meaning: unreadable lines are of no known problem.
    """
    of_row = plan.filter(pl.col("place").is_not_null()).select("trajectory_id", "problem", "cluster").unique()
    configs: dict[str, dict[str, Any]] = {}
    for config, split in dict.fromkeys((file.config, file.split) for file in files):
        mine = [file for file in files if file.config == config and file.split == split]
        table = pl.concat([_read(file.path, ["row_id", "problem", "cluster", "label"]) for file in mine])
        if "row_id" in table.columns and "problem" not in table.columns:
            table = table.join(of_row, left_on="row_id", right_on="trajectory_id", how="left")
        counted = {
            "rows": sum(file.rows for file in mine),
            "problems": table["problem"].n_unique() if "problem" in table.columns else None,
            "clusters": table["cluster"].n_unique() if "cluster" in table.columns else None,
            "files": len(mine),
            "bytes": sum(file.path.stat().st_size for file in mine),
        }
        if "label" in table.columns:
            counted |= {"desirable": int(table["label"].sum()), "undesirable": int((~table["label"]).sum())}
        configs.setdefault(config, {})[split] = counted
    return {"schema": CORPUS_SCHEMA, "configs": configs, "left_out": _left_out(plan), "problems": _pools(problems)}


def sentences(report: CorpusReport) -> list[str]:
    """What became of the rows that the gate accepted, and why nothing is left to train on where that is so."""
    withheld = ", ".join(f"{label} {count}" for label, count in report.withheld.items())
    reasons = ", ".join(f"{code} {count}" for code, count in report.reasons.items())
    lines = [
        f"corpus: {report.read} accepted rows = {report.trajectories} trajectories + {sum(report.withheld.values())} "
        f"withheld + {report.rejected} rejected; {report.subtask} rejects of the gate are published as subtask"
    ]
    lines += [f"  withheld by pool: {withheld}"] if withheld else []
    lines += [f"  rejected: {reasons}"] if reasons else []
    if not report.trained:
        guarded = sum(count for label, count in report.withheld.items() if label.startswith(BENCHMARK))
        lines.append(
            f"  no train row is left: of {report.read} accepted rows {guarded} are of public benchmark problems, "
            f"{sum(report.withheld.values()) - guarded} are withheld for another pool, {report.trajectories} are of "
            f"dev, {report.rejected} are rejected here"
        )
        if guarded:
            lines.append("  split.allow_benchmark lifts the guard of a named benchmark; its rows are then flagged")
    return lines


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sums of counts by name, sorted by name."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(sorted(total.items()))


def by_precedence(reasons: Mapping[str, int]) -> dict[str, int]:
    """Counts by reason in the order of the enum."""
    return dict(sorted(reasons.items(), key=lambda item: (ORDER.get(item[0], len(ORDER)), item[0])))


def _left_out(plan: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Published or wanted rows that a view leaves out, by why."""
    published = plan.filter(pl.col("place").is_in([TRAIN, DEV]))
    views = {"sft": published, "kto": pl.concat([published, plan.filter(pl.col("kind") == KTO)])}
    return {view: _tally(rows.drop_nulls("left_out"), "left_out") for view, rows in views.items()}


def _pools(problems: pl.DataFrame) -> dict[str, int]:
    """Distinct problems by use."""
    return _tally(problems, "use")


def _tally(rows: pl.DataFrame, column: str) -> dict[str, int]:
    return dict(rows.group_by(column).len().sort(column).iter_rows())


def _by_file(files: list[File], config: str, more: list[str]) -> pl.DataFrame:
    columns = ["snapshot", "file", *more]
    empty = pl.DataFrame(schema=dict.fromkeys(columns, pl.String()))
    tables = [_read(file.path, columns) for file in files if file.config == config]
    return pl.concat([empty, *tables]).group_by(columns).len().sort(columns)


def _read(path: Path, columns: list[str]) -> pl.DataFrame:
    """Those of the columns that the file has."""
    return pl.read_parquet(path, columns=[name for name in pq.read_schema(path).names if name in columns])


def _check(fate: Fate) -> None:
    withheld, rejected = sum(fate.withheld.values()), sum(fate.rejected.values())
    if fate.read != fate.trajectories + fate.subtask + withheld + rejected:
        raise AccountingError(
            "rows have vanished or were invented",
            where=f"stage corpus, snapshot {fate.snapshot}, file {fate.file}",
            expected=f"{fate.read} lines read",
            got=f"{fate.trajectories} trajectories, {fate.subtask} subtask, {withheld} withheld, {rejected} rejected",
            todo="nothing was published; this is a fault of the stage: report it with these numbers",
        )
