"""What a request calls a product: a run of words of its title that other titles hold too, or its category's name."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from oresmith.arena.documents import Document

_WORD = re.compile(r"[A-Za-z][A-Za-z'-]{2,15}")
_EMPTY = frozenset(
    "the and for with from new hot sale original authentic free shipping cod pcs set best high quality ready stock "
    "lazada official store shop brand philippines promo sold per piece pieces size color men women kids your you are "
    "cheap mall good only same like seller supplier restocked inspired compatible replacement".split()
)
"""Words of titles that name no product."""
_VAGUE = re.compile(r"accessor|\bparts\b|\bothers?\b|misc")
"""Names of categories that name no product."""
_PARTS = re.compile(r"&|,|/|\band\b")
_RUN_WEIGHT = {1: 0.25, 2: 1.0, 3: 0.6}
_MOST_NAMES = 3
_RIVALS = 150
"""Products that are compared with one gold product; of more, its brand's and its category's first."""


class Nouns:
    """Names for the products of a catalogue, and which products are found beside one."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._titles: Counter[str] = Counter()
        self._named: dict[str, list[tuple[Document, frozenset[str]]]] = defaultdict(list)
        self._kinds: dict[str, list[Document]] = defaultdict(list)
        self._known: dict[str, list[str]] = {}
        for document in documents:
            if document.category:
                self._kinds[document.category].append(document)
            words = frozenset(_words(document.title))
            self._titles.update(words)
            for word in words:
                self._named[word].append((document, words))

    def of(self, document: Document) -> list[str]:
        """Up to three names for a product, without its brand and without the values of its attributes.

        They are runs of up to three words of the title, the most usual first. Where the catalogue has categories, they
        are those runs that end as the category's name ends, and that name itself.
        """
        if document.product_id not in self._known:
            self._known[document.product_id] = self._names(document)
        return self._known[document.product_id]

    def rivals(self, document: Document, noun: str) -> list[Document]:
        """Other products of the same category (where there is one), or whose title has every word of the name."""
        wanted = frozenset(noun.split())
        rarest = min(wanted, key=lambda word: (self._titles[word], word))
        nearest: list[Document] = []
        near = self._kinds.get(document.category, [])
        far = [
            other
            for other, words in self._named.get(rarest, ())
            if wanted <= words and (not document.category or other.category != document.category)
        ]
        others: list[Document] = []
        for other in [*near, *far]:
            if other.product_id != document.product_id:
                (nearest if other.brand == document.brand else others).append(other)
        return [*nearest, *others][:_RIVALS]

    def _names(self, document: Document) -> list[str]:
        leaf = document.category.rsplit(">", 1)[-1].lower()
        parts = [] if _VAGUE.search(leaf) else [part for part in map(str.strip, _PARTS.split(leaf)) if part]
        heads = {_stem(part.split()[-1]): part for part in parts}
        runs = self._runs(document, set(heads))
        ranked = sorted(runs, key=lambda run: (-runs[run], run))
        named = []
        for run in ranked:
            part = heads.get(_stem(run.split()[-1]))
            if part is not None and len(run.split()) >= min(2, len(part.split())):
                named.append(run)
        usual = [self._usual_form(part) for part in parts if len(part.split()) <= 3]
        return (([*named[: _MOST_NAMES - 1], *usual[:1]] if parts else []) or ranked)[:_MOST_NAMES]

    def _usual_form(self, name: str) -> str:
        """A category's name, its last word in singular where titles say that more often."""
        *before, last = name.split()
        single = last[:-1] if last.endswith("s") and not last.endswith("ss") else last
        return " ".join([*before, single if self._titles[single] > self._titles[last] else last])

    def _runs(self, document: Document, kinds: set[str]) -> dict[str, float]:
        """Runs of words of a title with their weights."""
        silent = set(_words(f"{document.brand} {' '.join(document.attributes.get('brand', ()))}")) | _EMPTY
        values = [value for sku in document.sku_options.values() for value in sku.values()]
        values += [value for several in document.attributes.values() for value in several]
        silent |= {word for word in _words(" ".join(values)) if _stem(word) not in kinds}
        words = _words(document.title)
        usual = [0 if word in silent else self._titles[word] for word in words]
        runs: dict[str, float] = {}
        for length, weight in _RUN_WEIGHT.items():
            for start in range(len(words) - length + 1):
                counts, run = usual[start : start + length], words[start : start + length]
                if min(counts) > 0 and len({_stem(word) for word in run}) == length:
                    runs.setdefault(" ".join(run), min(counts) * weight)
        return runs


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _stem(word: str) -> str:
    """Singular, as far as the last letters tell."""
    return word[:-2] if word.endswith("es") and len(word) > 5 else word.rstrip("s")
