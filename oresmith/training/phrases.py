"""Queries in text: whole ones, and runs of their words that no other cluster's query has.

Texts are compared as `leakage.text` reads them, so case, punctuation and blanks make no difference; a query counts with
and without its voucher text. The work is linear in the text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from oresmith.leakage.text import fold, squeeze, words
from oresmith.leakage.voucher import without_voucher

RUN = 8
"""Words in a row that recognise a query, unless another cluster's query has them too."""
SHORT_WORDS, SHORT_LETTERS = 4, 24
"""A query of fewer words and of fewer letters is a phrase that any text may hold: it counts as a whole text only."""
QUERY, BASE, WORDS = "query", "base", "words"
"""What was found: a whole query, one without its voucher text, or `RUN` words of one."""
_ANCHOR = 24
_KEPT = 4096
Words = tuple[str, ...]


class Query(NamedTuple):
    """The query of one problem."""

    problem: str
    cluster: str
    forms: tuple[Words, ...]
    """`forms_of` it."""
    guarded: bool = False
    """Whether it must not stand in training text."""
    joins: bool = False
    """Of a guarded one: whether it stands between pools, so that what it shares with a trainable one says nothing."""
    trainable: bool = False


class Found(NamedTuple):
    """A guarded query in a text."""

    kind: str
    problem: str
    """Name of the guarded one."""


class _Pattern(NamedTuple):
    found: Found
    cluster: str
    text: str
    words: Words
    joins: bool

    @property
    def short(self) -> bool:
        return len(self.words) < SHORT_WORDS and len(self.text) < SHORT_LETTERS

    def shared_with(self, query: Query) -> bool:
        """Whether the text says nothing of the guarded problem, since this query holds it, too."""
        if self.joins and query.trainable:
            return True
        return len(self.words) < RUN and query.cluster != self.cluster


def forms_of(text: str, voucher: Any = None) -> tuple[Words, ...]:
    """The words of a text, and those without voucher text where there is any. Never raises.

    Args:
        text: anything.
        voucher: the problem's voucher object, where it is known.
    """
    folded = fold(text)
    rest, cut = without_voucher(folded, voucher)
    whole = tuple(words(folded))
    base = tuple(words(rest)) if cut else whole
    return (whole,) if base == whole else (whole, base)


class Phrases:
    """Recognises guarded queries.

    Args:
        queries: of all problems that are known, guarded or not.
    """

    def __init__(self, queries: Iterable[Query]) -> None:
        known = sorted(queries, key=lambda one: (one.joins, one.problem))
        self._patterns = _patterns(known)
        self._runs = _runs(known)
        self._by_anchor: dict[int, dict[str, list[_Pattern]]] = {}
        self._by_words: dict[int, dict[Words, list[_Pattern]]] = {}
        self._index()
        shared_runs, shared = self._shared(known)
        self.runs_shared, self.queries_shared = len(shared_runs), len(shared)
        self._runs = {run: owner for run, owner in self._runs.items() if run not in shared_runs}
        self._patterns = {text: pattern for text, pattern in self._patterns.items() if text not in shared}
        self._index()
        self.queries, self.runs = len(self._patterns), len(self._runs)
        self.find = lru_cache(maxsize=_KEPT)(self._find)
        """The guarded queries that a text holds, sorted, each kind and problem once."""

    def _find(self, text: str) -> tuple[Found, ...]:
        found: set[Found] = set()
        for form in forms_of(text):
            found.update(pattern.found for pattern in self._held(form))
            whole = self._patterns.get(squeeze(list(form)))
            if whole is not None:
                found.add(whole.found)
            found.update(Found(WORDS, self._runs[run].problem) for run in _runs_of(form) if run in self._runs)
        return tuple(sorted(found))

    def _index(self) -> None:
        anchors: dict[int, dict[str, list[_Pattern]]] = defaultdict(lambda: defaultdict(list))
        short: dict[int, dict[Words, list[_Pattern]]] = defaultdict(lambda: defaultdict(list))
        for pattern in self._patterns.values():
            if pattern.short:
                short[len(pattern.words)][pattern.words].append(pattern)
            else:
                anchor = pattern.text[:_ANCHOR]
                anchors[len(anchor)][anchor].append(pattern)
        self._by_anchor, self._by_words = dict(anchors), dict(short)

    def _shared(self, known: Sequence[Query]) -> tuple[set[str], set[str]]:
        """Runs and queries of guarded problems that recognise none, because others have them too."""
        runs: set[str] = set()
        texts: set[str] = set()
        for query in known:
            for form in query.forms:
                for run in _runs_of(form):
                    owner = self._runs.get(run)
                    if owner is not None and (query.trainable or query.cluster != owner.cluster):
                        runs.add(run)
                held = [*self._held(form), *self._held_short(form)]
                texts.update(pattern.text for pattern in held if pattern.shared_with(query))
        return runs, texts

    def _held(self, form: Words) -> Iterator[_Pattern]:
        """The longer queries that stand in a text, from the beginning of one word to the end of another."""
        text, starts, ends = _laid_out(form)
        spaced = text.isascii()
        # Scripts without blanks have no words that a query could begin and end with.
        places = starts if spaced else range(len(text))
        for length, by_anchor in self._by_anchor.items():
            for place in places:
                for pattern in by_anchor.get(text[place : place + length], ()):
                    if text.startswith(pattern.text, place) and (not spaced or place + len(pattern.text) in ends):
                        yield pattern

    def _held_short(self, form: Words) -> Iterator[_Pattern]:
        for length, by_words in self._by_words.items():
            for place in range(len(form) - length + 1):
                yield from by_words.get(form[place : place + length], ())


class _Owner(NamedTuple):
    problem: str
    cluster: str


def _patterns(known: Iterable[Query]) -> dict[str, _Pattern]:
    found: dict[str, _Pattern] = {}
    for query in known:
        for kind, form in zip((QUERY, BASE), query.forms if query.guarded else (), strict=False):
            text = squeeze(list(form))
            if text:
                pattern = _Pattern(Found(kind, query.problem), query.cluster, text, form, query.joins)
                found.setdefault(text, pattern)
    return found


def _runs(known: Iterable[Query]) -> dict[str, _Owner]:
    found: dict[str, _Owner] = {}
    for query in known:
        for form in query.forms if query.guarded else ():
            for run in _runs_of(form):
                found.setdefault(run, _Owner(query.problem, query.cluster))
    return found


def _runs_of(form: Words) -> Iterator[str]:
    return (" ".join(form[place : place + RUN]) for place in range(len(form) - RUN + 1))


def _laid_out(form: Words) -> tuple[str, list[int], set[int]]:
    """The words run together as `squeeze` does, and where each of them begins and ends."""
    parts: list[str] = []
    starts, ends = list[int](), set[int]()
    place = 0
    before = ""
    for word in form:
        if before.isdecimal() and word[0].isdecimal():
            parts.append("_")
            place += 1
        parts.append(word)
        starts.append(place)
        place += len(word)
        ends.add(place)
        before = word[-1]
    return "".join(parts), starts, ends
