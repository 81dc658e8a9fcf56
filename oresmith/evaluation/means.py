"""Rates and means over problems, each with the interval that its cases allow.

A rate whose cases are independent (one sample of each problem, no two problems of one leak cluster) gets Wilson's
interval. With several samples of a problem, or several problems of a cluster, cases succeed together: clusters are
resampled then (`bootstrap`). The record says which it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from oresmith.errors import OresmithError
from oresmith.evaluation.bootstrap import SHARE, by_cluster, estimate
from oresmith.intervals import DIGITS, LEVEL, Interval, Rate, rate_within
from oresmith.records import Record


class Mean(Record, frozen=True):
    """The mean over problems; null where there is nothing to take it of."""

    value: float | None
    n: int
    """Problems."""
    clusters: int
    """Leak clusters that they come from: the independent cases."""
    low: float | None
    """Lower end of the interval, in the unit of the value; null where too few clusters bound nothing."""
    high: float | None
    error: float | None
    """Standard error between clusters; null for fewer than two."""
    method: str
    """Key of `bootstrap.METHODS`."""


def mean_of(
    values: ArrayLike, clusters: Sequence[str], *, seed: str, limits: Interval | None = None, level: float = LEVEL
) -> Mean:
    """The mean of one value a problem (itself the mean of its samples), every problem counting the same.

    Args:
        values: (n,) of any unit.
        clusters: (n,) leak cluster of each problem.
        seed: text that decides the resamples, such as the parameter `seed` with the names of model and metric.
        limits: `bootstrap.SHARE` for values that lie in 0..1 by nature (CAR, format, pass@k); None for turns, tokens.
        level: confidence.

    Raises:
        OresmithError: lengths differ, or a value is not finite or outside the limits.
    """
    data = by_cluster(values, clusters)
    found = estimate(data, seed=seed, limits=limits, level=level)
    low, high = found.bounds or (None, None)
    return Mean(
        value=_rounded(found.value),
        n=len(clusters),
        clusters=len(data.sums),
        low=_rounded(low),
        high=_rounded(high),
        error=_rounded(found.error),
        method=found.method,
    )


def rate_of(
    successes: ArrayLike, samples: ArrayLike, clusters: Sequence[str], *, seed: str, level: float = LEVEL
) -> Rate:
    """The rate of successes among all samples of all problems, every sample counting the same.

    Args:
        successes: (n,) successes of each problem, whole numbers.
        samples: (n,) samples of each problem, unscored ones included; at least 1.
        clusters: (n,) leak cluster of each problem.
        seed: as for `mean_of`.
        level: confidence.

    Raises:
        OresmithError: lengths differ, or counts are not whole with 0 <= successes <= samples.
    """
    hits, tries = counts(successes, samples)
    found = estimate(by_cluster(hits, clusters, tries), seed=seed, limits=SHARE, level=level)
    return rate_within(int(hits.sum()), int(tries.sum()), found.bounds, found.method)


def counts(successes: ArrayLike, samples: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Successes and samples of each problem as arrays of floats (n,), checked.

    Raises:
        OresmithError: lengths differ, or counts are not whole with 0 <= successes <= samples and samples >= 1.
    """
    hits, tries = np.asarray(successes, dtype=np.float64), np.asarray(samples, dtype=np.float64)
    if hits.ndim != 1 or hits.shape != tries.shape:
        raise OresmithError("successes and samples do not belong together", got=f"shapes {hits.shape}, {tries.shape}")
    whole = (hits == np.floor(hits)) & (tries == np.floor(tries))
    if not (whole & (hits >= 0) & (hits <= tries) & (tries >= 1) & np.isfinite(tries)).all():
        raise OresmithError(
            "no counts of successes among samples",
            expected="whole numbers, 0 <= successes <= samples, at least one sample of each problem",
            todo="count a sample that could not be scored as a failure",
        )
    return hits, tries


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, DIGITS)
