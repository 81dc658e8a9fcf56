"""The smallest true difference between two models that n problems are likely to show.

Normal approximations for a two-sided test at `alpha` that finds the difference with probability `power`. The n are
independent problems: count leak clusters, not the samples or wordings in them.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

from oresmith.errors import OresmithError
from oresmith.intervals import two_sided_z

ALPHA, POWER = 0.05, 0.80
_HALVINGS = 60


def detectable_unpaired(n: int, share: float = 0.5, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest gain over a success rate that two evaluations on different problems can show.

    The d with d sqrt(n) = z_(1 - alpha/2) sqrt(2 m (1 - m)) + z_power sqrt(p (1 - p) + q (1 - q)), where p is the rate,
    q = p + d and m their mean (Fleiss 1981, "Statistical Methods for Rates and Proportions", without continuity
    correction).

    Args:
        n: problems in each evaluation.
        share: success rate of the weaker model, 0..1.
        alpha: chance of a claim where there is no difference.
        power: chance of finding the difference.

    Returns:
        A difference of shares; None where n is too small to show even a rise to 1.

    Raises:
        OresmithError: an argument is outside its range.
    """
    z_alpha, z_power = _quantiles(n, alpha, power)
    _share(share, "share")

    def lacking(gain: float) -> float:
        other, middle = share + gain, share + gain / 2
        spread = sqrt(max(share * (1 - share) + other * (1 - other), 0.0))
        return z_alpha * sqrt(2 * middle * (1 - middle)) + z_power * spread - gain * sqrt(n)

    low, high = 0.0, 1.0 - share
    if n == 0 or high == 0 or lacking(high) > 0:
        return None
    # `lacking` is concave and not negative at 0, so it changes sign once.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if lacking(middle) > 0 else (low, middle)
    return high


def detectable_paired(n: int, discordant: float, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest difference that two models on the same problems, one sample each, can show by McNemar's test.

    The d with d sqrt(n) = z_(1 - alpha/2) sqrt(s) + z_power sqrt(s - d^2), s being the share of problems that just one
    of the two solves (Connor 1987, "Sample Size for Testing Differences in Proportions for the Paired-Sample
    Design"), solved for d. The exact test asks for somewhat more where n s is below 30.

    Args:
        n: problems.
        discordant: share of problems that just one of the models solves, 0..1. For a plan without data take
            2 p (1 - p), that of models of success rate p that have nothing in common; checkpoints of a model have less.
        alpha: chance of a claim where there is no difference.
        power: chance of finding the difference.

    Returns:
        A difference of shares; None where it would be more than the models differ at all: n is too small.

    Raises:
        OresmithError: an argument is outside its range.
    """
    z_alpha, z_power = _quantiles(n, alpha, power)
    _share(discordant, "discordant")
    under_root = n + z_power**2 - z_alpha**2
    if n == 0 or under_root < 0:
        return None
    found = sqrt(discordant) * (z_alpha * sqrt(n) + z_power * sqrt(under_root)) / (n + z_power**2)
    return found if 0 < found <= discordant else None


def detectable_by_error(error: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest difference that a comparison with this standard error can show: (z_(1 - alpha/2) + z_power) error.

    Args:
        error: standard error of the difference, as `paired.Comparison` states it; for two evaluations on different
            problems the root of the sum of their squared errors.
        alpha: chance of a claim where there is no difference.
        power: chance of finding the difference.

    Raises:
        OresmithError: an argument is outside its range.
    """
    z_alpha, z_power = _quantiles(0, alpha, power)
    return (z_alpha + z_power) * error


def _quantiles(n: int, alpha: float, power: float) -> tuple[float, float]:
    if n < 0:
        raise OresmithError("no such number of problems", expected="0 or more", got=str(n))
    if not 0.5 <= power < 1:
        raise OresmithError("no such power", expected="a number from 0.5 to below 1", got=repr(power)[:40])
    return two_sided_z(1 - alpha), NormalDist().inv_cdf(power)


def _share(value: float, name: str) -> None:
    if not 0 <= value <= 1:
        raise OresmithError(f"`{name}` is no share", expected="0 to 1", got=repr(value)[:40])
