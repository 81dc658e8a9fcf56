"""Near-duplicate wording: candidates by MinHash, each verified by the exact Jaccard of its token sets.

MinHash (`rensa`, seeded) only proposes pairs. Every filter between proposal and verification is lossless, so whether a
proposed pair is joined depends on the two problems alone: not on the order of the input and not on what else is in it.

Jaccard alone cannot tell "red hammer" from "red drill" in a long template: one word of twenty differs either way. So a
pair must also pass `another_product`, which reads the words that differ.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oresmith.leakage.table import I64, U64, Ragged, adjacent, starts_of
from oresmith.records import Record

SMALL_GROUP = 32
"""Rows in agreement up to which all pairs are taken; larger groups are divided by rare words first."""
MAX_LEVELS = 3
"""Words by which a group is divided at most."""
LARGE_GROUP = 128
"""Rows up to which a group that cannot be divided any more is taken whole; beyond, each row is paired with its next
`WINDOW` neighbours, and the rest is counted."""
WINDOW = 32
_CHUNK_ROWS = 1000
_CHUNK_PAIRS = 1 << 21
_MIX = np.uint64(0x9E3779B97F4A7C15)


class NearParams(Record, frozen=True):
    """How near two wordings must be.

    The default threshold comes from `benchmarks.leak_threshold`: on variants made by rule and on distinct problems
    (all pairs of the 750 ShoppingBench test problems, and harder ones with the product swapped, added or dropped) it
    joins no two problems falsely and finds 0.94 of the variants, 0.85 where no gold title is known. A lower one would
    find little more (0.75: 0.96), propose pairs less surely and come nearer to the most alike test problems (0.5).
    """

    threshold: float = 0.8
    """Least Jaccard similarity of the token sets."""
    permutations: int = 128
    rows: int = 8
    """Permutations in a band; 16 bands of 8 propose a pair at 0.8 with probability 0.95, at 0.9 with 0.9997."""
    seed: int = 1


class NearPairs(NamedTuple):
    """Verified pairs of rows, `a < b`, sorted."""

    a: I64
    b: I64
    jaccard: NDArray[np.float64]
    one_value: int
    """Pairs over the threshold in which each side has exactly one word of its own: a colour, a size, or a product."""
    unexamined: int
    """Pairs left out because a group stayed over `LARGE_GROUP`."""


class _Sets(NamedTuple):
    """Token sets as ranks, rare ones first, with what the filters need."""

    ranks: Ragged
    bitmaps: U64
    """(2, n): 128 bits a row, one a token; the differing bits of two rows are at most their differing tokens."""
    sizes: I64
    unshared: int
    """Ranks below this number occur in one row only."""


def _rank(words: Ragged) -> _Sets:
    order = adjacent(words.values)
    starts = starts_of(words.values[order])
    counts = np.diff(np.append(starts, len(order)))
    rank_of = np.empty(len(starts), dtype=np.uint64)
    rank_of[np.lexsort((words.values[order[starts]], counts))] = np.arange(len(starts), dtype=np.uint64)
    ranked = np.empty(len(order), dtype=np.uint64)
    ranked[order] = np.repeat(rank_of, counts)
    owners = words.owners()
    keyed = np.sort((owners.astype(np.uint64) << np.uint64(32)) | ranked)
    bits = np.uint64(1) << (words.values & np.uint64(63))
    bitmaps = np.zeros((2, len(words.offsets) - 1), dtype=np.uint64)
    np.bitwise_or.at(bitmaps, ((words.values >> np.uint64(6) & np.uint64(1)).astype(np.int64), owners), bits)
    ranks = Ragged(words.offsets, (keyed & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    return _Sets(ranks, bitmaps, words.lengths(), int((counts == 1).sum()))


def band_hashes(words: Ragged, params: NearParams) -> U64:
    """MinHash signatures folded into one 64-bit value a band.

    Args:
        words: 64-bit token hashes, one row a set.

    Returns:
        (bands, n) array; two rows are candidates where they agree in a band.
    """
    import rensa

    count, bands = len(words.offsets) - 1, params.permutations // params.rows
    packer = struct.Struct(f"={params.permutations}I")
    hashes = np.empty((bands, count), dtype=np.uint64)
    for low in range(0, count, _CHUNK_ROWS):
        high = min(low + _CHUNK_ROWS, count)
        begin, end = words.offsets[low], words.offsets[high]
        offsets = (words.offsets[low : high + 1] - begin).astype(np.uint64)
        matrix = rensa.RMinHash.digest_matrix_from_flat_token_hashes(
            words.values[begin:end], offsets, params.permutations, params.seed
        )
        packed = b"".join([packer.pack(*row) for row in matrix.to_rows()])
        slots = np.frombuffer(packed, dtype=np.uint32).reshape(high - low, -1)[:, : bands * params.rows]
        slots = slots.reshape(high - low, bands, params.rows)
        mixed = np.zeros((high - low, bands), dtype=np.uint64)
        for place in range(params.rows):
            mixed = (mixed ^ slots[:, :, place]) * _MIX
            mixed ^= mixed >> np.uint64(29)
        hashes[:, low:high] = mixed.T
    return hashes


def _groups(keys: U64) -> tuple[I64, I64]:
    """Places in the order of their keys, and for each how many of its group follow it; those alone are left out."""
    order = adjacent(keys)
    ordered = keys[order]
    same = ordered[1:] == ordered[:-1]
    shared = (np.append(same, False) | np.append(False, same))[: len(keys)]
    order, ordered = order[shared], ordered[shared]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)])
    follow = np.repeat(ends, np.diff(ends, prepend=-1)) - np.arange(len(ordered))
    return order, follow.astype(np.int64)


def _expand(rows: I64, follow: I64) -> Iterator[tuple[I64, I64]]:
    """Pairs of each row with the `follow` next ones, in bounded chunks."""
    ends = np.cumsum(follow)
    low = 0
    while low < len(rows):
        done = ends[low - 1] if low else 0
        high = max(low + 1, int(np.searchsorted(ends, done + _CHUNK_PAIRS)))
        steps = follow[low:high]
        first = np.repeat(np.arange(low, min(high, len(rows))), steps)
        gaps = np.arange(len(first)) - np.repeat(np.cumsum(steps) - steps, steps) + 1
        yield rows[first], rows[first + gaps]
        low = high


def _group_sizes(follow: I64) -> I64:
    """Size of the group that each row stands in, from how many follow it."""
    starts = np.flatnonzero(np.append(True, follow[:-1] == 0)[: len(follow)])
    sizes = follow[starts] + 1
    return np.repeat(sizes, sizes)


class _Entries(NamedTuple):
    """Rows by the key of their group; a row stands in several groups once they are divided by words."""

    keys: U64
    rows: I64
    used: I64
    """The row's words before this place are used up by the key."""

    def where(self, wanted: NDArray[np.bool_] | I64) -> _Entries:
        """The entries of a mask or of places."""
        return _Entries(self.keys[wanted], self.rows[wanted], self.used[wanted])


def _divide(entries: _Entries, level: int, sets: _Sets, threshold: float) -> _Entries:
    """Divide groups by one more of the rows' rarest words, after those that divided them before.

    By the prefix filter two sets at the threshold share at least n of their |A| - ceil(t |A|) + n rarest words, so that
    their n rarest common words put them into one group at level n: no pair is lost.
    """
    sizes = sets.sizes[entries.rows]
    reach = np.minimum(sizes - np.ceil(threshold * sizes - 1e-9).astype(np.int64) + level, sizes)
    take = np.maximum(reach - entries.used, 0)
    source = np.repeat(np.arange(len(take)), take)
    place = entries.used[source] + np.arange(len(source)) - np.repeat(np.cumsum(take) - take, take)
    ranks = sets.ranks.values[sets.ranks.offsets[:-1][entries.rows[source]] + place].astype(np.uint64)
    kept = ranks >= sets.unshared
    source, ranks, place = source[kept], ranks[kept], place[kept]
    return _Entries((entries.keys[source] ^ (ranks + np.uint64(1))) * _MIX, entries.rows[source], place + 1)


def _proposals(bands: U64, sets: _Sets, threshold: float) -> Iterator[tuple[I64, I64, int]]:
    """Chunks of candidate pairs (repeats included), with how many pairs were left out."""
    everyone, unused = np.arange(len(sets.sizes), dtype=np.int64), np.zeros(len(sets.sizes), dtype=np.int64)
    # Two distinct sets at the threshold have at least t / (1 - t) words in common.
    levels = min(MAX_LEVELS, math.ceil(threshold / (1 - threshold) - 1e-9)) if threshold < 1 else MAX_LEVELS
    for keys in bands:
        entries = _Entries(keys, everyone, unused)
        for level in range(levels + 1):
            order, follow = _groups(entries.keys)
            entries, sizes = entries.where(order), _group_sizes(follow)
            kept = np.where(sizes > (SMALL_GROUP if level < levels else LARGE_GROUP), 0, follow)
            if level == levels:
                kept = np.maximum(kept, np.minimum(follow, WINDOW))
                yield entries.rows[:0], entries.rows[:0], int((follow - kept).sum())
            for a, b in _expand(entries.rows, kept):
                yield a, b, 0
            if level < levels:
                entries = _divide(entries.where(sizes > SMALL_GROUP), level + 1, sets, threshold)


def _possible(sets: _Sets, a: I64, b: I64, threshold: float) -> NDArray[np.bool_]:
    """Lossless: False only where the bitmaps prove that the pair is under the threshold."""
    total = sets.sizes[a] + sets.sizes[b]
    differ = sum(np.bitwise_count(half[a] ^ half[b]) for half in sets.bitmaps)
    found: NDArray[np.bool_] = differ <= (1 - threshold) / (1 + threshold) * total + 1e-9
    return found


def _shared(sets: _Sets, a: I64, b: I64) -> I64:
    """Size of the intersection of each pair."""
    shared = np.zeros(len(a), dtype=np.int64)
    step = 1 << 16
    for low in range(0, len(a), step):
        pair = [sets.ranks.take(side[low : low + step]) for side in (a, b)]
        keyed = np.sort(
            np.concatenate([(side.owners().astype(np.uint64) << np.uint64(32)) | side.values for side in pair])
        )
        twice = keyed[1:][keyed[1:] == keyed[:-1]] >> np.uint64(32)
        shared[low : low + step] = np.bincount(twice.astype(np.int64), minlength=len(a[low : low + step]))
    return shared


def another_product(a: frozenset[int], b: frozenset[int], title_a: frozenset[int], title_b: frozenset[int]) -> bool:
    """Whether the words in which two similar queries differ speak for two products.

    Args:
        a, b: token sets of the queries.
        title_a, title_b: token sets of the gold titles, empty where unknown.

    Returns:
        Where both titles are known: True if a word of one side only stands in its own title and not in the other's;
        False if one title holds the other and at least two words of both stand in both queries. Else: True if each side
        has a word that the other lacks, as one product name in place of another would.
    """
    only_a, only_b = a - b, b - a
    if title_a and title_b:
        if (only_a & title_a) - title_b or (only_b & title_b) - title_a:
            return True
        if (title_a <= title_b or title_b <= title_a) and len(title_a & title_b & a & b) >= 2:
            return False
    return bool(only_a and only_b)


def _distinct(chunks: list[U64]) -> U64:
    values = np.sort(np.concatenate(chunks))
    return values[starts_of(values)]


def near_pairs(words: Ragged, title_of: Callable[[int], frozenset[int]], params: NearParams) -> NearPairs:
    """All proposed pairs of rows whose token sets are near and speak of one product.

    Args:
        words: token hashes, one row a set; the sets must be distinct and not empty.
        title_of: token hashes of a row's gold titles, empty where unknown; asked for near pairs only.
        params: threshold and MinHash settings.
    """
    sets, bands = _rank(words), band_hashes(words, params)
    chunks, held, unexamined = [np.empty(0, dtype=np.uint64)], 0, 0
    for a, b, left_out in _proposals(bands, sets, params.threshold):
        unexamined += left_out
        passed = _possible(sets, a, b, params.threshold)
        low, high = np.minimum(a[passed], b[passed]), np.maximum(a[passed], b[passed])
        chunks.append((low.astype(np.uint64) << np.uint64(32)) | high.astype(np.uint64))
        held += len(low)
        if held > _CHUNK_PAIRS:
            chunks, held = [_distinct(chunks)], 0
    packed = _distinct(chunks)
    a, b = (packed >> np.uint64(32)).astype(np.int64), (packed & np.uint64(0xFFFFFFFF)).astype(np.int64)
    shared = _shared(sets, a, b)
    jaccard = shared / (sets.sizes[a] + sets.sizes[b] - shared)
    near = jaccard >= params.threshold
    a, b, shared, jaccard = a[near], b[near], shared[near], jaccard[near]
    one_value = int(((sets.sizes[a] - shared == 1) & (sets.sizes[b] - shared == 1)).sum())
    kept = np.fromiter(
        (_one_product(words, title_of, x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)),
        dtype=bool,
        count=len(a),
    )
    return NearPairs(a[kept], b[kept], jaccard[kept], one_value, unexamined)


def _one_product(words: Ragged, title_of: Callable[[int], frozenset[int]], a: int, b: int) -> bool:
    left, right = (frozenset(words.row(row).tolist()) for row in (a, b))
    return not another_product(left, right, title_of(a), title_of(b))
