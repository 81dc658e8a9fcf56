"""Constraints under which other products look right to a search by words and are wrong.

Drawn blindly, stated values nearly always lift the gold product to the first place, and a policy that takes the first
hit needs no judgement. Here those are preferred under which *rivals* (products found by the same name) hold all the
words of the stated values, and meet the price and the services, but fail a constraint: the value stands under another
key, or the values stand in two SKUs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import NamedTuple

from oresmith.arena.documents import SERVICES, Document
from oresmith.arena.suites.nouns import Nouns
from oresmith.arena.suites.wishes import Constraint, Wish, pair_constraints, price_constraint

_WORD = re.compile(r"\w+")
_DRAWS = 24
"""Combinations of pairs that are weighed for one product."""


class Drawn(NamedTuple):
    """Constraints for a product, and how many rivals look right without being so."""

    wish: Wish
    lookalikes: int
    twins: int
    """Rivals that meet everything."""


class _Marks(NamedTuple):
    """Rivals as bits of a number: bit i is rival i."""

    says: int
    """Its words hold those of the value."""
    meets: int
    """The pair stands in one of its SKUs or in its attributes."""
    fixed: int
    """It stands in its attributes."""


class RivalDraw:
    """Draws constraints for products of a catalogue."""

    def __init__(self, nouns: Nouns) -> None:
        self._nouns = nouns
        self._words: dict[str, frozenset[str]] = {}

    def draw(
        self, document: Document, bounds: tuple[int, int], rng: random.Random, *, price: bool = True
    ) -> list[Drawn]:
        """Wishes for a product, the fewest twins and then the most lookalikes first; [] where it states too little.

        Args:
            document: the gold product.
            bounds: least and most constraints; one attribute or SKU pair is always among them.
            rng: of this draw.
            price: whether a price range may be stated; a voucher's budget stands in its place.
        """
        names, pairs = self._nouns.of(document), pair_constraints(document, rng)
        if not names or not pairs:
            return []
        noun = rng.choice(names)
        others = _others(document, rng, price, bounds[1] - 1)
        least = max(1, bounds[0] - len(others))
        if len(pairs) < least:
            return []
        rivals = [rival for rival in self._nouns.rivals(document, noun) if _fits(rival, others)]
        words = [self._words_of(rival) for rival in rivals]
        marks = [_marks(pair, rivals, words) for pair in pairs]
        most = min(len(pairs), max(least, bounds[1] - len(others)))
        found: dict[tuple[int, ...], Drawn] = {}
        for _ in range(_DRAWS):
            chosen = tuple(sorted(rng.sample(range(len(pairs)), rng.randint(least, most))))
            if chosen not in found:
                wish = Wish(document, noun, (*(pairs[place] for place in chosen), *others))
                found[chosen] = _weigh(wish, [pairs[place] for place in chosen], [marks[p] for p in chosen], rivals)
        return sorted(found.values(), key=lambda one: (min(one.twins, 3), -one.lookalikes))

    def _words_of(self, document: Document) -> frozenset[str]:
        """The words that a search of titles, SKU values and attribute values sees."""
        known = self._words.get(document.product_id)
        if known is None:
            values = [value for sku in document.sku_options.values() for value in sku.values()]
            values += [value for several in document.attributes.values() for value in several]
            known = frozenset(_WORD.findall(" ".join([document.title, *values]).lower()))
            self._words[document.product_id] = known
        return known


def _marks(pair: Constraint, rivals: Sequence[Document], words: Sequence[frozenset[str]]) -> _Marks:
    """How the rivals, whose words these are, stand to one pair."""
    wanted = frozenset(_WORD.findall(pair.value.lower()))
    says = meets = fixed = 0
    for place in [place for place, known in enumerate(words) if wanted <= known]:
        bit, rival = 1 << place, rivals[place]
        says |= bit
        if pair.value in rival.attributes.get(pair.key, ()):
            fixed |= bit
            meets |= bit
        elif any(sku.get(pair.key) == pair.value for sku in rival.sku_options.values()):
            meets |= bit
    return _Marks(says, meets, fixed)


def _weigh(wish: Wish, pairs: Sequence[Constraint], marks: Sequence[_Marks], rivals: Sequence[Document]) -> Drawn:
    says = reduce(and_, (mark.says for mark in marks))
    meets = reduce(and_, (mark.meets for mark in marks))
    twins = 0
    for place in _bits(meets & ~reduce(and_, (mark.fixed for mark in marks))):
        # The pairs that stand in no attribute have to stand in one SKU together.
        loose = {pair.key: pair.value for pair, mark in zip(pairs, marks, strict=True) if not mark.fixed >> place & 1}
        skus = rivals[place].sku_options.values()
        if not any(loose.items() <= sku.items() for sku in skus):
            meets &= ~(1 << place)
    twins = meets.bit_count()
    return Drawn(wish, (says & ~meets).bit_count(), twins)


def _bits(marks: int) -> list[int]:
    found = []
    while marks:
        found.append((marks & -marks).bit_length() - 1)
        marks &= marks - 1
    return found


def _others(document: Document, rng: random.Random, price: bool, most: int) -> list[Constraint]:
    """A service and a price range, each of them at times."""
    found: list[Constraint] = []
    offered = [service for service in SERVICES if service in document.service]
    if offered and rng.random() < 0.45:
        found.append(Constraint("service", "", rng.choice(offered)))
    ranged = price_constraint(document.price, rng) if price and rng.random() < 0.6 else None
    if ranged is not None:
        found.append(ranged)
    return found[:most]


def _fits(document: Document, others: Sequence[Constraint]) -> bool:
    """Whether price and services of a product meet those constraints."""
    for constraint in others:
        if constraint.kind == "service":
            if constraint.value not in document.service:
                return False
        elif (constraint.low is not None and document.price < constraint.low) or (
            constraint.high is not None and document.price > constraint.high
        ):
            return False
    return True
