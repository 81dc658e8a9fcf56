"""Several comparisons at once: p-values corrected so that the chance of one false claim among all stays at alpha."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from oresmith.errors import OresmithError


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction; holds whatever the comparisons have in common.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure": the i-th smallest of m (from 0) times
    m - i, never below an earlier one, at most 1.

    Args:
        p_values: one of each comparison of the family, all of those that were made.

    Returns:
        Corrected p-values in the order given: a claim holds where its own is at most alpha.

    Raises:
        OresmithError: a value is not within 0..1.
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise OresmithError("no p-value", expected="0 to 1", got=repr(p)[:40])
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    steps = accumulate((min((len(order) - i) * p_values[place], 1.0) for i, place in enumerate(order)), max)
    corrected = dict(zip(order, steps, strict=True))
    return [corrected[place] for place in range(len(p_values))]
