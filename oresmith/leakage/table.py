"""Keys of many problems in columns: a million problems fit a few hundred megabytes, and grouping them is sorting."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oresmith.leakage.keys import ABSENT, ProblemKeys, Reading, flag_names, read_problem, word_hash
from oresmith.records import Problem

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
KEY_COLUMNS = ("problem", "query", "base", "tokens", "spec")
_ABSENT_HEX = "0" * 64
_hash = lru_cache(maxsize=1 << 16)(word_hash)


@dataclass(frozen=True)
class Ragged:
    """Rows of unequal length: row i is `values[offsets[i] : offsets[i + 1]]`."""

    offsets: I64
    values: NDArray[Any]

    def lengths(self) -> I64:
        """Length of each row."""
        return np.diff(self.offsets)

    def owners(self) -> I64:
        """Row number of each value."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int64), self.lengths())

    def row(self, number: int) -> NDArray[Any]:
        """The values of one row."""
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    def take(self, rows: I64) -> Ragged:
        """The given rows, in the given order."""
        begins = self.offsets[rows]
        lengths = self.offsets[rows + 1] - begins
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        places = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1], dtype=np.int64)
        return Ragged(offsets, self.values[places])

    @staticmethod
    def concat(parts: Sequence[Ragged]) -> Ragged:
        """The rows of all parts, one part after the other."""
        lengths = np.concatenate([part.lengths() for part in parts])
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return Ragged(offsets, np.concatenate([part.values for part in parts]))


@dataclass(frozen=True)
class KeyTable:
    """One row a problem; the key columns are (n, 4) arrays of the sha256 as four big-endian words, 0 where absent."""

    keys: dict[str, U64]
    """By `KEY_COLUMNS`."""
    counts: NDArray[np.int32]
    """(n, 2): constraints and pairs of the specification."""
    flags: NDArray[np.uint8]
    """Bit i is entry i of `FLAGS`."""
    gold: Ragged
    """Gold keys, (m, 4)."""
    gold_ids: NDArray[np.object_]
    """The product id of each gold key, in step with `gold.values`."""
    words: Ragged
    """64-bit hashes of the base query's tokens."""
    titles: Ragged
    """64-bit hashes of the gold titles' tokens."""

    def __len__(self) -> int:
        return len(self.flags)

    @staticmethod
    def read(problems: Iterable[Problem]) -> KeyTable:
        """Read the keys of problems, in their order; holds none of them in memory."""
        return KeyTable.of(map(read_problem, problems))

    @staticmethod
    def of(readings: Iterable[Reading]) -> KeyTable:
        """Put readings into columns, in their order."""
        columns = {name: bytearray() for name in KEY_COLUMNS}
        counts, flags, gold, gold_ids = array("i"), bytearray(), bytearray(), list[str]()
        gold_ends, words, word_ends, titles, title_ends = array("q"), array("Q"), array("q"), array("Q"), array("q")
        for one in readings:
            for name, column in columns.items():
                column.extend(getattr(one, name) or ABSENT)
            counts.extend((one.constraints, one.pairs))
            flags.append(one.flags)
            gold.extend(b"".join(one.gold))
            gold_ids.extend(one.gold_ids)
            gold_ends.append(len(gold_ids))
            words.extend(map(_hash, one.words))
            word_ends.append(len(words))
            titles.extend(map(_hash, one.title_words))
            title_ends.append(len(titles))
        return KeyTable(
            keys={name: _words_of(column) for name, column in columns.items()},
            counts=np.array(counts, dtype=np.int32).reshape(-1, 2),
            flags=np.frombuffer(bytes(flags), dtype=np.uint8),
            gold=Ragged(_offsets(gold_ends), _words_of(gold)),
            gold_ids=_objects(gold_ids),
            words=Ragged(_offsets(word_ends), np.array(words, dtype=np.uint64)),
            titles=Ragged(_offsets(title_ends), np.array(titles, dtype=np.uint64)),
        )

    @staticmethod
    def concat(parts: Sequence[KeyTable]) -> KeyTable:
        """The rows of all parts, one part after the other: keys may be read in any number of pieces."""
        return KeyTable(
            keys={name: np.concatenate([part.keys[name] for part in parts]) for name in KEY_COLUMNS},
            counts=np.concatenate([part.counts for part in parts]),
            flags=np.concatenate([part.flags for part in parts]),
            gold=Ragged.concat([part.gold for part in parts]),
            gold_ids=np.concatenate([part.gold_ids for part in parts]),
            words=Ragged.concat([part.words for part in parts]),
            titles=Ragged.concat([part.titles for part in parts]),
        )

    def take(self, rows: I64) -> KeyTable:
        """The given rows, in the given order."""
        ids = Ragged(self.gold.offsets, self.gold_ids)
        return KeyTable(
            keys={name: column[rows] for name, column in self.keys.items()},
            counts=self.counts[rows],
            flags=self.flags[rows],
            gold=self.gold.take(rows),
            gold_ids=ids.take(rows).values,
            words=self.words.take(rows),
            titles=self.titles.take(rows),
        )

    def unique(self) -> KeyTable:
        """Each problem once, in the order of its name: the same rows whatever the order of the input.

        Rows of one name can still differ in what is no key (titles, flags); the least of them stands for all.
        """
        title_sums = np.zeros(len(self), dtype=np.uint64)
        np.add.at(title_sums, self.titles.owners(), self.titles.values.astype(np.uint64))
        name = self.keys["problem"]
        order = np.lexsort((self.flags, title_sums, name[:, 3], name[:, 2], name[:, 1], name[:, 0]))
        return self.take(order[starts_of(name[order])])

    def names(self) -> list[str]:
        """The name (`ProblemKeys.problem`) of each row, hex."""
        return hex_of(self.keys["problem"])

    def rows(self) -> Iterator[ProblemKeys]:
        """The keys of each row."""
        columns = {name: hex_of(column) for name, column in self.keys.items()}
        gold = hex_of(self.gold.values)
        for place in range(len(self)):
            yield ProblemKeys(
                **{name: column[place] for name, column in columns.items()},
                gold=tuple(gold[self.gold.offsets[place] : self.gold.offsets[place + 1]]),
                constraints=int(self.counts[place, 0]),
                pairs=int(self.counts[place, 1]),
                flags=flag_names(int(self.flags[place])),
            )


def hex_of(keys: NDArray[Any]) -> list[str]:
    """Hex of (n, 4) keys; "" for an absent one."""
    text = keys.astype(">u8").tobytes().hex()
    texts = (text[at : at + 64] for at in range(0, len(text), 64))
    return ["" if text == _ABSENT_HEX else text for text in texts]


def starts_of(ordered: NDArray[Any]) -> I64:
    """Positions at which a new key begins in an array of (n, 4) or (n,) keys that is sorted."""
    if len(ordered) == 0:
        return np.empty(0, dtype=np.int64)
    changes = ordered[1:] != ordered[:-1]
    changed = changes.any(axis=1) if changes.ndim == 2 else changes
    return np.concatenate(([0], np.flatnonzero(changed) + 1)).astype(np.int64)


def adjacent(values: U64) -> I64:
    """Places of hashes in an order that puts equal ones side by side, each kind in its own order.

    Sorting places packed into the hashes' low bits costs a fifth of an argsort. Where two unequal hashes agree in all
    other bits, which is checked, it is an argsort after all.
    """
    bits = np.uint64(max(len(values) - 1, 1).bit_length())
    packed = np.sort((values >> bits << bits) | np.arange(len(values), dtype=np.uint64))
    order: I64 = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    prefix, ordered = packed >> bits, values[order]
    if np.array_equal(prefix[1:] != prefix[:-1], ordered[1:] != ordered[:-1]):
        return order
    return np.argsort(values, kind="stable")


def star_edges(keys: U64, owners: I64) -> tuple[I64, I64, I64]:
    """Join all owners of one key to its first owner.

    Args:
        keys: (m, 4), 0 where absent.
        owners: (m,) row that holds each key, ascending.

    Returns:
        (first row, other row, position of the other's key in `keys`), one entry a joined row: linear in m.
    """
    places = np.flatnonzero(keys.any(axis=1))
    # Two sha256 that agree in 64 bits: not to be expected, but then they are told apart by the rest.
    order = places[adjacent(keys[places, 0])]
    starts = starts_of(keys[order])
    if len(starts) != len(starts_of(keys[order, 0])):
        held = keys[places]
        order = places[np.lexsort((held[:, 3], held[:, 2], held[:, 1], held[:, 0]))]
        starts = starts_of(keys[order])
    sizes = np.diff(np.append(starts, len(order)))
    first, other = np.repeat(owners[order[starts]], sizes), owners[order]
    joined = first != other
    return first[joined], other[joined], order[joined]


def _words_of(digests: bytearray) -> U64:
    return np.frombuffer(bytes(digests), dtype=">u8").reshape(-1, 4).astype(np.uint64)


def _offsets(ends: array[int]) -> I64:
    return np.concatenate(([0], np.array(ends, dtype=np.int64))).astype(np.int64)


def _objects(values: list[str]) -> NDArray[np.object_]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
