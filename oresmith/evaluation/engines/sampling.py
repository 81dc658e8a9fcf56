"""The choice of a token from a model's scores: greedy, or by temperature and nucleus with a seed of each request's own.

The n-th token of a request takes the n-th number of its seed, whatever else is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import torch

from oresmith.evaluation.records import Sampling

_COLDEST = 1e-6
"""Temperatures below are taken for this one, which differs from greedy between equal scores only."""
_HEAD = 512
"""Tokens looked at first for the nucleus; mostly they hold it."""


def choose(scores: Any, sampling: Sampling, draws: Sequence[Random]) -> list[int]:
    """A token for each row.

    Args:
        scores: float32, shape (rows, vocabulary), finite.
        sampling: temperature and nucleus.
        draws: a source of numbers for each row; greedy takes none.
    """
    if sampling.temperature == 0:
        return [int(token) for token in scores.argmax(-1)]
    highest = scores.amax(-1, keepdim=True)
    shares = torch.softmax((scores - highest) / max(sampling.temperature, _COLDEST), -1)
    return [_pick(row, sampling.top_p, draw.random()) for row, draw in zip(shares, draws, strict=True)]


def _pick(shares: Any, top_p: float, draw: float) -> int:
    """The token at a place from 0 to 1 of the nucleus, the smallest set of likeliest tokens that reaches `top_p`."""
    if top_p == 1:
        return _at(shares.double().cumsum(0), draw)
    likeliest, tokens = torch.topk(shares, min(_HEAD, len(shares)))
    if float(likeliest.double().sum()) < top_p:
        likeliest, tokens = torch.sort(shares, descending=True, stable=True)
    likeliest = likeliest.double()
    reached = likeliest.cumsum(0)
    kept = int((reached - likeliest < top_p).sum())
    return int(tokens[_at(reached[:kept], draw)])


def _at(reached: Any, draw: float) -> int:
    """The first place whose running sum passes that share of the last one; never one of share 0."""
    place = int(torch.searchsorted(reached, reached[-1] * draw, right=True))
    return min(place, int(torch.searchsorted(reached, reached[-1])))
