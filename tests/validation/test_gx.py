"""The suites say what they mean, and their result depends on the data alone."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from schemas.gx import Bounds, Outcome, run_checkpoint, suites

BOUNDS = Bounds(
    rows=10,
    problems=5,
    max_tokens=14336,
    origins=["A"],
    provenance=["runtime-written"],
    pools=["train", "dev"],
    outcomes=["success"],
)
ROW: dict[str, Any] = {
    "row_id": "a" * 64,
    "snapshot": "s",
    "file": "f",
    "line": 1,
    "problem": "b" * 64,
    "cluster": "b" * 64,
    "pool": "train",
    "category": "product",
    "licence": "CC-BY-4.0",
    "origin": "A",
    "provenance_class": "runtime-written",
    "outcome": "success",
    "judge_status": "judged",
    "judge_quality": 0.7,
    "tokens": 100,
    "n_steps": 3,
    "n_calls": 2,
}
SECOND = ROW | {"row_id": "c" * 64, "line": 2, "category": None, "judge_quality": None, "tokens": None}


def checked(*rows: dict[str, Any]) -> Outcome:
    frame = pd.DataFrame(list(rows) or [ROW])
    return run_checkpoint([("trajectories", frame if rows else frame.head(0))], suites(BOUNDS))


def test_a_sound_summary_meets_every_expectation() -> None:
    outcome = checked(ROW, SECOND)
    assert outcome.failures == []
    assert outcome.success
    (suite,) = outcome.result["suites"]
    assert suite["rows"] == 2
    assert suite["statistics"]["evaluated_expectations"] == len(suites(BOUNDS)["trajectories"])


def test_an_empty_config_meets_every_expectation() -> None:
    assert checked().failures == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("row_id", ROW["row_id"]),
        ("row_id", "../x"),
        ("line", 1),
        ("pool", "heldout"),
        ("category", "web-shop"),
        ("origin", "B"),
        ("provenance_class", "absent"),
        ("outcome", "failure"),
        ("tokens", 14337),
        ("judge_quality", 1.5),
        ("licence", None),
        ("cluster", None),
        ("n_calls", 0),
    ],
)
def test_a_value_out_of_bounds_is_found_in_its_column(column: str, value: Any) -> None:
    outcome = checked(ROW, SECOND | {column: value})
    assert not outcome.success
    assert len(outcome.failures) == 1
    assert column in outcome.failures[0].split(":")[0]


def test_more_rows_than_were_read_are_found() -> None:
    rows = [ROW | {"row_id": f"{n:064x}", "line": n + 1} for n in range(11)]
    assert "no more rows than there can be" in checked(*rows).failures[0]


def test_the_result_holds_no_time_and_no_run_and_is_the_same_again() -> None:
    first, second = checked(ROW, SECOND), checked(ROW, SECOND)
    assert json.dumps(first.result, allow_nan=False) == json.dumps(second.result, allow_nan=False)
    assert first.observed != second.observed
    assert not any(word in json.dumps(first.result) for word in ("run_id", "_time", "batch", "validation_id", "/tmp"))
