"""The search as `sn15.md` says it, slow and obvious: every hit scored one by one, the filters a loop over the first.

Scores are tantivy's formulas in plain Python, in single precision, so that hits tie here exactly where they tie there.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from oresmith.arena.documents import Document
from oresmith.arena.search.text import DEFAULT_FIELDS, contents, make_analyser

Score = np.float32
K1, B = Score(1.2), Score(0.75)


def kept_length(length: int) -> int:
    """The length of a text as an index of one byte a text keeps it: exact to 40, then ever coarser, rounded down."""
    return max(number for number in map(_length, range(256)) if number <= length)


def _length(code: int) -> int:
    if code < 24:
        return code
    code -= 24
    return 24 + (code if code < 8 else (8 | code & 7) << (code >> 3) - 1)


class SlowShop:
    """All documents in memory, and `find_product` over them."""

    def __init__(
        self, documents: list[Document], fields: tuple[str, ...] = DEFAULT_FIELDS, depth: int = 10_000
    ) -> None:
        self.documents, self.depth = documents, depth
        self.analyse = make_analyser().analyze
        self.words = [Counter(self.analyse(contents(document, fields))) for document in documents]
        self.lengths = [sum(words.values()) for words in self.words]

    def scores(self, q: str) -> list[tuple[float, Document]]:
        """Every hit with its score, the best first, ties in the order of the catalogue."""
        if not any(self.lengths):
            return []
        query = [(word, repeats, self._rarity(word)) for word, repeats in sorted(Counter(self.analyse(q)).items())]
        scored = [(self._score(place, query), place) for place in range(len(self.documents))]
        hits = sorted(((score, place) for score, place in scored if score > 0), key=lambda hit: (-hit[0], hit[1]))
        return [(float(score), self.documents[place]) for score, place in hits]

    def _rarity(self, word: str) -> Score:
        holding = sum(word in words for words in self.words)
        odds = (Score(len(self.words) - holding) + Score(0.5)) / (Score(holding) + Score(0.5))
        return Score(math.log(float(Score(1) + odds)))

    def _score(self, place: int, query: list[tuple[str, int, Score]]) -> Score:
        mean = Score(sum(self.lengths)) / Score(len(self.lengths))
        norm = K1 * (Score(1) - B + B * Score(kept_length(self.lengths[place])) / mean)
        total = Score(0)
        for word, repeats, rarity in query:
            if found := Score(self.words[place][word]):
                total += rarity * (Score(1) + K1) * Score(repeats) * (found / (found + norm))
        return total

    def find_product(
        self, q: str, *, page: int, shop_id: str | None, price: str | None, sort: str | None, service: str | None
    ) -> list[dict[str, Any]]:
        """One page, for well-formed parameters and pages of any number."""
        first = [document for _, document in self.scores(q)[: self.depth]]
        kept = [document for document in first if passes(document, shop_id, price, service)][:50]
        if sort == "order":
            kept.sort(key=lambda document: -document.sold_count)
        elif sort in ("priceasc", "pricedesc"):
            kept.sort(key=lambda document: document.price if sort == "priceasc" else -document.price)
        shown = ("product_id", "shop_id", "title", "price", "service", "sold_count")
        chosen = kept[page * 10 - 10 : page * 10] if 1 <= page <= 5 else []
        return [{name: getattr(document, name) for name in shown} for document in chosen]


def passes(document: Document, shop_id: str | None, price: str | None, service: str | None) -> bool:
    """Whether a product is of the shop, within "low-high" and offers all of a comma list of services."""
    low, high = price.split("-") if price else ("", "")
    return (
        (not shop_id or document.shop_id == shop_id)
        and (not low or document.price >= float(low))
        and (not high or document.price <= float(high))
        and all(name in document.service for name in (service.split(",") if service else []))
    )
