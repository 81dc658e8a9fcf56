"""Optional: pairs of problems that a sentence-embedding model finds near in meaning, for `clusters.cluster(given=..)`.

The model is that of `oresmith.minilm` (extra `embed`, which brings PyTorch). Whether a pair is joined depends on its
two problems alone: each text is encoded by itself; the matrix product over blocks only proposes pairs, and the
similarity that counts is summed for each pair alone and rounded.

Cosine cannot tell a product, colour or size from another (a swapped product word leaves 0.95 in the median), so each
pair must also pass `neardup.another_product`. Measured with that rule on ShoppingBench's 750 test problems: 6,828 pairs
of one problem (words dropped, added, reordered or said otherwise; the paraphrases, translations and unit changes of
tests/planter.py) and, of two problems, all pairs of the 750 without a gold product in common, all pairs of 4,000
synthetic problems that share templates, and 2,169 with a product word swapped, added or dropped (without titles: 723
with one swapped, since nobody can label the others). Recall of paraphrases and unit changes stands beside that of all:

                gold titles known                             no title known
    threshold   precision  recall  paraphrases  units  joined*  precision  recall  paraphrases  joined*
    0.85           0.9969   0.805        0.900  0.968        0     0.9956   0.598        0.116        1
    0.88           0.9967   0.745        0.803  0.968        0     0.9953   0.563        0.097        1
    0.90           0.9964   0.699        0.697  0.947        0     0.9951   0.537        0.080        1
    0.92           0.9961   0.632        0.547  0.936        0     0.9956   0.498        0.067        0
    0.93           0.9958   0.590        0.453  0.936        0     0.9960   0.472        0.055        0
    0.95           0.9947   0.471        0.236  0.894        0     0.9962   0.389        0.025        0
    0.97           0.9932   0.342        0.069  0.809        0     0.9955   0.291        0.004        0

(*) pairs of two test or two synthetic problems; the other false ones are made by the swap rules. The default, chosen on
these same pairs, is the least that joins none of those. Without the rule precision is 0.62 there (0.76 without titles).
The most alike test problems reach 0.862. Of translations one in twelve reaches 0.85 and hardly any the default. With
titles known, the default joins 0.74 of the pairs that differ in a colour and 0.94 of those that differ in a number.

One core encodes about 80 requests a second (100,000 in 20 minutes); the pairs among 100,000 take one minute, 0.6 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oresmith.leakage.clusters import GivenPair
from oresmith.leakage.keys import read_problem, word_hash
from oresmith.leakage.neardup import another_product
from oresmith.leakage.table import I64, starts_of
from oresmith.leakage.text import fold
from oresmith.leakage.voucher import without_voucher
from oresmith.minilm import DIGITS, F32, Encoder
from oresmith.records import Problem

F64 = NDArray[np.float64]
NEAREST = 128
"""Candidates of one text that are examined; the rest are counted. Reached only where a template drowns the wording."""
_ROWS, _COLUMNS = 256, 4096
_SLACK = 1e-4
"""More than single precision can err in a product of unit vectors."""


class EmbeddedPairs(NamedTuple):
    """What the embeddings join."""

    pairs: list[GivenPair]
    """Names and cosine similarity; of the near pairs those that suffice to join what all of them join, for the first
    batch, for the first two, and so on."""
    unexamined: int
    too_long: int
    """Distinct texts that the model cannot read whole; they take no part."""


class _Text(NamedTuple):
    name: str
    """Of the first problem that has it."""
    text: str
    batch: int
    problems: list[Problem]


def embedding_pairs(batches: Iterable[Iterable[Problem]], encode: Encoder, threshold: float) -> EmbeddedPairs:
    """Pairs of problems whose requests, without voucher text, are near in meaning and speak of one product.

    Args:
        batches: as clusters are extended by them; the order within a batch does not matter. Problems with one text are
            taken once, since their keys join them, with the gold titles of those in the text's first batch.
        encode: see `minilm.load_encoder`; called once for each distinct text.
        threshold: least cosine similarity, compared after rounding to `DIGITS`.

    Returns:
        Fewer pairs than there are texts. Memory: about 3 kB a text beside the problems.
    """
    texts, vectors, too_long = list[_Text](), list[F32](), 0
    for one in _texts(batches):
        vector = encode(one.text)
        if vector is None:
            too_long += 1
        else:
            texts.append(one)
            vectors.append(vector.astype(np.float32, copy=False))
    if not texts:
        return EmbeddedPairs([], 0, too_long)
    pairs, unexamined = _joining(texts, np.stack(vectors), threshold)
    return EmbeddedPairs(pairs, unexamined, too_long)


def _texts(batches: Iterable[Iterable[Problem]]) -> Iterator[_Text]:
    """Distinct texts in an order that is stable: by batch, then by the name of their first problem."""
    seen: set[str] = set()
    for number, batch in enumerate(batches):
        fresh: dict[str, _Text] = {}
        named = [(read_problem(one).problem.hex(), request_text(one), one) for one in batch]
        for name, text, one in sorted(named, key=lambda entry: entry[:2]):
            if text and text not in seen:
                fresh.setdefault(text, _Text(name, text, number, [])).problems.append(one)
        yield from fresh.values()
        seen |= fresh.keys()


def request_text(problem: Problem) -> str:
    """What is embedded: the folded query without voucher text, "" where it has no word."""
    if not isinstance(problem.query, str):
        return ""
    request, _ = without_voucher(fold(problem.query), problem.voucher)
    text = " ".join(request.encode("utf-8", "replace").decode().split())
    return text if any(map(str.isalnum, text)) else ""


def _joining(texts: Sequence[_Text], vectors: F32, threshold: float) -> tuple[list[GivenPair], int]:
    """Pairs that join, and how many candidates were left out."""
    parent, taken, unexamined = list(range(len(texts))), np.zeros(len(texts), dtype=np.int64), 0
    pairs: list[GivenPair] = []

    def find(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    @lru_cache(maxsize=1 << 14)
    def known(row: int) -> tuple[frozenset[int], frozenset[int]]:
        readings = [read_problem(one) for one in texts[row].problems]
        titles = frozenset[str]().union(*(reading.title_words for reading in readings))
        return frozenset(map(word_hash, readings[0].words)), frozenset(map(word_hash, titles))

    batch_of = np.array([one.batch for one in texts])
    for a, b in _candidates(vectors, starts_of(batch_of), threshold):
        kept = _first(b, taken, NEAREST)
        unexamined += len(b) - int(kept.sum())
        for x, y, value in _verified(vectors, a[kept], b[kept], threshold):
            (words_x, title_x), (words_y, title_y) = known(x), known(y)
            if find(x) != find(y) and not another_product(words_x, words_y, title_x, title_y):
                parent[find(y)] = find(x)
                pairs.append((texts[x].name, texts[y].name, value))
    return pairs, unexamined


def _candidates(vectors: F32, starts: I64, threshold: float) -> Iterator[tuple[I64, I64]]:
    """Tiles of pairs `a < b` that may be near, the nearest first; all of a batch come before any of the next."""
    ends = np.append(starts[1:], len(vectors)).tolist()
    blocks = [
        (low, min(low + _ROWS, end))
        for start, end in zip(starts.tolist(), ends, strict=True)
        for low in range(start, end, _ROWS)
    ]
    for low, high in blocks:
        for left in range(0, high, _COLUMNS):
            product = vectors[low:high] @ vectors[left : min(left + _COLUMNS, high)].T
            b, a = np.nonzero(product >= threshold - _SLACK)
            order = np.argsort(-product[b, a], kind="stable")
            a, b = a[order] + left, b[order] + low
            below = a < b
            yield a[below], b[below]


def _first(b: I64, taken: I64, most: int) -> NDArray[np.bool_]:
    """Mask of the first candidates of each row, `most` in all tiles together; `taken` is brought up to date."""
    order = np.argsort(b, kind="stable")
    ordered = b[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(b)])
    place = np.arange(len(b)) - np.repeat(starts, np.diff(np.append(starts, len(b))))
    kept = np.empty(len(b), dtype=bool)
    kept[order] = place + taken[ordered] < most
    np.add.at(taken, b[kept], 1)
    return kept


def _verified(vectors: F32, a: I64, b: I64, threshold: float) -> Iterator[tuple[int, int, float]]:
    """The pairs that are near, the nearest first."""
    cosine = np.round(_cosine(vectors, a, b), DIGITS)
    order = np.lexsort((a, b, -cosine))
    order = order[cosine[order] >= threshold]
    return zip(a[order].tolist(), b[order].tolist(), cosine[order].tolist(), strict=True)


def _cosine(vectors: F32, a: I64, b: I64, step: int = 1 << 13) -> F64:
    """Of each pair of unit rows by itself, in double precision."""
    found = np.empty(len(a), dtype=np.float64)
    for low in range(0, len(a), step):
        left, right = (vectors[side[low : low + step]].astype(np.float64) for side in (a, b))
        found[low : low + step] = (left * right).sum(axis=1)
    return found
