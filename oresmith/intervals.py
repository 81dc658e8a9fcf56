"""A rate and the interval that n independent trials leave for it.

Stands above every part that states a rate, so that audits, evaluations and cards cannot disagree about one.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

from oresmith.errors import OresmithError
from oresmith.records import Record

LEVEL = 0.95
"""Confidence of every interval unless another is asked for."""
DIGITS = 6
"""Decimals of a stored share: finer than any n here can tell apart, coarser than what machines differ by."""


class Interval(NamedTuple):
    """Both ends of a confidence interval, in the unit of what it bounds."""

    low: float
    high: float


class Rate(Record, frozen=True):
    """`k` of `n`. Without any case nothing is known of the share: it is null then, never 0 or 1."""

    k: int
    n: int
    share: float | None
    """k / n."""
    low: float | None
    """Lower end of the interval, as a fraction; null where there are too few cases to bound anything."""
    high: float | None
    method: str = "wilson"
    """`wilson`: the n cases are independent; otherwise how cases that depend on each other were treated
    (`oresmith.evaluation.bootstrap.METHODS`)."""

    def __str__(self) -> str:
        """As a table shows it: `32/75 = 42.7% [32.1, 53.9]`."""
        if self.share is None:
            return f"{self.k}/{self.n}"
        text = f"{self.k}/{self.n} = {100 * self.share:.1f}%"
        if self.low is None or self.high is None:
            return text
        return f"{text} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def rate(k: int, n: int, level: float = LEVEL) -> Rate:
    """The share of k among n independent cases, with Wilson's interval, rounded to `DIGITS`.

    Args:
        k: hits.
        n: cases that do not depend on each other: one sample of each problem, no two problems of one leak cluster.
        level: confidence.

    Raises:
        OresmithError: as `wilson`.
    """
    return rate_within(k, n, wilson(k, n, level))


def rate_within(k: int, n: int, bounds: Interval | None, method: str = "wilson") -> Rate:
    """The record of k among n with bounds that were found elsewhere, rounded to `DIGITS`."""
    share = round(k / n, DIGITS) if n else None
    low, high = (None, None) if bounds is None else (round(bounds.low, DIGITS), round(bounds.high, DIGITS))
    return Rate(k=k, n=n, share=share, low=low, high=high, method=method)


def wilson(k: int, n: int, level: float = LEVEL) -> Interval | None:
    """Wilson's score interval for a binomial proportion, without continuity correction.

    With z the normal quantile of the level: the shares p with (k/n - p)^2 <= z^2 p (1 - p) / n, so from centre
    (k + z^2/2) / (n + z^2) by z / (n + z^2) * sqrt(k (n - k) / n + z^2/4) to both sides. It covers the truth about as
    often as it says; single pairs of n and truth swing around that (at 95%, down to 79% for n = 1 and to 84% for rare
    events in many trials).
    Source: E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22 (1927).

    Args:
        k: hits, 0..n.
        n: independent cases.
        level: confidence, between 0 and 1.

    Returns:
        Ends as fractions in [0, 1], exactly 0 for k = 0 and exactly 1 for k = n; None for n = 0.

    Raises:
        OresmithError: k is not within 0..n, or the level not between 0 and 1.
    """
    if not 0 <= k <= n:
        raise OresmithError("no such rate", expected="0 <= k <= n", got=f"{k} of {n}")
    return score_interval(k, n, two_sided_z(level)) if n else None


def score_interval(k: float, n: float, z: float) -> Interval:
    """`wilson` for counts that need not be whole, such as an effective number of cases.

    Args:
        k: hits, 0..n.
        n: cases, more than 0.
        z: normal quantile.
    """
    square = z * z
    centre, spread = k + square / 2, z * (k * (n - k) / n + square / 4) ** 0.5
    # The outer ends are exact by algebra and not in floating point.
    low = 0.0 if k == 0 else (centre - spread) / (n + square)
    high = 1.0 if k == n else (centre + spread) / (n + square)
    return Interval(low, high)


def two_sided_z(level: float) -> float:
    """The normal quantile that leaves (1 - level) / 2 at each end: 1.96 for 0.95.

    Raises:
        OresmithError: the level is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise OresmithError("no such level of confidence", expected="a number between 0 and 1", got=repr(level)[:40])
    return NormalDist().inv_cdf((1 + level) / 2)
