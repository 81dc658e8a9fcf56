"""pass@k and pass^k from n samples of each problem: at least one of k succeeds, and all of k succeed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oresmith.errors import OresmithError
from oresmith.evaluation.bootstrap import SHARE
from oresmith.evaluation.means import Mean, counts, mean_of
from oresmith.intervals import LEVEL
from oresmith.records import Record


class AtK(Record, frozen=True):
    """Both figures for one k, as means over problems."""

    k: int
    pass_at: Mean
    """pass@k: the chance that at least one of k samples succeeds."""
    pass_all: Mean
    """pass^k: the chance that all of k samples succeed."""


def pass_at_k(successes: ArrayLike, samples: ArrayLike, k: int) -> NDArray[np.float64]:
    """pass@k of each problem, unbiased: 1 - C(n - c, k) / C(n, k), as a product that never overflows.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", section 2.1.

    Args:
        successes: (problems,) c.
        samples: (problems,) n.
        k: samples drawn, 1 to the smallest n.

    Returns:
        (problems,) shares.

    Raises:
        OresmithError: counts that are none, or a k that some problem has too few samples for.
    """
    hits, tries = counts(successes, samples)
    return 1.0 - _all_of(tries - hits, tries, k)


def pass_all_k(successes: ArrayLike, samples: ArrayLike, k: int) -> NDArray[np.float64]:
    """pass^k of each problem, unbiased: C(c, k) / C(n, k). Arguments and errors as for `pass_at_k`.

    Source: Yao et al. 2024, "tau-bench" (there "pass hat k").
    """
    hits, tries = counts(successes, samples)
    return _all_of(hits, tries, k)


def pass_curves(
    successes: ArrayLike,
    samples: ArrayLike,
    clusters: Sequence[str],
    *,
    seed: str,
    ks: Sequence[int] | None = None,
    level: float = LEVEL,
) -> list[AtK]:
    """Mean pass@k and pass^k over problems, with intervals that resample leak clusters.

    Args:
        successes: (problems,) successes of each.
        samples: (problems,) samples of each, unscored ones included.
        clusters: (problems,) leak cluster of each.
        seed: as for `means.mean_of`.
        ks: which k; 1, 2, 4, .. and the most that every problem has samples for, if left out.
        level: confidence.

    Returns:
        One record for each k, in the order asked for; none for no problems.

    Raises:
        OresmithError: as for `pass_at_k`.
    """
    tries = counts(successes, samples)[1]
    if not len(tries):
        return []
    most = int(tries.min())
    if ks is None:
        ks = sorted({most, *(1 << power for power in range(most.bit_length()))})
    return [
        AtK(
            k=k,
            pass_at=mean_of(
                pass_at_k(successes, samples, k), clusters, seed=f"{seed} pass@{k}", limits=SHARE, level=level
            ),
            pass_all=mean_of(
                pass_all_k(successes, samples, k), clusters, seed=f"{seed} pass^{k}", limits=SHARE, level=level
            ),
        )
        for k in ks
    ]


def _all_of(kind: NDArray[np.float64], tries: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The chance that k samples drawn without replacement are all of one kind: C(kind, k) / C(tries, k)."""
    if k < 1 or (tries < k).any():
        raise OresmithError(
            "no such k", expected=f"1 to {int(tries.min(initial=k))}, the fewest samples of a problem", got=str(k)
        )
    chance = np.ones_like(tries)
    for drawn in range(k):
        chance *= np.maximum(kind - drawn, 0.0) / (tries - drawn)
    return chance
