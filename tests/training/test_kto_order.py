"""The order in which KTO sees its rows, the weights of its classes, and which trajectories a limit takes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.training.kto_collate import class_weights, run_order
from oresmith.training.kto_rows import Trajectory, balanced
from oresmith.training.rowset import TrainingRow

counts = st.integers(1, 60)


@given(counts, counts)
def test_weighted_counts_are_within_one_to_one_and_four_to_three(good, bad):
    weights = class_weights(good, bad)
    assert 1 <= good * weights.desirable / (bad * weights.undesirable) <= 4 / 3
    assert good * weights.desirable + bad * weights.undesirable == pytest.approx(good + bad)


@given(st.integers(1, 10**7), st.integers(1, 10**7))
def test_weights_keep_to_the_advice_whatever_the_counts(good, bad):
    weights = class_weights(good, bad)
    assert 1 <= good * weights.desirable / (bad * weights.undesirable) <= 4 / 3


def bare(number, problem):
    return TrainingRow(
        row_id=f"row {number}", turn=2, origin="corpus", problem=problem, cluster="", category="", ids=[1], mask=[1]
    )


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=40), st.integers(0, 9), counts)
def test_an_order_takes_every_row_once_before_any_twice_and_is_the_same_again(kinds, seed, count):
    rows = [bare(number, f"problem {problem}") for number, (_, problem) in enumerate(kinds)]
    labels = [label for label, _ in kinds]
    order = run_order(rows, labels, seed=seed, count=count, microbatch=4)
    assert len(order) == count
    for start in range(0, count, len(rows)):
        epoch = order[start : start + len(rows)]
        assert len(set(epoch)) == len(epoch)
    assert order == run_order(rows, labels, seed=seed, count=count, microbatch=4)


@given(counts, st.integers(0, 9))
def test_successes_and_failures_alternate_where_there_are_as_many(each, seed):
    rows = [bare(number, f"problem {number}") for number in range(2 * each)]
    labels = [number < each for number in range(2 * each)]
    order = run_order(rows, labels, seed=seed, count=5 * each, microbatch=2)
    assert all(labels[a] != labels[b] for a, b in pairwise(order))


@given(counts, counts, st.integers(2, 8))
def test_the_rarer_class_is_spread_evenly(good, bad, window):
    rows = [bare(number, f"problem {number}") for number in range(good + bad)]
    labels = [number < good for number in range(good + bad)]
    order = run_order(rows, labels, seed=1, count=good + bad, microbatch=2)
    for start in range(len(order) - window + 1):
        found = sum(labels[place] for place in order[start : start + window])
        assert abs(found - window * good / (good + bad)) < 1 + 1e-9


def test_rows_of_one_problem_are_not_paired_where_others_are_near():
    rows = [bare(number, f"problem {number // 4}") for number in range(40)]
    order = run_order(rows, [number % 2 == 0 for number in range(40)], seed=3, count=36, microbatch=2)
    assert all(rows[a].problem != rows[b].problem for a, b in zip(order[::2], order[1::2], strict=True))


def test_another_seed_gives_another_order():
    rows = [bare(number, f"problem {number}") for number in range(20)]
    labels = [number % 2 == 0 for number in range(20)]
    one, other = (run_order(rows, labels, seed=seed, count=20, microbatch=2) for seed in (1, 2))
    assert one != other


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40), st.integers(0, 40))
def test_a_smaller_limit_takes_a_part_of_what_a_larger_one_takes_and_both_classes(kinds, limit):
    found = [Trajectory(f"row {n}", f"problem {problem}", success) for n, (success, problem) in enumerate(kinds)]
    order = balanced(found)
    assert sorted(order) == sorted(one.row_id for one in found)
    assert order == balanced(reversed(found))
    success = {one.row_id: one.success for one in found}
    taken = [success[name] for name in order[:limit]]
    rarest = min(sum(success.values()), len(success) - sum(success.values()))
    assert min(sum(taken), len(taken) - sum(taken)) >= min(len(taken) // 2, rarest)
