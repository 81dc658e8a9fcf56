"""The minimum detectable difference: against statsmodels, and against the power it promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm
from statsmodels.stats.proportion import power_proportions_2indep

from oresmith.errors import OresmithError
from oresmith.evaluation.power import detectable_by_error, detectable_paired, detectable_unpaired


@pytest.mark.parametrize("n", [30, 75, 250, 900])
@pytest.mark.parametrize("share", [0.0, 0.18, 0.427, 0.6])
def test_statsmodels_gives_the_unpaired_difference_its_power(n: int, share: float) -> None:
    gain = detectable_unpaired(n, share)
    assert gain is not None
    power = power_proportions_2indep(gain, share, n, alternative="larger", alpha=0.025).power
    assert power == pytest.approx(0.80, abs=1e-6)


@pytest.mark.parametrize(("n", "discordant"), [(250, 0.2), (250, 0.5), (900, 0.1), (2_000, 0.02)])
def test_the_paired_difference_is_found_in_80_of_100_cases(n: int, discordant: float) -> None:
    """Exact power of McNemar's test with z: over the number of discordant problems, then over who won how many."""
    difference = detectable_paired(n, discordant)
    assert difference is not None
    counts = np.arange(1, n + 1)
    wins = np.arange(n + 1)[:, np.newaxis]
    found = np.abs(2 * wins - counts) >= norm.ppf(0.975) * np.sqrt(counts)
    chance = binom.pmf(wins, counts, (discordant + difference) / (2 * discordant))
    power = (binom.pmf(counts, n, discordant) * (found * chance).sum(axis=0)).sum()
    assert power == pytest.approx(0.80, abs=0.025)


@settings(deadline=None)
@given(st.integers(1, 5_000), st.floats(0.01, 0.99))
def test_more_problems_never_hide_what_fewer_would_show(n: int, share: float) -> None:
    for detectable in (detectable_unpaired, detectable_paired):
        fewer, more = detectable(n, share), detectable(n + 50, share)
        if fewer is not None:
            assert more is not None
            assert 0 < more < fewer


@settings(deadline=None)
@given(st.integers(1, 5_000), st.floats(0.01, 0.99))
def test_no_difference_is_promised_that_cannot_be(n: int, share: float) -> None:
    gain, difference = detectable_unpaired(n, share), detectable_paired(n, share)
    assert gain is None or share + gain <= 1
    assert difference is None or difference <= share


def test_too_few_problems_can_show_nothing() -> None:
    assert detectable_unpaired(0) is None
    assert detectable_unpaired(5, 0.5) is None
    assert detectable_unpaired(1_000, 1.0) is None
    assert detectable_unpaired(30, 0.95) is None
    assert detectable_paired(0, 0.3) is None
    assert detectable_paired(2, 1.0) is None
    assert detectable_paired(10, 0.3) is None
    assert detectable_paired(1_000, 0.0) is None


def test_thirty_problems_cannot_rank_two_checkpoints() -> None:
    assert detectable_unpaired(30, 0.427) == pytest.approx(0.347, abs=0.001)
    assert detectable_paired(30, 0.3) == pytest.approx(0.269, abs=0.001)


def test_an_error_of_one_point_shows_2_8_points() -> None:
    assert detectable_by_error(0.01) == pytest.approx(0.01 * (norm.ppf(0.975) + norm.ppf(0.8)))


@pytest.mark.parametrize("arguments", [(-1, 0.5), (10, -0.1), (10, 1.1), (10, 0.5, 0.0), (10, 0.5, 0.05, 1.0)])
def test_arguments_outside_their_range_are_refused(arguments: tuple[float, ...]) -> None:
    for detectable in (detectable_unpaired, detectable_paired):
        with pytest.raises(OresmithError):
            detectable(*arguments)  # type: ignore[arg-type]
