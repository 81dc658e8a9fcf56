"""Comparisons on the same problems: against statsmodels and SciPy, and how often they are wrong."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import statsmodels.stats.contingency_tables
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.evaluation import bootstrap, paired
from oresmith.evaluation.bootstrap import DIFFERENCE, by_cluster, estimate
from oresmith.evaluation.paired import Samples, compare_paired, mcnemar, swap_test
from oresmith.intervals import Interval, wilson

SIDES = st.integers(0, 60)


def single(solved: list[int]) -> Samples:
    return {f"p{place}": [value] for place, value in enumerate(solved)}


def alone(problems: Samples) -> dict[str, str]:
    return {problem: problem for problem in problems}


def from_table(both: int, only_first: int, only_second: int, neither: int) -> tuple[Samples, Samples]:
    first = [1] * (both + only_first) + [0] * (only_second + neither)
    second = [1] * both + [0] * only_first + [1] * only_second + [0] * neither
    return single(first), single(second)


@settings(deadline=None)
@given(SIDES, SIDES)
def test_statsmodels_finds_the_same_exact_p_value(only_first: int, only_second: int) -> None:
    theirs = statsmodels.stats.contingency_tables.mcnemar([[7, only_first], [only_second, 3]], exact=True)
    assert mcnemar(only_first, only_second) == pytest.approx(theirs.pvalue, rel=1e-9)


def test_thousands_of_discordant_problems_neither_overflow_nor_vanish() -> None:
    theirs = scipy.stats.binomtest(4_800, 10_000).pvalue
    assert mcnemar(4_800, 5_200) == pytest.approx(theirs, rel=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 8), st.integers(0, 8))
def test_swapping_single_trials_is_mcnemars_test(only_first: int, only_second: int) -> None:
    sums = [-1.0] * only_first + [1.0] * only_second + [0.0] * 5
    assert swap_test(sums, seed="test") == pytest.approx(mcnemar(only_first, only_second))


def test_random_swaps_come_near_the_exact_p_value() -> None:
    sums = [-1.0] * 25 + [1.0] * 43
    assert swap_test(sums, seed="test") == pytest.approx(mcnemar(25, 43), abs=0.005)
    # Made once: every machine must meet it to the digit.
    assert swap_test(sums, seed="test") == 0.0388
    assert swap_test([1.0] * 100, seed="test") == 1 / 20_000


def test_scipy_swaps_the_same_clusters_to_the_same_p_value() -> None:
    sums = np.random.default_rng(1).normal(0.4, 1.0, 12)
    theirs = scipy.stats.permutation_test(
        (sums, np.zeros(12)), lambda x, y, axis: (x - y).sum(axis=axis), permutation_type="samples", vectorized=True
    )
    assert swap_test(sums, seed="test") == pytest.approx(theirs.pvalue)


def test_equally_good_models_are_told_apart_in_at_most_5_of_100_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "SWAPS", 1_999)
    rng = np.random.default_rng(2)
    false_claims = 0
    for number in range(1_000):
        chances = rng.beta(1, 1, 30)
        sums = rng.binomial(4, chances) / 4 - rng.binomial(4, chances) / 4
        false_claims += swap_test(sums, seed=str(number)) <= 0.05
    assert 30 <= false_claims <= 64


@pytest.mark.parametrize(("clusters", "worse"), [(40, 0.8), (75, 0.5), (75, 1.0)])
def test_intervals_cover_a_known_difference_in_93_to_97_of_100_comparisons(
    clusters: int, worse: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripted policies, four samples: where the second succeeds with chance p, the first does with `worse` p."""
    monkeypatch.setattr(bootstrap, "REPLICATES", bootstrap.FEWEST_REPLICATES)
    rng = np.random.default_rng(3)
    labels = [str(place) for place in range(clusters)]
    held = 0
    for number in range(1_000):
        chances = rng.beta(1, 1, clusters)
        differences = (rng.binomial(4, chances) - rng.binomial(4, worse * chances)) / 4
        found = estimate(by_cluster(differences, labels), seed=str(number), limits=DIFFERENCE, skewed=False)
        assert found.bounds is not None
        held += found.bounds.low <= 0.5 - 0.5 * worse <= found.bounds.high
    assert 930 <= held <= 970


def test_single_trials_of_lone_problems_are_compared_by_mcnemar() -> None:
    first, second = from_table(both=20, only_first=5, only_second=17, neither=33)
    found = compare_paired(first, second, alone(first), seed="test")
    assert (found.n, found.clusters, found.only_first, found.only_second) == (75, 75, 5, 17)
    assert (found.first, found.second, found.difference) == (0.333333, 0.493333, 0.16)
    assert (found.test, found.p, found.method) == ("mcnemar", mcnemar(5, 17), "percentile")
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < 0.16 < found.high < 0.35
    assert found.error == pytest.approx(np.std([-1] * 5 + [0] * 53 + [1] * 17, ddof=1) / 75**0.5, abs=1e-6)
    assert found.detectable == pytest.approx(2.8016 * found.error, abs=1e-4)


def test_problems_of_a_cluster_or_several_samples_are_not_taken_for_independent() -> None:
    first, second = from_table(both=20, only_first=5, only_second=17, neither=33)
    in_threes = {problem: str(place // 3) for place, problem in enumerate(first)}
    found = compare_paired(first, second, in_threes, seed="test")
    assert (found.test, found.clusters, found.only_second) == ("swaps", 25, 17)
    lone = compare_paired(first, second, alone(first), seed="test")
    assert found.p > 2 * lone.p
    assert found.error > 1.3 * lone.error  # type: ignore[operator]
    often = compare_paired(
        {problem: [*values, 0] for problem, values in first.items()},
        {problem: [*values, 0] for problem, values in second.items()},
        alone(first),
        seed="test",
    )
    assert (often.test, often.only_first, often.difference) == ("swaps", None, 0.08)


def test_pairing_shows_what_two_single_intervals_hide() -> None:
    first, second = from_table(both=30, only_first=1, only_second=11, neither=33)
    found = compare_paired(first, second, alone(first), seed="test")
    assert found.p < 0.01
    assert found.low is not None
    assert found.low > 0
    assert wilson(31, 75)[1] > wilson(41, 75)[0]  # type: ignore[index]


def test_turning_the_models_around_turns_the_difference_around() -> None:
    first, second = from_table(both=20, only_first=5, only_second=17, neither=33)
    there, back = (compare_paired(*pair, alone(first), seed="test") for pair in ((first, second), (second, first)))
    assert back.difference == pytest.approx(-there.difference)  # type: ignore[operator]
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=0.02)  # type: ignore[operator]
    assert (back.p, back.error) == (there.p, there.error)


def test_models_that_never_differ_may_still_differ() -> None:
    first, _ = from_table(both=32, only_first=0, only_second=0, neither=43)
    found = compare_paired(first, first, alone(first), seed="test")
    assert (found.difference, found.p, found.detectable) == (0.0, 1.0, None)
    assert (found.low, found.high) == pytest.approx((-0.0487, 0.0487), abs=1e-4)
    wide = compare_paired(first, first, alone(first), seed="test", limits=Interval(0, 10))
    assert (wide.low, wide.high) == pytest.approx((-0.487, 0.487), abs=1e-3)


def test_unbounded_scores_are_compared_too() -> None:
    rng = np.random.default_rng(4)
    turns = {f"p{place}": rng.poisson(9, 3).tolist() for place in range(40)}
    longer = {problem: [value + 2 for value in values] for problem, values in turns.items()}
    longer["p0"] = [value + 5 for value in turns["p0"]]
    found = compare_paired(turns, longer, alone(turns), seed="test", limits=None)
    assert found.difference == pytest.approx(2.075)
    assert found.p == 1 / 20_000
    assert found.only_first is None


def test_the_order_of_problems_does_not_matter() -> None:
    first, second = from_table(both=8, only_first=5, only_second=9, neither=8)
    clusters = {problem: str(place // 2) for place, problem in enumerate(first)}
    turned = dict(reversed(first.items()))
    assert compare_paired(first, second, clusters, seed="x") == compare_paired(turned, second, clusters, seed="x")


def test_nothing_compared_says_nothing() -> None:
    found = compare_paired({}, {}, {}, seed="test")
    assert (found.n, found.difference, found.low, found.p) == (0, None, None, 1.0)


@pytest.mark.parametrize(
    ("first", "second", "clusters", "message"),
    [
        ({"a": [1]}, {"b": [1]}, {"a": "a", "b": "b"}, "not given the same problems"),
        ({"a": [1], "b": [1]}, {"a": [1]}, {"a": "a", "b": "b"}, "not given the same problems"),
        ({"a": [1]}, {"a": [1]}, {}, "without a leak cluster"),
        ({"a": []}, {"a": [1]}, {"a": "a"}, "without samples"),
        ({"a": [1.5]}, {"a": [1]}, {"a": "a"}, "outside its limits"),
        ({"a": [float("nan")]}, {"a": [1]}, {"a": "a"}, "no mean of such values"),
    ],
)
def test_what_cannot_be_paired_is_refused(
    first: Samples, second: Samples, clusters: dict[str, str], message: str
) -> None:
    with pytest.raises(OresmithError, match=message):
        compare_paired(first, second, clusters, seed="test")


def test_negative_counts_are_refused() -> None:
    with pytest.raises(OresmithError):
        mcnemar(-1, 3)
