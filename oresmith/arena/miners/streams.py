"""Streams of random numbers by name: the same name gives the same numbers, in any process and order."""

from __future__ import annotations

import random


def stream(*name: object) -> random.Random:
    """The stream of a name's parts."""
    return random.Random("/".join(map(str, name)))  # noqa: S311 (reproducible draws, no secret)
