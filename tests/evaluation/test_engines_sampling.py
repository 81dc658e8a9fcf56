"""Sampling: shares as the model gives them, the nucleus exactly, and one number of the seed for each token."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.evaluation.engines.sampling import choose
from oresmith.evaluation.records import Sampling

scores = st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=40)
GRID = 2000


class Even(Random):
    """Gives the numbers of an even grid from 0 to 1, one after the other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._left = [place / count for place in range(count)]

    def random(self) -> float:
        return self._left.pop()


def drawn(row: list[float], sampling: Sampling, count: int = GRID) -> Counter[int]:
    """How often each token is chosen, over an even grid of draws."""
    draw = Even(count)
    return Counter(token for _ in range(count) for token in choose(torch.tensor([row]), sampling, [draw]))


def shares_of(row: list[float], temperature: float) -> list[float]:
    return [float(share) for share in torch.softmax(torch.tensor(row, dtype=torch.float64) / temperature, -1)]


def nucleus(shares: list[float], top_p: float) -> dict[int, float]:
    """The smallest set of likeliest tokens that reaches `top_p`, the plain way."""
    kept: dict[int, float] = {}
    for token in sorted(range(len(shares)), key=lambda token: -shares[token]):
        kept[token] = shares[token]
        if sum(kept.values()) >= top_p:
            break
    total = sum(kept.values())
    return {token: share / total for token, share in kept.items()}


@settings(max_examples=25, deadline=None)
@given(scores, st.floats(0.3, 2))
def test_tokens_come_in_the_shares_of_the_model(row: list[float], temperature: float) -> None:
    found = drawn(row, Sampling(temperature=temperature), 500)
    for token, share in enumerate(shares_of(row, temperature)):
        assert abs(found[token] / 500 - share) <= 2 / 500 + 1e-5


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-40, 40), min_size=2, max_size=40, unique=True), st.sampled_from([0.1, 0.5, 0.9, 0.999]))
def test_the_nucleus_is_the_smallest_set_that_reaches_its_share(whole: list[int], top_p: float) -> None:
    row = [value / 7 for value in whole]
    found = drawn(row, Sampling(temperature=1.0, top_p=top_p), 500)
    for token, share in nucleus(shares_of(row, 1.0), top_p).items():
        assert abs(found.pop(token, 0) / 500 - share) <= 2 / 500 + 1e-5
    assert not found


def test_a_nucleus_of_many_tokens_is_found_whole() -> None:
    flat = [0.001 * (place % 3) for place in range(3000)]
    expected = nucleus(shares_of(flat, 1.0), 0.9)
    found = drawn(flat, Sampling(temperature=1.0, top_p=0.9), 6000)
    assert len(expected) > 2500
    assert abs(len(found) - len(expected)) <= 2


@pytest.mark.parametrize("temperature", [0.0, 1e-30])
def test_cold_is_greedy(temperature: float) -> None:
    rows = torch.tensor([[1.0, 3.0, 2.999], [-5.0, -9.0, -70.0]])
    assert choose(rows, Sampling(temperature=temperature), [Random(1), Random(2)]) == [1, 0]


def test_a_token_without_a_share_is_never_chosen() -> None:
    row = [-1e9, 0.0, -1e9, 0.0, -1e9]
    for sampling in (Sampling(temperature=1.0), Sampling(temperature=1.0, top_p=0.99)):
        assert set(drawn(row, sampling, 100)) == {1, 3}

    class Last(Random):
        def random(self) -> float:
            return 1 - 2**-53

    assert choose(torch.tensor([row]), Sampling(temperature=1.0), [Last()]) == [3]


@given(st.lists(scores.filter(lambda row: len(row) > 4), min_size=2, max_size=2), st.integers(0, 2**48))
@settings(max_examples=25, deadline=None)
def test_a_row_is_chosen_alike_alone_and_among_others(rows: list[list[float]], seed: int) -> None:
    length = min(map(len, rows))
    both = torch.tensor([row[:length] for row in rows])
    for sampling in (Sampling(temperature=0.8), Sampling(temperature=0.8, top_p=0.8)):
        together = choose(both, sampling, [Random(seed), Random(seed + 1)])
        assert together == [choose(both[place : place + 1], sampling, [Random(seed + place)])[0] for place in (0, 1)]
