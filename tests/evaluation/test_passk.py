"""pass@k and pass^k against every draw of k samples, one by one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.evaluation.means import rate_of
from oresmith.evaluation.passk import pass_all_k, pass_at_k, pass_curves

SOLVED = st.lists(st.booleans(), min_size=1, max_size=9)


@settings(deadline=None)
@given(SOLVED, st.data())
def test_both_are_the_shares_of_all_draws(solved: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(solved)))
    draws = list(combinations(solved, k))
    successes, samples = [sum(solved)], [len(solved)]
    assert pass_at_k(successes, samples, k)[0] == pytest.approx(np.mean([any(draw) for draw in draws]))
    assert pass_all_k(successes, samples, k)[0] == pytest.approx(np.mean([all(draw) for draw in draws]))


def test_the_published_form_holds_for_many_samples_without_overflow() -> None:
    """1 - C(n - c, k) / C(n, k) in exact integers, far beyond what a float holds."""
    from fractions import Fraction
    from math import comb

    n, c, k = 5_000, 40, 2_000
    missed = 1.0 - pass_at_k([c], [n], k)[0]
    assert missed == pytest.approx(float(Fraction(comb(n - c, k), comb(n, k))), rel=1e-6)


def test_always_and_never_are_exact() -> None:
    assert pass_at_k([8, 0], [8, 8], 3).tolist() == [1.0, 0.0]
    all_of = pass_all_k([8, 0, 2], [8, 8, 8], 4)
    assert all_of.tolist() == [1.0, 0.0, 0.0]
    assert not np.signbit(all_of).any()


def test_each_problem_may_have_samples_of_its_own_number() -> None:
    assert pass_at_k([1, 1], [2, 4], 2).tolist() == pytest.approx([1.0, 0.5])


def test_the_curve_starts_at_the_rate_and_parts_from_there() -> None:
    rng = np.random.default_rng(3)
    successes, clusters = rng.binomial(8, rng.beta(1, 1, 40)), [str(place) for place in range(40)]
    curve = pass_curves(successes, [8] * 40, clusters, seed="test")
    assert [point.k for point in curve] == [1, 2, 4, 8]
    share = rate_of(successes, [8] * 40, clusters, seed="test").share
    assert curve[0].pass_at.value == curve[0].pass_all.value == share
    at = [point.pass_at.value for point in curve]
    every = [point.pass_all.value for point in curve]
    assert at == sorted(at)  # type: ignore[type-var]
    assert every == sorted(every, reverse=True)  # type: ignore[type-var]
    for point in curve:
        for mean in (point.pass_at, point.pass_all):
            assert mean.low is not None
            assert mean.value is not None
            assert mean.high is not None
            assert 0 <= mean.low < mean.value < mean.high <= 1


def test_one_sample_of_independent_problems_gives_the_interval_of_their_rate() -> None:
    successes, clusters = [1] * 32 + [0] * 43, [str(place) for place in range(75)]
    (point,) = pass_curves(successes, [1] * 75, clusters, seed="test")
    assert (point.pass_at.low, point.pass_at.high) == (0.321007, 0.539472)
    assert point.pass_at.method == "wilson"


def test_the_fewest_samples_of_a_problem_bound_the_curve() -> None:
    curve = pass_curves([3, 2], [6, 5], ["a", "b"], seed="test")
    assert [point.k for point in curve] == [1, 2, 4, 5]
    assert pass_curves([], [], [], seed="test") == []


@pytest.mark.parametrize("k", [0, -1, 6])
def test_a_k_that_some_problem_has_no_samples_for_is_refused(k: int) -> None:
    with pytest.raises(OresmithError, match="no such k"):
        pass_at_k([3, 2], [8, 5], k)


@pytest.mark.parametrize(
    ("successes", "samples"),
    [([3], [2]), ([-1], [2]), ([0], [0]), ([0.5], [2]), ([1, 1], [2]), ([float("nan")], [2]), ([1], [float("inf")])],
)
def test_what_are_no_counts_is_refused(successes: list[float], samples: list[float]) -> None:
    with pytest.raises(OresmithError):
        pass_all_k(successes, samples, 1)
