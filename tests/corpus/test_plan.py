"""The fate of each row, decided from the small tables: one place, all reasons, nothing published twice."""

from __future__ import annotations

import hashlib

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from oresmith.corpus.plan import MEASURED, candidates, decide
from oresmith.param_data import Corpus

SCHEMA = {
    "n": pl.Int64(),
    "order": pl.Int64(),
    "snapshot": pl.String(),
    "file": pl.String(),
    "line": pl.Int64(),
    "trajectory_id": pl.String(),
    "problem": pl.String(),
    "cluster": pl.String(),
    "use": pl.String(),
    "accepted": pl.Boolean(),
    "reasons": pl.List(pl.String()),
    "call_sequence": pl.String(),
    "depth": pl.Int64(),
    "reformulations": pl.Int64(),
    "verified_before_recommend": pl.Boolean(),
    "max_repeat": pl.Int64(),
    "judge_status": pl.String(),
    "judge_era": pl.String(),
    "judge_quality": pl.Float64(),
    **MEASURED,
}


def sha(text):
    return hashlib.sha256(str(text).encode()).hexdigest()


def plan(*rows, **params):
    """Line -> the decided row; each given row changes an accepted one of train."""
    full = []
    for n, changes in enumerate(rows):
        row = dict.fromkeys(SCHEMA) | {
            "n": n,
            "order": 0,
            "snapshot": "one",
            "file": "a",
            "line": n,
            "trajectory_id": sha(n),
            "problem": f"p{n}",
            "cluster": f"c{n}",
            "use": "train",
            "reasons": [],
            "call_sequence": sha(f"calls {n}"),
            "row_bytes": 1000,
            "recommends": [],
        }
        row |= changes
        full.append(row | {"accepted": not row["reasons"]})
    frame = pl.DataFrame(full, schema=SCHEMA)
    chosen = candidates(frame)
    decided = decide(frame.drop(MEASURED), chosen, Corpus(**params))
    assert decided["n"].to_list() == list(range(len(rows)))
    return decided.to_dicts()


def places(found):
    return [row["place"] for row in found]


def test_pools_decide_where_an_accepted_row_goes():
    found = plan({}, {"use": "dev"}, {"use": "quarantine"}, {"use": "no_problem", "problem": None})
    assert places(found) == ["train", "dev", None, None]
    assert [row["withheld"] for row in found] == [None, None, "quarantine", "no_problem"]
    assert [row["stage"] for row in found] == [None] * 4


def test_only_rejects_of_train_with_that_one_reason_are_lifted_or_shown_as_undesirable():
    found = plan(
        {"reasons": ["origin_subtask"]},
        {"reasons": ["origin_subtask"], "use": "dev"},
        {"reasons": ["origin_subtask", "secret"]},
        {"reasons": ["outcome"]},
        {"reasons": ["outcome"], "use": "dev"},
        {"reasons": ["outcome", "reasoning"]},
        {"reasons": ["format"]},
    )
    assert places(found) == ["subtask", None, None, "kto", None, None, None]
    assert [row["stage"] for row in found] == [None, *["gate"] * 6]


def test_a_guarded_gold_rejects_from_every_config_and_is_added_to_earlier_reasons():
    gold = {"recommends": ["k"]}
    found = plan(gold, gold | {"reasons": ["origin_subtask"]}, gold | {"reasons": ["outcome"]}, gold | {"use": "dev"})
    assert places(found) == [None] * 4
    assert [(row["stage"], row["reasons"]) for row in found] == [
        ("corpus", ["heldout_gold"]),
        ("gate", ["origin_subtask", "heldout_gold"]),
        ("gate", ["outcome"]),
        ("corpus", ["heldout_gold"]),
    ]


def test_a_row_too_large_and_a_guarded_gold_are_both_named():
    found = plan({"recommends": ["k"], "row_bytes": 3_000_000})
    assert found[0]["reasons"] == ["heldout_gold", "row_too_large"]


def test_viewing_is_flagged_against_the_pools_of_the_rows_own_time():
    found = plan({"views_since": -1}, {"views_since": 0}, {"views_since": 1}, {"views_since": 1, "order": 1}, {})
    assert [row["viewed_heldout_gold"] for row in found] == [True, True, False, True, False]
    assert places(found) == ["train"] * 5
    found = plan({"views_since": 1}, {}, heldout_gold_viewed="reject")
    assert [row["reasons"] for row in found] == [["heldout_gold"], []]


def test_rejected_rows_take_no_place_under_a_cap():
    same = {"problem": "p", "cluster": "c"}
    found = plan(
        same | {"depth": 8, "row_bytes": 3_000_000}, same | {"depth": 3}, same | {"depth": 2}, cap_per_problem=1
    )
    assert [row["reasons"] for row in found] == [["row_too_large"], [], ["over_problem_cap"]]
    assert [row["rank"] for row in found] == [None, 1, 2]


def test_no_id_is_published_twice():
    one, two = {"trajectory_id": sha("one")}, {"trajectory_id": sha("two")}
    found = plan(
        one | {"reasons": ["outcome"]},
        one,
        one | {"reasons": ["origin_subtask"]},
        two | {"reasons": ["origin_subtask"]},
        two | {"reasons": ["origin_subtask"]},
        {"trajectory_id": sha("three"), "reasons": ["outcome"]},
        {"trajectory_id": sha("three"), "reasons": ["outcome"]},
    )
    assert places(found) == [None, "train", None, "subtask", None, "kto", None]
    assert found[4]["reasons"] == ["origin_subtask", "duplicate"]
    assert found[6]["reasons"] == ["outcome"]
    assert found[6]["left_out"] == "duplicate"


def test_undesirable_rows_with_the_same_calls_on_a_problem_are_shown_once_and_under_caps():
    same = {"reasons": ["outcome"], "problem": "p", "cluster": "c"}
    calls = {"call_sequence": sha("same")}
    found = plan(same | calls, same | calls, same, same, same | {"call_sequence": None}, cap_per_problem=3)
    assert [row["left_out"] for row in found].count("duplicate_calls") == 1
    assert [row["left_out"] for row in found].count("over_problem_cap") == 1
    assert places(found).count("kto") == 3
    assert all(row["reasons"] == ["outcome"] and row["stage"] == "gate" for row in found)


def test_a_row_unfit_for_views_stays_a_trajectory():
    found = plan({"unfit": "untrainable_steps"}, {"unfit": "untrainable_steps", "reasons": ["outcome"]})
    assert places(found) == ["train", None]
    assert [row["left_out"] for row in found] == ["untrainable_steps"] * 2


def test_no_rows_at_all_are_no_error():
    assert plan() == []


rows = st.lists(
    st.fixed_dictionaries(
        {
            "reasons": st.sampled_from([[], [], ["outcome"], ["origin_subtask"], ["format", "outcome"]]),
            "use": st.sampled_from(["train", "train", "dev", "quarantine", "heldout@2026-05-02"]),
            "problem": st.sampled_from(["p", "q", "r"]),
            "cluster": st.sampled_from(["c", "d"]),
            "trajectory_id": st.sampled_from([sha(n) for n in range(12)]),
            "row_bytes": st.sampled_from([1000, 3_000_000]),
            "recommends": st.sampled_from([[], [], ["k"]]),
            "views_since": st.sampled_from([None, 0]),
            "unfit": st.sampled_from([None, None, "no_query"]),
        }
    ),
    min_size=5,
    max_size=25,
)


@given(rows, st.integers(1, 4), st.sampled_from(["pass", "reject"]))
def test_every_row_has_exactly_one_fate(given_rows, cap, viewed):
    seen: set[str] = set()
    unique = []
    for row in given_rows:  # the gate accepts an id once
        if not row["reasons"] and row["trajectory_id"] in seen:
            continue
        seen |= set() if row["reasons"] else {row["trajectory_id"]}
        unique.append(row)
    found = plan(*unique, cap_per_problem=cap, cap_per_cluster=cap + 1, heldout_gold_viewed=viewed)
    for given_row, row in zip(unique, found, strict=True):
        published = row["place"] in ("train", "dev", "subtask")
        assert published + (row["withheld"] is not None) + (row["stage"] is not None) == 1
        assert bool(row["reasons"]) == (row["stage"] is not None or row["place"] == "subtask")
        assert row["reasons"][: len(given_row["reasons"])] == given_row["reasons"]
        if row["place"]:
            assert row["use"] == ("dev" if row["place"] == "dev" else "train")
            assert row["recommends"] == []
    for together in ({"train", "dev", "kto"}, {"subtask"}):
        shown = [row["trajectory_id"] for row in found if row["place"] in together]
        assert len(shown) == len(set(shown))
