"""Means over clusters: against SciPy and statsmodels, what their intervals cover, and that they repeat."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest
import scipy.stats
import statsmodels.api
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.evaluation import bootstrap
from oresmith.evaluation.bootstrap import DIFFERENCE, SHARE, Estimate, by_cluster, estimate, t_quantile
from oresmith.evaluation.means import mean_of, rate_of
from oresmith.intervals import wilson


class Policy(NamedTuple):
    """A scripted model of known skill: its chance is drawn once a cluster and shared by all samples of the cluster."""

    skill: float
    evenness: float
    """Sum of the parameters of the beta distribution that chances come from: small makes clusters all or nothing."""
    samples: int
    largest: int
    """Problems of a cluster: 1 to this many."""

    def evaluated(self, clusters: int, rng: np.random.Generator) -> bootstrap.Clusters:
        sizes = rng.integers(1, self.largest + 1, clusters) * self.samples
        chances = rng.beta(self.skill * self.evenness, (1 - self.skill) * self.evenness, clusters)
        return by_cluster(rng.binomial(sizes, chances), [str(place) for place in range(clusters)], sizes)


def coverage(policy: Policy, clusters: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Share of 1,000 evaluations whose interval holds the skill."""
    # As many resamples as the largest evaluations get.
    monkeypatch.setattr(bootstrap, "REPLICATES", bootstrap.FEWEST_REPLICATES)
    rng = np.random.default_rng(1)
    held = 0
    for number in range(1_000):
        bounds = estimate(policy.evaluated(clusters, rng), seed=str(number), limits=SHARE).bounds
        assert bounds is not None
        held += bounds.low <= policy.skill <= bounds.high
    return held / 1_000


@pytest.mark.parametrize(
    ("policy", "clusters"),
    [
        (Policy(0.43, 2, samples=1, largest=3), 60),
        (Policy(0.43, 2, samples=8, largest=1), 75),
        (Policy(0.15, 2, samples=4, largest=1), 50),
        (Policy(0.85, 1, samples=4, largest=2), 75),
        (Policy(0.5, 5, samples=8, largest=12), 30),
    ],
)
def test_intervals_of_correlated_cases_cover_a_known_skill_in_93_to_97_of_100_evaluations(
    policy: Policy, clusters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0.93 <= coverage(policy, clusters, monkeypatch) <= 0.97


@pytest.mark.parametrize("clusters", [1, 2, 5, 9, 10, 15])
def test_with_few_clusters_intervals_are_rather_too_wide(clusters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert coverage(Policy(0.43, 2, samples=8, largest=2), clusters, monkeypatch) >= 0.94


def test_counting_correlated_samples_as_independent_would_cover_far_less() -> None:
    policy, rng, held = Policy(0.43, 2, samples=8, largest=1), np.random.default_rng(4), 0
    for _ in range(1_000):
        data = policy.evaluated(75, rng)
        low, high = wilson(int(data.sums.sum()), int(data.sizes.sum()))  # type: ignore[misc]
        held += low <= policy.skill <= high
    assert held < 800


def test_scipy_finds_the_same_ends_where_clusters_are_many() -> None:
    values = np.random.default_rng(5).gamma(2.0, 3.0, 400)
    bounds = estimate(by_cluster(values, [str(place) for place in range(400)]), seed="test").bounds
    assert bounds is not None
    theirs = scipy.stats.bootstrap((values,), np.mean, n_resamples=9_999, method="BCa", rng=6).confidence_interval
    error = values.std(ddof=1) / 20
    assert abs(bounds.low - theirs.low) < 0.1 * error
    assert abs(bounds.high - theirs.high) < 0.1 * error


def test_statsmodels_finds_the_same_error_between_clusters() -> None:
    rng = np.random.default_rng(7)
    groups = rng.integers(0, 25, 120)
    values = rng.normal(groups, 4.0)
    theirs = statsmodels.api.OLS(values, np.ones(120)).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": True}
    )
    found = estimate(by_cluster(values, [str(group) for group in groups]), seed="test")
    assert found.value == pytest.approx(theirs.params[0])
    assert found.error == pytest.approx(theirs.bse[0])


@pytest.mark.parametrize("freedom", [9, 12, 30, 1_000])
def test_the_t_quantile_is_scipys(freedom: int) -> None:
    for level, tolerance in ((0.8, 2e-5), (0.95, 2e-5), (0.99, 2e-4)):
        assert t_quantile(level, freedom) == pytest.approx(scipy.stats.t.ppf((1 + level) / 2, freedom), abs=tolerance)


def test_the_same_seed_gives_the_same_ends_on_every_machine() -> None:
    """The figures were made once; another machine or release of NumPy must meet them to the digit."""
    values = [(place * place % 17) / 16 for place in range(40)]
    clusters = [f"c{place // 2}" for place in range(40)]
    found = mean_of(values, clusters, seed="golden", limits=SHARE)
    assert (found.value, found.low, found.high, found.error) == (0.484375, 0.339062, 0.617188, 0.067158)
    assert mean_of(values, clusters, seed="another", limits=SHARE) != found


def test_neither_the_order_of_problems_nor_the_names_of_clusters_matter() -> None:
    """To the last bit, since sums, too, are made in an order of their own."""
    rows = [(place * 7 % 11 / 10, f"c{place % 15}") for place in range(120)]
    renamed = [(value, f"c{97 - int(label[1:])}") for value, label in random.Random(1).sample(rows, len(rows))]
    tables = (by_cluster(*zip(*table, strict=True)) for table in (rows, renamed))
    one, two = (estimate(data, seed="test", limits=SHARE) for data in tables)
    assert one == two


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), min_size=1, max_size=80),
    st.sampled_from([0.8, 0.95, 0.99]),
)
def test_an_interval_of_shares_holds_its_mean_and_stays_a_share(rows: list[tuple[int, int]], level: float) -> None:
    found = mean_of(
        [successes / 4 for successes, _ in rows], [str(c) for _, c in rows], seed="test", limits=SHARE, level=level
    )
    assert found.low is not None
    assert found.value is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


@pytest.mark.parametrize("clusters", [1, 3, 12, 75])
@pytest.mark.parametrize("samples", [1, 8])
@pytest.mark.parametrize("largest", [1, 3])
def test_a_policy_that_always_or_never_succeeds_is_bounded_on_the_open_side_only(
    clusters: int, samples: int, largest: int
) -> None:
    labels = [str(cluster) for cluster in range(clusters) for _ in range(1 + cluster % largest)]
    problems = len(labels)
    always = rate_of([samples] * problems, [samples] * problems, labels, seed="test")
    never = rate_of([0] * problems, [samples] * problems, labels, seed="test")
    assert always.high == 1
    assert always.low is not None
    assert 0 < always.low < 1
    assert (never.low, never.high) == (0, pytest.approx(1 - always.low, abs=2e-6))


def test_independent_trials_get_wilsons_interval_and_correlated_ones_do_not() -> None:
    successes, alone = [1] * 32 + [0] * 43, [str(place) for place in range(75)]
    independent = rate_of(successes, [1] * 75, alone, seed="test")
    assert (independent.method, independent.low, independent.high) == ("wilson", 0.321007, 0.539472)
    pairs = rate_of(successes, [1] * 75, [str(place // 2) for place in range(75)], seed="test")
    assert (pairs.method, pairs.share) == ("bca", independent.share)
    assert pairs.high - pairs.low > 1.2 * (independent.high - independent.low)  # type: ignore[operator]


def test_samples_of_problems_that_are_all_or_nothing_count_once() -> None:
    """A greedy model's eight equal samples say no more than one of them."""
    alone = [str(place) for place in range(75)]
    once = rate_of([1] * 32 + [0] * 43, [1] * 75, alone, seed="test")
    eight = rate_of([8] * 32 + [0] * 43, [8] * 75, alone, seed="test")
    assert (eight.k, eight.n) == (256, 600)
    assert (eight.share, eight.low, eight.high) == (once.share, once.low, once.high)


def test_both_ends_leave_equally_many_resamples_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_resample", lambda data, seed: np.arange(1, 1_000) / 1_000)
    data = by_cluster(np.arange(10_000) % 2 * 1.0, [str(place) for place in range(10_000)], [2] * 10_000)
    assert estimate(data, seed="test", skewed=False).bounds == (0.024, 0.976)


def test_two_equal_clusters_say_no_more_than_two_trials() -> None:
    found = mean_of([0.5, 0.5], ["a", "b"], seed="test", limits=SHARE)
    assert (found.low, found.high, found.method) == (*(round(end, 6) for end in wilson(1, 2)), "bound")  # type: ignore[union-attr]


def test_a_clusters_problems_weigh_by_their_number() -> None:
    found = mean_of([1.0, 0.0, 0.0, 0.0], ["a", "b", "b", "b"], seed="test", limits=SHARE)
    assert (found.value, found.n, found.clusters) == (0.25, 4, 2)


def test_turns_of_few_clusters_or_all_alike_are_stated_without_an_interval() -> None:
    few = mean_of([3.0, 5.0], ["a", "b"], seed="test")
    assert (few.value, few.low, few.high, few.method) == (4.0, None, None, "none")
    alike = mean_of([5.0] * 75, [str(place) for place in range(75)], seed="test")
    assert (alike.value, alike.low, alike.high, alike.error) == (5.0, None, None, 0.0)


def test_no_problem_gives_no_mean_and_no_rate() -> None:
    assert estimate(by_cluster([], []), seed="test", limits=SHARE) == Estimate(None, None, None, "none")
    nothing = rate_of([], [], [], seed="test")
    assert (nothing.k, nothing.n, nothing.share, nothing.low) == (0, 0, None, None)


def test_differences_that_never_show_are_not_said_to_be_none() -> None:
    bounds = estimate(by_cluster([0.0] * 75, [str(place) for place in range(75)]), seed="test", limits=DIFFERENCE)
    assert bounds.bounds == pytest.approx((-0.0487, 0.0487), abs=1e-4)


def test_large_evaluations_get_fewer_resamples_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    picks = bootstrap._picks

    def counted(count: int, replicates: int, seed: str):  # type: ignore[no-untyped-def]
        for chunk in picks(count, replicates, seed):
            drawn.append(chunk.shape)
            yield chunk

    monkeypatch.setattr(bootstrap, "_picks", counted)
    values = np.random.default_rng(8).random(20_000)
    estimate(by_cluster(values, [str(place) for place in range(20_000)]), seed="test")
    assert sum(columns for _, columns in drawn) == bootstrap.FEWEST_REPLICATES
    assert max(rows * columns for rows, columns in drawn) <= 2_000_000


@pytest.mark.parametrize(
    ("values", "labels", "limits"),
    [
        ([0.5], ["a", "b"], SHARE),
        ([[0.5]], ["a"], SHARE),
        ([float("nan")], ["a"], SHARE),
        ([float("inf")], ["a"], None),
        ([1.5], ["a"], SHARE),
        ([-0.5], ["a"], SHARE),
    ],
)
def test_values_that_have_no_such_mean_are_refused(values: list[float], labels: list[str], limits: object) -> None:
    with pytest.raises(OresmithError):
        mean_of(values, labels, seed="test", limits=limits)  # type: ignore[arg-type]
