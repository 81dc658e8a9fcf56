"""`oresmith funnel`: the account of the last run, from raw lines to accepted trajectories, every row in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from oresmith.params import Params
from oresmith.reasons import ORDER
from oresmith.report import REPORT_FILE, StageReport, check_chain, read_report


class Placed(msgspec.Struct):
    """The end of the funnel, as stage corpus reports it: `accepted == trajectories + withheld + rejected`."""

    read: int
    trajectories: int
    subtask: int
    """Rejects of the gate that are published on their own (Axis B)."""
    withheld: dict[str, int]
    """Pool or guard that forbids the row's problem -> rows."""
    rejected: int


class Funnel(msgspec.Struct):
    """The funnel; its JSON form is `oresmith funnel --json`."""

    read: int
    """Lines of all snapshots, unreadable ones included."""
    accepted: int
    rejected: int
    reasons: dict[str, int]
    """Deciding reason -> rows; they and `accepted` add up to `read`."""
    stages: list[StageReport]
    corpus: Placed | None = None
    """Where the accepted rows are, and which rejects are published all the same; None before stage corpus has run."""


def load_funnel(params: Params, data: Path) -> Funnel:
    """Read the reports of the last run and check that they add up from stage to stage.

    Args:
        params: for the list of snapshots.
        data: the pipeline's data directory.

    Raises:
        OresmithError: a stage has not run yet.
        AccountingError: the numbers do not add up.
    """
    names = [entry.name for entry in params.snapshots]
    normalize = [read_report(data / "normalize" / name) for name in names]
    evidence = [read_report(data / "evidence" / name) for name in names]
    gate = read_report(data / "gate")
    for before, after in zip(normalize, evidence, strict=True):
        check_chain([before], after)
    check_chain(evidence, gate)
    funnel = make_funnel([*normalize, *evidence, gate])
    funnel.corpus = _placed(data / "corpus" / REPORT_FILE, gate)
    return funnel


def _placed(path: Path, gate: StageReport) -> Placed | None:
    """The account of the corpus; None where that stage has not run on what the gate decided last."""
    try:
        placed = msgspec.json.decode(path.read_bytes(), type=Placed)
    except (OSError, msgspec.DecodeError):
        return None
    return placed if placed.read == gate.kept else None


def make_funnel(stages: Sequence[StageReport]) -> Funnel:
    """Add up the reports of the stages, first to last."""
    reasons: Counter[str] = Counter()
    for report in stages:
        reasons.update(report.reasons)
    first = [report for report in stages if report.stage == stages[0].stage]
    return Funnel(
        read=sum(report.read for report in first),
        accepted=stages[-1].kept,
        rejected=sum(reasons.values()),
        reasons=dict(sorted(reasons.items(), key=lambda item: ORDER.get(item[0], len(ORDER)))),
        stages=list(stages),
    )
