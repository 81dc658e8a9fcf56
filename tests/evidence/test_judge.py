"""The judge's score: missing is never zero, eras are never mixed, impossible scores are no scores."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.evidence.judge import coefficient, judge_evidence
from oresmith.records import Judgement, Provenance, Step, Trajectory
from tests.evidence.plants import trajectory


def judged(quality: float | None, model: str | None = "judge-1", at: str | None = "2026-05-02T10:00:00Z") -> Trajectory:
    return trajectory(judge=Judgement(quality=quality, model=model, judged_at=at))


def test_no_judgement_and_no_quality_are_missing() -> None:
    for made in (trajectory(), judged(None)):
        found = judge_evidence(made)
        assert (found.status, found.quality, found.coefficient) == ("missing", None, None)


@pytest.mark.parametrize("model", ["", "  ", None])
def test_zero_without_a_model_is_a_failed_judgement_and_not_a_zero(model: str | None) -> None:
    found = judge_evidence(judged(0.0, model))
    assert (found.status, found.quality, found.flags) == ("failed", None, ["zero_unnamed"])


def test_zero_of_a_named_judge_before_the_bins_is_a_score() -> None:
    found = judge_evidence(judged(0.0, "judge-1", "2026-04-20"))
    assert (found.status, found.quality, found.era, found.flags) == ("judged", 0.0, "unbinned", [])


@pytest.mark.parametrize("quality", [math.nan, math.inf, -0.1, 1.5])
def test_what_is_no_number_from_0_to_1_is_a_failed_judgement(quality: float) -> None:
    found = judge_evidence(judged(quality))
    assert (found.status, found.quality, found.flags) == ("failed", None, ["out_of_range"])


@pytest.mark.parametrize(
    ("at", "era"),
    [
        ("2026-04-11T23:59:59Z", "none"),
        ("2026-04-12T00:00:00Z", "unbinned"),
        ("2026-04-29T23:59:59.999+00:00", "unbinned"),
        ("2026-04-30T00:00:00Z", "binned"),
        ("2026-04-30T01:00:00+02:00", "unbinned"),
        ("2026-04-29T23:00:00-02:00", "binned"),
        ("2026-04-30", "binned"),
        ("yesterday", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
        ("0001-01-01T00:00:00+14:00", "unknown"),
    ],
)
def test_the_era_is_that_of_the_judgements_utc_day(at: str | None, era: str) -> None:
    assert judge_evidence(judged(0.5, at=at)).era == era


def test_the_judgements_time_comes_before_the_runs_and_that_before_the_steps() -> None:
    made = judged(0.5, at="2026-05-02")
    made.provenance = Provenance(created_at="2026-04-15T00:00:00Z")
    made.steps = [Step(message=0, timestamp=1_770_000_000_000), Step(message=-1, timestamp=0)]
    places = []
    for _ in range(4):
        found = judge_evidence(made)
        places.append((found.era, found.era_from))
        if found.era_from == "judged_at":
            made.judge = msgspec.structs.replace(made.judge, judged_at="not a time")
        elif found.era_from == "created_at":
            made.provenance = Provenance()
        else:
            made.steps = []
    assert places == [("binned", "judged_at"), ("unbinned", "created_at"), ("none", "step"), ("unknown", "none")]


def test_values_between_the_bins_are_flagged_in_the_binned_era_only() -> None:
    assert judge_evidence(judged(0.85)).flags == ["off_bin"]
    assert [judge_evidence(judged(value)).flags for value in (0.1, 0.3, 0.5, 0.7, 0.9)] == [[]] * 5
    assert judge_evidence(judged(0.85, at="2026-04-20")).flags == []


def test_a_score_from_before_there_was_a_judge_is_flagged() -> None:
    found = judge_evidence(judged(0.5, at="2026-03-01"))
    assert (found.status, found.era, found.flags) == ("judged", "none", ["before_judge"])


def test_the_coefficient_is_the_published_one() -> None:
    assert [coefficient(value) for value in (0.8, 0.9, 1.0)] == [1.0, 1.0, 1.0]
    assert coefficient(0.0) == 0.3
    assert coefficient(0.5) == pytest.approx(0.7375)
    assert judge_evidence(judged(0.7)).coefficient == pytest.approx(0.9125)


@given(
    st.none() | st.floats(),
    st.none() | st.text(),
    st.none() | st.text() | st.datetimes().map(str),
    st.none() | st.integers(),
)
def test_any_judgement_gives_one_of_three_states(
    quality: float | None, model: str | None, at: str | None, stamp: int | None
) -> None:
    made = judged(quality, model, at)
    made.steps = [Step(message=0, timestamp=stamp)]
    found = judge_evidence(made)
    assert found.status in ("judged", "missing", "failed")
    assert found.era in ("none", "unbinned", "binned", "unknown")
    assert (found.quality is None) == (found.status != "judged")
    assert found.quality is None or 0 <= found.quality <= 1
