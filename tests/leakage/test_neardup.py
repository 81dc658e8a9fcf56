"""Every pair that is returned is near, and the steps that make the search cheap lose none."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from oresmith.leakage import neardup
from oresmith.leakage.neardup import NearParams, another_product, near_pairs
from oresmith.leakage.table import Ragged, adjacent


def _ragged(sets: list[set[int]]) -> Ragged:
    hashes = [np.array([value * 0x9E3779B97F4A7C15 % 2**64 for value in sorted(one)], dtype=np.uint64) for one in sets]
    offsets = np.cumsum([0, *map(len, sets)]).astype(np.int64)
    return Ragged(offsets, np.concatenate([*hashes, np.empty(0, dtype=np.uint64)]))


def _no_title(_: int) -> frozenset[int]:
    return frozenset()


def _world(count: int, seed: int) -> list[set[int]]:
    """Distinct sets over few words, each followed by one that lacks a word of it: many share a template."""
    rng, found = random.Random(seed), list[set[int]]()
    for _ in range(count):
        one = set(rng.sample(range(40), 14)) | {rng.randrange(1000, 1400)}
        found += [one, one - {min(one)}]
    distinct = {frozenset(one) for one in found}
    return [set(one) for one in sorted(distinct, key=sorted)]


def _brute(sets: list[set[int]], threshold: float) -> set[tuple[int, int]]:
    return {
        (a, b)
        for a, b in itertools.combinations(range(len(sets)), 2)
        if len(sets[a] & sets[b]) >= threshold * len(sets[a] | sets[b])
        and not (sets[a] - sets[b] and sets[b] - sets[a])
    }


def _found(sets: list[set[int]], params: NearParams | None = None) -> set[tuple[int, int]]:
    pairs = near_pairs(_ragged(sets), _no_title, params or NearParams())
    assert list(pairs.a) == sorted(pairs.a)
    for a, b, jaccard in zip(pairs.a, pairs.b, pairs.jaccard, strict=True):
        assert jaccard == pytest.approx(len(sets[a] & sets[b]) / len(sets[a] | sets[b]))
    return set(zip(pairs.a.tolist(), pairs.b.tolist(), strict=True))


def test_pairs_are_exactly_the_near_ones() -> None:
    sets = _world(150, seed=1)
    assert _brute(sets, 0.9)
    assert _found(sets, NearParams(threshold=0.9)) == _brute(sets, 0.9)


def test_the_order_of_the_sets_does_not_matter() -> None:
    sets = _world(80, seed=2)
    order = random.Random(3).sample(range(len(sets)), len(sets))
    shuffled = {tuple(sorted((order[a], order[b]))) for a, b in _found([sets[place] for place in order])}
    assert shuffled == _found(sets)


@pytest.mark.parametrize("pairs_a_chunk", [3, 1 << 21])
def test_dividing_large_groups_loses_no_pair(monkeypatch: pytest.MonkeyPatch, pairs_a_chunk: int) -> None:
    sets = _world(150, seed=4)
    whole = _found(sets)
    monkeypatch.setattr(neardup, "SMALL_GROUP", 1)
    monkeypatch.setattr(neardup, "_CHUNK_PAIRS", pairs_a_chunk)
    assert _found(sets) == whole


@pytest.mark.parametrize("threshold", [0.5, 0.6, 0.8])
def test_of_one_large_group_every_near_pair_is_found(monkeypatch: pytest.MonkeyPatch, threshold: float) -> None:
    rng = random.Random(5)
    sets = [set(rng.sample(range(14), rng.randrange(3, 9))) for _ in range(120)]
    sets = [set(one) for one in sorted({frozenset(one) for one in sets}, key=sorted)]
    monkeypatch.setattr(neardup, "SMALL_GROUP", 1)
    monkeypatch.setattr(neardup, "LARGE_GROUP", 1000)
    monkeypatch.setattr(neardup, "band_hashes", lambda words, _: np.zeros((1, len(words.lengths())), dtype=np.uint64))
    everything = frozenset(_ragged([set(range(14))]).values.tolist())
    pairs = near_pairs(_ragged(sets), lambda _: everything, NearParams(threshold=threshold))
    near = {
        (a, b)
        for a, b in itertools.combinations(range(len(sets)), 2)
        if len(sets[a] & sets[b]) >= max(threshold * len(sets[a] | sets[b]), 2)
    }
    assert near
    assert near <= set(zip(pairs.a.tolist(), pairs.b.tolist(), strict=True))
    assert pairs.unexamined == 0


def test_words_whose_hashes_look_alike_are_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = np.array([1, 2, 3, 4, 5, 6, 1, 2, 3], dtype=np.uint64) << np.uint64(7)
    words = Ragged(np.array([0, 6, 9]), hashes)
    monkeypatch.setattr(neardup, "band_hashes", lambda *_: np.zeros((1, 2), dtype=np.uint64))
    assert len(near_pairs(words, _no_title, NearParams()).a) == 0


def test_equal_hashes_stand_side_by_side_even_where_all_are_small() -> None:
    values = np.array([2, 1, 2, 1, 3], dtype=np.uint64)
    assert adjacent(values).tolist() == [1, 3, 0, 2, 4]
    high = values << np.uint64(60)
    assert adjacent(high).tolist() == [1, 3, 0, 2, 4]


def test_a_group_that_stays_too_large_is_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    common = set(range(40))
    sets = [common | {100 + number} for number in range(30)]
    params = NearParams(threshold=0.9)
    assert near_pairs(_ragged(sets), _no_title, params).one_value == 30 * 29 // 2
    monkeypatch.setattr(neardup, "SMALL_GROUP", 2)
    monkeypatch.setattr(neardup, "LARGE_GROUP", 4)
    monkeypatch.setattr(neardup, "WINDOW", 2)
    cut = near_pairs(_ragged(sets), _no_title, params)
    assert cut.unexamined > 0
    assert 0 < cut.one_value < 30 * 29 // 2


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_compare_is_no_pair(count: int) -> None:
    assert _found([{1, 2}] * count) == set()


def _words(text: str) -> frozenset[int]:
    return frozenset(map(hash, text.split()))


@pytest.mark.parametrize(
    ("a", "b", "title_a", "title_b", "other"),
    [
        ("red steel hammer", "red steel drill", "", "", True),
        ("red steel hammer", "red hammer", "", "", False),
        ("red phone case", "red phone", "slim phone case", "slim phone", True),
        ("red phone case", "red phone", "slim phone", "slim phone", False),
        ("red steel hammer", "blue steel hammer", "steel hammer", "steel hammer", False),
        ("red steel hammer", "red steel drill", "item", "item", True),
        ("red steel hammer", "red steel hammer", "a", "b", False),
    ],
)
def test_differing_words_tell_two_products(a: str, b: str, title_a: str, title_b: str, other: bool) -> None:
    assert another_product(_words(a), _words(b), _words(title_a), _words(title_b)) is other
    assert another_product(_words(b), _words(a), _words(title_b), _words(title_a)) is other
