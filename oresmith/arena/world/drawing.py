"""Reproducible choices: everything is drawn from `random()`, the one stream that Python promises to keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

Draw = Callable[[], float]
"""The next number of [0, 1)."""
T = TypeVar("T")


def stream(seed: int, part: str) -> Draw:
    """The stream of one part of one seed's world, alike whatever else is drawn."""
    return Random(f"oresmith-world/1/{seed}/{part}").random  # noqa: S311 (a reproducible stream, no secret)


def some(draw: Draw, items: Sequence[T], count: int) -> tuple[T, ...]:
    """`count` different items in drawn order; all of them where there are fewer."""
    rest, taken = list(items), []
    for _ in range(min(count, len(rest))):
        place = int(draw() * len(rest))
        taken.append(rest[place])
        rest[place] = rest[-1]
        rest.pop()
    return tuple(taken)
