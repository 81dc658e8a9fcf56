"""The interval of a mean whose cases come in clusters: whole clusters are resampled, never single cases.

Problems of one leak cluster, and samples of one problem, succeed and fail together; an interval that counts each of
them as a case of its own is too narrow. A resample draws as many clusters as there are, with replacement, and its mean
is the sum of their values through the number of their cases, so that all noise within a cluster is in the spread
between clusters.

The plain percentile interval is too narrow with few clusters. Used here is BCa (Efron 1987, "Better Bootstrap
Confidence Intervals") at tail areas widened for small samples (Hesterberg 2014, "What Teachers Should Know about the
Bootstrap": normal quantile -> sqrt(n / (n - 1)) * t quantile with n - 1 degrees of freedom). Measured on
correlated successes of skills 0.15 to 0.85, nominal 95% cover (percentile -> used here): 86-93% -> 93-97% with 12
clusters, 89-94% -> 94-97.5% with 20, 93-95% -> 94.5-97% with 40. Means without limits and with a long tail, such as
tokens, stay below (lognormal: 91% with 20, 92% with 40). The studentised bootstrap covers as well but has ends without
bounds: resamples of successes often have no spread to divide by. For differences between two models BCa's corrections
are left out: where few problems tell the models apart they make it worse (87% in place of 91%).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from math import inf, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oresmith.errors import OresmithError
from oresmith.intervals import LEVEL, Interval, score_interval, two_sided_z

Floats = NDArray[np.float64]

REPLICATES = 9_999
"""Resamples; one less than a round number, so that tail areas fall on ranks. The ends then move by about 3% of a
standard error from seed to seed."""
FEWEST_REPLICATES = 1_999
MOST_PICKS = 20_000_000
"""Clusters drawn in all: beyond that, fewer resamples are made (never below `FEWEST_REPLICATES`)."""
FEWEST_CLUSTERS = 10
"""With fewer, resampling sees too little of the spread: nominal 95% then cover 84 to 93%."""
SHARE, DIFFERENCE = Interval(0.0, 1.0), Interval(-1.0, 1.0)
"""The limits of means of shares, and of differences between shares."""

METHODS = {
    "wilson": "each cluster is one case that succeeds or fails: Wilson's score interval",
    "bca": "clusters resampled; BCa interval, widened for few clusters",
    "percentile": "clusters resampled; percentile interval, widened for few clusters",
    "bound": "too few clusters, or no two that differ, to resample: the widest spread that the limits allow",
    "none": "too few clusters, or no two that differ, and no limits",
}
_CHUNK = 2_000_000
_SAME = 1e-12
"""Relative size below which a difference is rounding."""


class Clusters(NamedTuple):
    """Cases summed by cluster, in an order that depends on neither labels nor the order of cases."""

    sums: Floats
    """(clusters,) sum of the values of a cluster's cases."""
    sizes: Floats
    """(clusters,) number of its cases."""


class Estimate(NamedTuple):
    """A mean over clusters; without any case there is none."""

    value: float | None
    bounds: Interval | None
    error: float | None
    """Standard error, between clusters (linearised ratio; Cochran 1977, "Sampling Techniques")."""
    method: str
    """Key of `METHODS`."""


def by_cluster(values: ArrayLike, clusters: Sequence[str], sizes: ArrayLike | None = None) -> Clusters:
    """Sum cases by cluster.

    Args:
        values: (n,) the sum of each row's cases: a problem's successes or, without sizes, its one value.
        clusters: (n,) label of the leak cluster of each row.
        sizes: (n,) cases of each row; 1 each if left out.

    Raises:
        OresmithError: lengths differ, a value is not finite, or a size is not positive.
    """
    value = np.asarray(values, dtype=np.float64)
    size = np.ones_like(value) if sizes is None else np.asarray(sizes, dtype=np.float64)
    if value.ndim != 1 or not value.shape == size.shape == (len(clusters),):
        raise OresmithError(
            "values, sizes and clusters do not belong together",
            expected="one of each a problem",
            got=f"shapes {value.shape}, {size.shape} and {len(clusters)} clusters",
        )
    if not (np.isfinite(value).all() and np.isfinite(size).all() and (size > 0).all()):
        raise OresmithError("no mean of such values", expected="finite values, each of at least one case")
    _, place = np.unique(np.asarray(clusters, dtype=np.str_), return_inverse=True)
    # Rows in an order of their own: rounding, too, is then the same for every order that they came in.
    order = np.lexsort((size, value, place))
    groups = int(place.max()) + 1 if len(value) else 0
    sums = np.bincount(place[order], value[order], minlength=groups)
    totals = np.bincount(place[order], size[order], minlength=groups)
    order = np.lexsort((sums, totals))
    return Clusters(sums[order], totals[order])


def estimate(
    data: Clusters, *, seed: str, limits: Interval | None = None, level: float = LEVEL, skewed: bool = True
) -> Estimate:
    """The mean over all cases and an interval that resamples clusters.

    Args:
        data: cases by cluster.
        seed: text that decides the resamples; equal text and data give equal ends on every machine and every release
            of NumPy (raw PCG64 numbers, sums in fixed order).
        limits: between which every single case lies by nature (`SHARE`, `DIFFERENCE`); None for turns and tokens.
        level: confidence.
        skewed: with BCa's corrections of bias and skewness; False for differences.

    Raises:
        OresmithError: a mean outside the limits, or a level not between 0 and 1.
    """
    z, count = two_sided_z(level), len(data.sums)
    if count == 0:
        return Estimate(None, None, None, "none")
    means = data.sums / data.sizes
    value, scale = data.sums.sum() / data.sizes.sum(), float(np.abs(means).max())
    if limits is not None and not (limits.low - _SAME <= means.min() and means.max() <= limits.high + _SAME):
        raise OresmithError("a value is outside its limits", expected=f"{limits.low:g} to {limits.high:g}")
    error = _standard_error(data, value) if count > 1 else None
    alike = count >= FEWEST_CLUSTERS and bool(np.ptp(means) <= _SAME * scale)
    if limits == SHARE and np.isin(means, (0.0, 1.0)).all() and np.ptp(data.sizes) == 0:
        return Estimate(float(value), score_interval(float(means.sum()), count, z), error, "wilson")
    if alike or count < FEWEST_CLUSTERS:
        bounds = None if limits is None else _widest(data, float(value), limits, z, alike)
        return Estimate(float(value), bounds, error, "none" if bounds is None else "bound")
    resampled = np.sort(_resample(data, seed))
    z0, acceleration = _corrections(data, float(value), resampled) if skewed else (0.0, 0.0)
    reach = sqrt(count / (count - 1)) * t_quantile(level, count - 1)
    low, high = (_tail(z0, acceleration, side * reach) for side in (-1.0, 1.0))
    ranks = len(resampled) + 1
    # Ranks are rounded outward.
    first = max(int(low * ranks + 1e-9) - 1, 0)
    last = min(-int(-(high * ranks - 1e-9) // 1) - 1, ranks - 2)
    bounds = Interval(float(resampled[first]), float(resampled[last]))
    return Estimate(float(value), bounds, error, "bca" if skewed else "percentile")


def t_quantile(level: float, freedom: int) -> float:
    """Student's two-sided quantile, by Fisher's and Cornish's expansion (Abramowitz and Stegun 26.7.5).

    Args:
        level: confidence; the error is below 0.00002 up to 0.95, and 0.0002 at 0.99.
        freedom: degrees of freedom, at least `FEWEST_CLUSTERS` - 1.
    """
    z = two_sided_z(level)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum((term / freedom**power for power, term in enumerate(terms)), 0.0)


def generator(seed: str) -> np.random.PCG64:
    """The raw generator that belongs to a text."""
    return np.random.PCG64(int.from_bytes(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()))


def _resample(data: Clusters, seed: str) -> Floats:
    """(replicates,) means of resamples."""
    count = len(data.sums)
    replicates = max(FEWEST_REPLICATES, min(REPLICATES, MOST_PICKS // count))
    equal = np.ptp(data.sizes) == 0
    means = []
    for pick in _picks(count, replicates, seed):
        # Along the first axis rows are added one after the other: the order of additions is the same everywhere.
        sizes = count * data.sizes[0] if equal else data.sizes[pick].sum(axis=0)
        means.append(data.sums[pick].sum(axis=0) / sizes)
    return np.concatenate(means)


def _picks(count: int, replicates: int, seed: str) -> Iterator[NDArray[np.int64]]:
    """Chunks (count, up to `_CHUNK` / count) of cluster numbers, `replicates` columns in all."""
    raw = generator(seed)
    width = max(_CHUNK // count, 1)
    for start in range(0, replicates, width):
        columns = min(width, replicates - start)
        high = raw.random_raw(count * columns) >> np.uint64(32)
        yield ((high * np.uint64(count)) >> np.uint64(32)).astype(np.int64).reshape(count, columns)


def _corrections(data: Clusters, value: float, resampled: Floats) -> tuple[float, float]:
    """BCa's bias z0 and acceleration, the latter from leaving out one cluster at a time."""
    tie = _SAME * float(np.abs(resampled).max())
    below = (resampled < value - tie).sum() + (np.abs(resampled - value) <= tie).sum() / 2
    ranks = len(resampled) + 1
    bias = NormalDist().inv_cdf(min(max(float(below) / len(resampled), 1 / ranks), 1 - 1 / ranks))
    without = (data.sums.sum() - data.sums) / (data.sizes.sum() - data.sizes)
    apart = without.mean() - without
    return bias, float((apart**3).sum() / (6 * (apart**2).sum() ** 1.5))


def _tail(bias: float, acceleration: float, reach: float) -> float:
    """Share of resamples below the end that lies `reach` standard normal units away (Efron 1987)."""
    whole = bias + reach
    shrink = 1 - acceleration * whole
    return NormalDist().cdf(bias + whole / shrink if shrink > 0 else (inf if whole > 0 else -inf))


def _standard_error(data: Clusters, value: float) -> float:
    count, rest = len(data.sums), data.sums - value * data.sizes
    return float(sqrt(count / (count - 1) * (rest * rest).sum()) / data.sizes.sum())


def _widest(data: Clusters, value: float, limits: Interval, z: float, alike: bool) -> Interval:
    """Bounds from the limits alone, for as many independent cases as there are clusters of equal size (Kish 1965).

    Where many are all alike, the share of cases that might differ is at most Wilson's upper end for none seen,
    z^2 / (n + z^2), and these lie at a limit: for shares of 0 and 1 this is Wilson's interval. Otherwise a mean with
    its limits spreads no more than a share of successes does.
    """
    cases = float(data.sizes.sum() ** 2 / (data.sizes**2).sum())
    if alike:
        unseen = score_interval(0, cases, z).high
        return Interval(value - unseen * (value - limits.low), value + unseen * (limits.high - value))
    span = limits.high - limits.low
    share = score_interval((value - limits.low) / span * cases, cases, z)
    return Interval(limits.low + span * share.low, limits.low + span * share.high)
