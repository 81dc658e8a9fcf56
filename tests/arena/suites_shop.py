"""A search of its own for the tests of suites: BM25 over titles, SKU values and attribute values, in memory."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from oresmith.arena.documents import Document

_WORD = re.compile(r"\w+")


class NaiveShop:
    """`Shop` as sn15.md section 2 describes it, without any cleverness."""

    def __init__(self, documents: Iterable[Document], k: float = 1.2, b: float = 0.75) -> None:
        self.documents = sorted(documents, key=lambda document: document.product_id)
        self._by_id = {document.product_id: document for document in self.documents}
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = np.zeros(len(self.documents))
        for place, document in enumerate(self.documents):
            counts = Counter(_WORD.findall(_text(document).lower()))
            lengths[place] = sum(counts.values())
            for word, count in counts.items():
                postings[word].append((place, count))
        norm = k * (1 - b + b * lengths / max(lengths.sum() / max(len(lengths), 1), 1))
        self._weights: dict[str, tuple[Any, Any]] = {}
        for word, entries in postings.items():
            places, counts_of = np.array(entries).T
            idf = math.log(1 + (len(self.documents) - len(places) + 0.5) / (len(places) + 0.5))
            self._weights[word] = (places, idf * counts_of * (k + 1) / (counts_of + norm[places]))

    def find_product(
        self,
        q: str,
        *,
        page: int = 1,
        shop_id: str | None = None,
        price: str | None = None,
        sort: str | None = None,
        service: str | None = None,
    ) -> list[dict[str, Any]]:
        """One page of hits."""
        if not 1 <= page <= 5:
            return []
        scores = np.zeros(len(self.documents))
        for word in _WORD.findall(q.lower()):
            if word in self._weights:
                places, weights = self._weights[word]
                scores[places] += weights
        order = np.lexsort((np.arange(len(scores)), -scores))[:10_000]
        hits = [self.documents[place] for place in order[scores[order] > 0].tolist()]
        kept = [hit for hit in hits if _admits(hit, shop_id, price, service)][:50]
        if sort in ("priceasc", "pricedesc"):
            kept.sort(key=lambda hit: hit.price, reverse=sort == "pricedesc")
        fields = ("product_id", "shop_id", "title", "price", "service", "sold_count")
        return [{field: getattr(hit, field) for field in fields} for hit in kept[page * 10 - 10 : page * 10]]

    def view_product_information(self, product_ids: str) -> list[dict[str, Any]]:
        """The details of the products that exist."""
        fields = ("product_id", "short_description", "description", "sku_options", "attributes")
        found = [self._by_id[one.strip()] for one in product_ids.split(",") if one.strip() in self._by_id]
        return [{field: getattr(document, field) for field in fields} for document in found]

    def get(self, product_id: str) -> Document | None:
        """The whole document."""
        return self._by_id.get(product_id)


def _text(document: Document) -> str:
    values = [value for sku in document.sku_options.values() for value in sku.values()]
    values += [value for several in document.attributes.values() for value in several]
    return " ".join([document.title, *values])


def _admits(hit: Document, shop_id: str | None, price: str | None, service: str | None) -> bool:
    if shop_id is not None and hit.shop_id != shop_id:
        return False
    if price is not None:
        low, high = price.split("-")
        if (low and hit.price < float(low)) or (high and hit.price > float(high)):
            return False
    return service is None or all(one in hit.service for one in service.split(","))
