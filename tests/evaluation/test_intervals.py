"""Wilson's interval against published values, SciPy and statsmodels, and what it covers."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from statsmodels.stats.proportion import proportion_confint

from oresmith.errors import OresmithError
from oresmith.intervals import Rate, rate, wilson

COUNTS = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
TABLE = {"product": (19, 28), "shop": (7, 24), "voucher": (6, 23)}
"""Successes and problems of the published model, by category."""


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (32, 75, 32.1, 53.9),
        # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3.
        (81, 263, 25.53, 36.62),
        (15, 148, 6.24, 16.05),
        (0, 20, 0.0, 16.11),
        (1, 29, 0.61, 17.18),
    ],
)
def test_published_intervals_are_met(k: int, n: int, low: float, high: float) -> None:
    found = wilson(k, n)
    assert found is not None
    digits = 1 if n == 75 else 2
    assert (round(100 * found.low, digits), round(100 * found.high, digits)) == (low, high)


def test_the_published_table_follows_from_its_counts() -> None:
    rates = {name: rate(k, n) for name, (k, n) in TABLE.items()}
    total = rate(sum(k for k, _ in TABLE.values()), sum(n for _, n in TABLE.values()))
    assert {name: str(found) for name, found in rates.items()} == {
        "product": "19/28 = 67.9% [49.3, 82.1]",
        "shop": "7/24 = 29.2% [14.9, 49.2]",
        "voucher": "6/23 = 26.1% [12.5, 46.5]",
    }
    assert str(total) == "32/75 = 42.7% [32.1, 53.9]"
    assert total.low is not None
    assert total.high is not None
    assert all(total.low < published < total.high for published in (0.348, 0.436, 0.487))


@settings(deadline=None)
@given(COUNTS, st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_scipy_and_statsmodels_find_the_same_ends(counts: tuple[int, int], level: float) -> None:
    k, n = counts
    theirs = binomtest(k, n).proportion_ci(level, method="wilson")
    assert wilson(k, n, level) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert wilson(k, n, level) == pytest.approx(proportion_confint(k, n, 1 - level, method="wilson"), abs=1e-12)


@settings(deadline=None)
@given(COUNTS)
def test_an_interval_is_never_empty_and_holds_its_rate(counts: tuple[int, int]) -> None:
    k, n = counts
    low, high = wilson(k, n)  # type: ignore[misc]
    assert 0 <= low <= k / n <= high <= 1
    assert low < high


@settings(deadline=None)
@given(st.integers(1, 10_000))
def test_always_and_never_are_bounded_on_the_open_side_only(n: int) -> None:
    always, never = rate(n, n), rate(0, n)
    assert always.high == 1
    assert always.low is not None
    assert 0 < always.low < 1
    assert never.low == 0
    assert never.high is not None
    assert 0 < never.high < 1


def test_nothing_tried_says_nothing() -> None:
    assert wilson(0, 0) is None
    assert msgspec.to_builtins(rate(0, 0)) == {"k": 0, "n": 0, "share": None, "low": None, "high": None}
    assert str(rate(0, 0)) == "0/0"


def test_a_rate_comes_back_from_its_json() -> None:
    made = rate(32, 75)
    assert msgspec.json.encode(made) == b'{"k":32,"n":75,"share":0.426667,"low":0.321007,"high":0.539472}'
    assert msgspec.json.decode(msgspec.json.encode(made), type=Rate) == made


@pytest.mark.parametrize(("k", "n", "level"), [(-1, 5, 0.95), (6, 5, 0.95), (0, -1, 0.95), (1, 5, 0.0), (1, 5, 1.0)])
def test_impossible_counts_and_levels_are_refused(k: int, n: int, level: float) -> None:
    with pytest.raises(OresmithError):
        wilson(k, n, level)


@pytest.mark.parametrize(("n", "skill"), [(28, 0.679), (75, 0.427), (75, 0.8), (200, 0.1), (250, 0.35), (900, 0.18)])
def test_intervals_cover_a_known_skill_in_93_to_97_of_100_evaluations(n: int, skill: float) -> None:
    successes = np.random.default_rng(n).binomial(n, skill, size=1_000)
    ends = np.array([wilson(int(k), n) for k in successes])
    assert 0.93 <= ((ends[:, 0] <= skill) & (skill <= ends[:, 1])).mean() <= 0.97


@pytest.mark.parametrize("n", [10, 30, 75, 250])
def test_over_all_skills_the_coverage_is_what_it_says(n: int) -> None:
    """Exact, without simulation: single skills swing around 95%, their mean may not."""
    ends = np.array([wilson(k, n) for k in range(n + 1)])
    skills = np.linspace(0.0005, 0.9995, 1_000)
    covered = [
        binom.pmf(np.arange(n + 1), n, skill)[(ends[:, 0] <= skill) & (skill <= ends[:, 1])].sum() for skill in skills
    ]
    assert 0.95 <= np.mean(covered) <= 0.956
    assert min(covered) > 0.83
