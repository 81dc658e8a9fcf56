"""Two models on the same problems: by how much they differ, and whether that could be chance.

The size of a difference is told by an interval that resamples leak clusters with both models' results in them. Whether
there is one is told by a test that holds for any number of problems: McNemar's exact test where each problem is one
independent trial, and otherwise its generalisation to clusters, which swaps the two models in whole clusters (Dror et
al. 2018, "The Hitchhiker's Guide to Testing Statistical Significance in Natural Language Processing").
The two can part near the margin, since the tests are exact and the interval is not: a claim goes by the test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oresmith.errors import OresmithError
from oresmith.evaluation.bootstrap import SHARE, by_cluster, estimate, generator
from oresmith.evaluation.power import detectable_by_error
from oresmith.intervals import DIGITS, LEVEL, Interval
from oresmith.records import Record

Samples = Mapping[str, Sequence[float]]
"""Problem id -> the value of each of its samples: success as 0 or 1, or any other score."""

SWAPS = 19_999
"""Random swaps of the models, where there are too many clusters to try all."""
MOST_EXACT = 16
"""Clusters that tell the models apart up to which every one of the 2^n swaps is tried."""
_CHUNK = 2_000_000
_SAME = 1e-9


class Comparison(Record, frozen=True):
    """The second model against the first on the same problems; null where nothing is known."""

    n: int
    """Problems."""
    clusters: int
    """Leak clusters that they come from: the independent cases."""
    first: float | None
    """Mean over problems of the first model's mean over samples."""
    second: float | None
    difference: float | None
    """Second minus first: above 0 the second model is better."""
    low: float | None
    high: float | None
    error: float | None
    """Standard error of the difference, between clusters."""
    method: str
    """How low and high were found: key of `bootstrap.METHODS`."""
    only_first: int | None
    """Problems that only the first model solves; null unless each has one sample that succeeds or fails."""
    only_second: int | None
    detectable: float | None
    """The true difference that such a comparison finds in 80 of 100 cases (`power.detectable_by_error`)."""
    test: str
    """`mcnemar` or `swaps`."""
    p: float
    """Two-sided p-value, not yet corrected for other comparisons (`multiple.holm`)."""


def compare_paired(
    first: Samples,
    second: Samples,
    clusters: Mapping[str, str],
    *,
    seed: str,
    limits: Interval | None = SHARE,
    level: float = LEVEL,
) -> Comparison:
    """Compare two models on the same problems.

    Args:
        first: the samples of one model; their number may differ from problem to problem and from model to model.
        second: those of the other.
        clusters: leak cluster of each problem.
        seed: text that decides resamples and swaps.
        limits: between which each value lies by nature; None for turns and tokens.
        level: confidence of the interval.

    Raises:
        OresmithError: the models were not given the same problems, a problem has no sample or no cluster, or a value
            is not finite or outside the limits.
    """
    problems = _same_problems(first, second, clusters)
    means = [np.array([np.mean(side[problem]) for problem in problems], dtype=np.float64) for side in (first, second)]
    if limits is not None and any(((side < limits.low) | (side > limits.high)).any() for side in means):
        raise OresmithError("a value is outside its limits", expected=f"{limits.low:g} to {limits.high:g}")
    span = None if limits is None else Interval(limits.low - limits.high, limits.high - limits.low)
    data = by_cluster(means[1] - means[0], [clusters[problem] for problem in problems])
    found = estimate(data, seed=seed, limits=span, level=level, skewed=False)
    single = all(len(side[problem]) == 1 and side[problem][0] in (0, 1) for side in (first, second) for problem in side)
    alone = (int((means[0] > means[1]).sum()), int((means[1] > means[0]).sum())) if single else None
    exact = alone is not None and len(data.sums) == len(problems)
    low, high = found.bounds or (None, None)
    return Comparison(
        n=len(problems),
        clusters=len(data.sums),
        first=_rounded(means[0].mean() if problems else None),
        second=_rounded(means[1].mean() if problems else None),
        difference=_rounded(found.value),
        low=_rounded(low),
        high=_rounded(high),
        error=_rounded(found.error),
        method=found.method,
        only_first=alone[0] if alone else None,
        only_second=alone[1] if alone else None,
        detectable=_rounded(detectable_by_error(found.error) if found.error else None),
        test="mcnemar" if exact else "swaps",
        p=mcnemar(*alone) if alone is not None and exact else swap_test(data.sums, seed=seed),
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """McNemar's exact test: the two-sided p-value of the discordant problems under a fair coin, 1 for none.

    p = min(1, 2 P(X <= min(b, c))) with X binomial(b + c, 1/2); McNemar 1947 in the exact form.

    Args:
        only_first: b, problems that only one model solves.
        only_second: c, problems that only the other solves.

    Raises:
        OresmithError: a count is negative.
    """
    if min(only_first, only_second) < 0:
        raise OresmithError("no counts of problems", expected="0 or more", got=f"{only_first}, {only_second}")
    total = only_first + only_second
    ways = sum_ways = 1
    for drawn in range(min(only_first, only_second)):
        ways = ways * (total - drawn) // (drawn + 1)
        sum_ways += ways
    return min(1.0, 2 * sum_ways / (1 << total))


def swap_test(sums: ArrayLike, *, seed: str) -> float:
    """Two-sided p-value of a sum of differences by swapping the models in whole clusters.

    If the models are equally good, each cluster's difference could as well have come with the other sign. The p-value
    is the share of all such swaps with a sum at least as far from 0; for single trials this is `mcnemar`. With more
    than `MOST_EXACT` clusters that differ, `SWAPS` random ones are taken and p = (1 + those) / (1 + all) (Phipson and
    Smyth 2010, "Permutation P-values Should Never Be Zero").

    Args:
        sums: (clusters,) sum of a cluster's differences.
        seed: text that decides the swaps.
    """
    every = np.asarray(sums, dtype=np.float64)
    tie = _SAME * float(np.abs(every).sum())
    apart = every[np.abs(every) > tie]
    if not len(apart):
        return 1.0
    at_least = abs(float(apart.sum())) - tie
    exact = len(apart) <= MOST_EXACT
    far = 0
    for kept in _all_swaps(len(apart)) if exact else _random_swaps(len(apart), seed):
        far += int((np.abs(2 * (kept @ apart) - apart.sum()) >= at_least).sum())
    return far / (1 << len(apart)) if exact else (1 + far) / (1 + SWAPS)


def _all_swaps(count: int) -> Iterator[NDArray[np.float64]]:
    swaps = np.arange(2**count)[:, np.newaxis]
    yield ((swaps >> np.arange(count)) & 1).astype(np.float64)


def _random_swaps(count: int, seed: str) -> Iterator[NDArray[np.float64]]:
    """Chunks (swaps, count) of 0 (swapped) and 1 (kept), `SWAPS` rows in all."""
    raw = generator(f"{seed} swaps")
    words = -(-count // 64)
    height = max(_CHUNK // count, 1)
    for start in range(0, SWAPS, height):
        rows = min(height, SWAPS - start)
        # As little-endian bytes, so that a bit has the same place on every machine.
        octets = raw.random_raw(rows * words).astype("<u8").view(np.uint8).reshape(rows, words * 8)
        yield np.unpackbits(octets, axis=1, count=count).astype(np.float64)


def _same_problems(first: Samples, second: Samples, clusters: Mapping[str, str]) -> list[str]:
    empty = {problem for side in (first, second) for problem in side if not len(side[problem])}
    for what, wrong in (
        ("the models were not given the same problems", first.keys() ^ second.keys()),
        ("a problem without a leak cluster", first.keys() - clusters.keys()),
        ("a problem without samples", empty),
    ):
        if wrong:
            names = ", ".join(sorted(wrong)[:3])[:200]
            raise OresmithError(what, got=f"{names} and {len(wrong) - 3} more" if len(wrong) > 3 else names)
    return sorted(first)


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(float(number), DIGITS)
