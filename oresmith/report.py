"""The account of a stage: what was read, kept and rejected, in all and per input file, by reason.

Each stage writes `report.json` into its output; `oresmith funnel` and the card add them up. A sum that does not hold
stops the stage: `read == kept + rejected`, per file, unreadable lines included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from oresmith.blocks.accounts import FileAccount
from oresmith.errors import AccountingError, OresmithError
from oresmith.reasons import ORDER

REPORT_SCHEMA = "oresmith.report/1"
REPORT_FILE = "report.json"


class StageReport(msgspec.Struct, kw_only=True):
    """`report.json` of a stage."""

    schema: str
    stage: str
    snapshot: str | None
    """None for a stage that works over all snapshots."""
    read: int
    kept: int
    rejected: int
    reasons: dict[str, int]
    """Deciding reason -> rows."""
    files: list[FileAccount]
    """Per input file; `stream` names a fault that the parameters accept, and the card repeats it."""


def make_report(stage: str, snapshot: str | None, files: Iterable[FileAccount]) -> StageReport:
    """Add up the accounts of the files.

    Raises:
        AccountingError: a file whose rows do not add up, with the numbers.
    """
    accounts = sorted(files, key=lambda account: (account.snapshot, account.file))
    for account in accounts:
        rejected = sum(account.rejected.values())
        if account.read != account.kept + rejected:
            raise AccountingError(
                "rows have vanished or were invented",
                where=f"stage {stage}, snapshot {account.snapshot}, file {account.file}",
                expected=f"read == kept + rejected, read {account.read}",
                got=f"kept {account.kept} + rejected {rejected}",
                todo="nothing was published; this is a fault of the stage: report it with these numbers",
            )
    reasons: Counter[str] = Counter()
    for account in accounts:
        reasons.update(account.rejected)
    return StageReport(
        schema=REPORT_SCHEMA,
        stage=stage,
        snapshot=snapshot,
        read=sum(account.read for account in accounts),
        kept=sum(account.kept for account in accounts),
        rejected=sum(reasons.values()),
        reasons=dict(sorted(reasons.items(), key=lambda item: ORDER.get(item[0], len(ORDER)))),
        files=accounts,
    )


def write_report(report: StageReport, directory: Path) -> None:
    """Write `report.json` into a stage's output."""
    (directory / REPORT_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")


def read_report(directory: Path) -> StageReport:
    """Read a stage's `report.json`.

    Raises:
        OresmithError: it is not there or not readable, with what to run.
    """
    path = directory / REPORT_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=StageReport)
    except FileNotFoundError as error:
        raise OresmithError("there is no report of this stage", where=str(path), todo="run `dvc repro`") from error
    except (OSError, msgspec.DecodeError) as error:
        raise OresmithError("the report cannot be read", where=str(path), got=str(error)[:300]) from error


def check_chain(earlier: Iterable[StageReport], later: StageReport) -> None:
    """What the earlier stages kept is what the later one read.

    Raises:
        AccountingError: with both numbers.
    """
    kept = sum(report.kept for report in earlier)
    if kept != later.read:
        raise AccountingError(
            "rows have vanished or were invented between two stages",
            where=f"stage {later.stage}",
            expected=f"{kept} rows kept before it",
            got=f"{later.read} rows read",
            todo="run `dvc repro`; if it stays, report it with these numbers",
        )
