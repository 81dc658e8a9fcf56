"""Status, quality and era of the reasoning judge's score (sn15.md section 5)."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta

from oresmith.records import Judgement, Record, Trajectory

FIRST_JUDGE = date(2026, 4, 12)
"""Day from which there is a judge."""
FIRST_BINS = date(2026, 4, 30)
"""Day from which the judge answers with one of `BINS`."""
BINS = (0.1, 0.3, 0.5, 0.7, 0.9)
FULL_FROM = 0.8
"""Quality from which the coefficient is 1."""
_TOLERANCE = 1e-6


class JudgeEvidence(Record, frozen=True):
    """What is known of the reasoning score."""

    status: str
    """judged; missing: no score was given; failed: a score stands there that no judge gave (0.0 without a model, when
    every retry failed) or can give (not a number from 0 to 1)."""
    quality: float | None
    """0 to 1; None unless `status` is judged."""
    era: str
    """none (before there was a judge), unbinned, binned, unknown (no time is known). Eras must not be mixed."""
    era_from: str
    """What dated it: judged_at, created_at, step or none."""
    model: str | None
    flags: list[str]
    """off_bin: not one of `BINS` in the binned era; before_judge: a score from a time without a judge;
    zero_unnamed: 0.0 without a model; out_of_range: no number from 0 to 1."""

    @property
    def coefficient(self) -> float | None:
        """Run-level coefficient of this quality; None where there is none."""
        return None if self.quality is None else coefficient(self.quality)


def coefficient(quality: float) -> float:
    """Factor on a run's success rate: 1.0 from quality 0.8, else 0.3 + 0.875 quality (sn15.md section 5)."""
    return 1.0 if quality >= FULL_FROM else 0.3 + 0.875 * quality


def judge_evidence(trajectory: Trajectory) -> JudgeEvidence:
    """Read the judge's score of a trajectory.

    The era is that of the judgement's own time, else of the trajectory's declared time, else of its last step. Days are
    UTC; a time without a zone is read as UTC.

    Args:
        trajectory: any trajectory.

    Returns:
        Status, quality and era. Never raises.
    """
    day, source = _dated(trajectory)
    era, judge = _era(day), trajectory.judge
    quality = judge.quality if judge else None
    status, flags = _judged(judge, quality, era)
    return JudgeEvidence(
        status=status,
        quality=quality if status == "judged" else None,
        era=era,
        era_from=source,
        model=judge.model if judge else None,
        flags=flags,
    )


def _judged(judge: Judgement | None, quality: float | None, era: str) -> tuple[str, list[str]]:
    """Status and flags."""
    if judge is None or quality is None:
        return "missing", []
    fault = _fault(judge, quality)
    if fault:
        return "failed", [fault]
    flags = ["before_judge"] if era == "none" else []
    if era == "binned" and min(abs(quality - value) for value in BINS) > _TOLERANCE:
        flags.append("off_bin")
    return "judged", flags


def _fault(judge: Judgement, quality: float) -> str:
    """Why the stored number is no judgement; "" where it is one."""
    if not math.isfinite(quality) or not 0 <= quality <= 1:
        return "out_of_range"
    return "zero_unnamed" if quality == 0 and not (judge.model or "").strip() else ""


def _era(day: date | None) -> str:
    if day is None:
        return "unknown"
    if day < FIRST_JUDGE:
        return "none"
    return "unbinned" if day < FIRST_BINS else "binned"


def _dated(trajectory: Trajectory) -> tuple[date | None, str]:
    """The UTC day of the judgement as well as it is known, and what says so."""
    judged_at = trajectory.judge.judged_at if trajectory.judge else None
    for text, source in ((judged_at, "judged_at"), (trajectory.provenance.created_at, "created_at")):
        day = _day(text)
        if day is not None:
            return day, source
    stamps = [step.timestamp for step in trajectory.steps if step.timestamp is not None and step.timestamp > 0]
    day = _day_of_milliseconds(max(stamps)) if stamps else None
    return day, "step" if day is not None else "none"


def _day(text: str | None) -> date | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
        if moment is None:
            return None
        return (moment.astimezone(UTC) if moment.tzinfo else moment).date()
    except (ValueError, OverflowError):
        return None


def _day_of_milliseconds(stamp: int) -> date | None:
    try:
        return (datetime(1970, 1, 1) + timedelta(milliseconds=stamp)).date()
    except OverflowError:
        return None
