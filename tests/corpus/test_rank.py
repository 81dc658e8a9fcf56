"""Ranking and caps: better structure first, earlier snapshots before later ones, no wording crowds out another."""

from __future__ import annotations

import hashlib

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from oresmith.corpus.rank import with_ranks

SCHEMA = {
    "order": pl.Int64(),
    "problem": pl.String(),
    "cluster": pl.String(),
    "row_id": pl.String(),
    "file": pl.String(),
    "line": pl.Int64(),
    "depth": pl.Int64(),
    "reformulations": pl.Int64(),
    "verified_before_recommend": pl.Boolean(),
    "max_repeat": pl.Int64(),
    "judge_status": pl.String(),
    "judge_era": pl.String(),
    "judge_quality": pl.Float64(),
}


def row(number, **changes):
    found = {
        "order": 0,
        "problem": "p",
        "cluster": "c",
        "row_id": hashlib.sha256(str(number).encode()).hexdigest(),
        "file": "a.jsonl",
        "line": number + 1,
        "depth": 3,
        "reformulations": 1,
        "verified_before_recommend": True,
        "max_repeat": 1,
        "judge_status": "judged",
        "judge_era": "binned",
        "judge_quality": 0.7,
    }
    return found | changes


def frame(*rows):
    return pl.DataFrame(list(rows), schema=SCHEMA)


def ranked(*rows, caps=(None, None)):
    """Line -> (rank, over)."""
    return {r["line"]: (r["rank"], r["over"]) for r in with_ranks(frame(*rows), *caps).iter_rows(named=True)}


def better(first, second):
    """Whether the first of two rows ranks before the second, whichever way their ids fall."""
    one = ranked(row(0, **first), row(1, **second))
    other = ranked(row(1, **first), row(0, **second))
    return one[1][0] == 1 and other[2][0] == 1


def test_evidence_of_structure_decides_before_the_id():
    assert better({}, {"verified_before_recommend": False})
    assert better({}, {"verified_before_recommend": None})
    assert better({"depth": 4}, {})
    assert better({"reformulations": 2}, {})
    assert better({}, {"max_repeat": 2})
    assert better({"judge_quality": 0.9}, {})
    assert better({}, {"judge_status": "missing", "judge_quality": None})


def test_running_in_circles_ranks_last_however_deep_it_is():
    assert better({"depth": 1, "verified_before_recommend": False}, {"depth": 30, "max_repeat": 12})


def test_depth_beyond_enough_is_no_merit():
    assert better({"depth": 8, "reformulations": 2}, {"depth": 80, "reformulations": 1})


def test_scores_of_another_judge_era_do_not_count():
    assert better({"judge_quality": 0.1}, {"judge_era": "unbinned", "judge_quality": 0.9})


def test_the_cap_of_a_problem_is_named_before_that_of_its_cluster():
    found = ranked(*[row(n, depth=9 - n) for n in range(4)], caps=(2, 1))
    assert found == {
        1: (1, None),
        2: (2, "over_cluster_cap"),
        3: (3, "over_problem_cap"),
        4: (4, "over_problem_cap"),
    }


def test_each_problem_of_a_cluster_keeps_its_best_before_any_keeps_its_second():
    rows = [row(n, problem="much", depth=8) for n in range(5)] + [row(9, problem="little", depth=1)]
    found = ranked(*rows, caps=(5, 2))
    kept = [line for line, (_, over) in found.items() if over is None]
    assert 10 in kept
    assert len(kept) == 2


attempts = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 12), st.booleans(), st.integers(1, 6)), max_size=30
)


def made(found, first=0, order=0):
    return [
        row(
            first + n,
            order=order,
            problem=f"p{problem}",
            cluster=f"c{problem % 2}",
            depth=depth,
            reformulations=reformulations,
            verified_before_recommend=verified,
            max_repeat=repeats,
        )
        for n, (problem, reformulations, depth, verified, repeats) in enumerate(found)
    ]


@given(attempts, attempts, st.integers(1, 4), st.integers(1, 4))
def test_a_later_snapshot_never_moves_or_displaces_a_row_of_an_earlier_one(old, new, problem_cap, cluster_cap):
    before = ranked(*made(old), caps=(problem_cap, cluster_cap))
    after = ranked(*made(old), *made(new, first=100, order=1), caps=(problem_cap, cluster_cap))
    kept = {line: found for line, found in before.items() if found[1] is None}
    assert {line: after[line] for line in kept} == kept


@given(attempts, st.integers(1, 4), st.integers(1, 4), st.randoms())
def test_caps_hold_exactly_and_the_order_of_rows_changes_nothing(found, problem_cap, cluster_cap, random):
    rows = made(found)
    first = ranked(*rows, caps=(problem_cap, cluster_cap))
    random.shuffle(rows)
    assert ranked(*rows, caps=(problem_cap, cluster_cap)) == first
    kept = [r for r in rows if first[r["line"]][1] is None]
    for column, cap in (("problem", problem_cap), ("cluster", cluster_cap)):
        for name in {r[column] for r in rows}:
            assert sum(r[column] == name for r in kept) <= cap
    for name in {r["cluster"] for r in rows}:
        mine = [r for r in rows if r["cluster"] == name]
        under = [r for r in mine if first[r["line"]][0] <= problem_cap]
        assert sum(r["cluster"] == name for r in kept) == min(cluster_cap, len(under))
