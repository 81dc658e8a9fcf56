"""Base problems: products drawn, constraints drawn, and kept where the search makes of them what the level asks for."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from oresmith.arena.documents import Document, product_of
from oresmith.arena.suites.levels import LEVELS, Level
from oresmith.arena.suites.plan import Plan, SuiteProblem
from oresmith.arena.suites.probe import Standing, all_suit, suits
from oresmith.arena.suites.requests import VOUCHER_WORDINGS
from oresmith.arena.suites.vouchers import make_voucher
from oresmith.arena.suites.wishes import Wish, stream
from oresmith.arena.suites.workshop import Cell, Workshop
from oresmith.errors import OresmithError

DRAWS = 3
"""Draws of price, services and name for one product before the next product's turn."""
KEPT = 2
"""Of a draw, sets of constraints tried with the search."""
TRIES = 1_500
"""Products (or shops) tried for one problem before the catalogue is said to be too poor."""
TOLD_TRIES = 300
"""Of these, the first ones that also ask how far up the whole request brings the gold product: where that is nearly
always the first hit, a catalogue could not give a hard problem otherwise."""

_T = TypeVar("_T")
Found = tuple[Wish, Standing]


class BaseMaker:
    """Makes base problems, each from products that no other has."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        by_shop: dict[str, list[Document]] = defaultdict(list)
        for document in workshop.documents:
            by_shop[document.shop_id].append(document)
        self._products = _cycle(workshop.documents, f"{workshop.origin}/products")
        self._shops = _cycle([by_shop[shop] for shop in sorted(by_shop)], f"{workshop.origin}/shops")

    def make(
        self, category: str, level: str, number: int, *, voucher_needed: bool = True, twinned: bool = False
    ) -> SuiteProblem:
        """Make one base problem.

        Args:
            category: product, shop or voucher.
            level: L1 to L5.
            number: of the problem in its cell.
            voucher_needed: whether the gold basket of a voucher problem fits its budget by the voucher alone.
            twinned: whether other products must meet the specification too.

        Raises:
            OresmithError: the catalogue holds no products for it, within `TRIES` tries.
        """
        self._workshop.prober.forget()
        for attempt in range(TRIES):
            rng = stream(self._workshop.origin, category, level, number, attempt)
            kind = "platform" if category == "product" or (category == "voucher" and rng.random() < 0.5) else "shop"
            draw = self._from_anywhere if kind == "platform" else self._from_one_shop
            chosen = draw(category, LEVELS[level], rng)
            if chosen is None or not all_suit([standing for _, standing in chosen], LEVELS[level]):
                continue
            if twinned and not all(standing.twins for _, standing in chosen):
                continue
            voucher = None
            if category == "voucher":
                basket = [product_of(wish.gold) for wish, _ in chosen]
                voucher = make_voucher(basket, kind, rng, needed=voucher_needed)
                if voucher is None:
                    continue
            plan = self._plan((category, level), chosen, voucher, rng)
            if attempt < TOLD_TRIES and not self._workshop.told(plan):
                continue
            made = self._workshop.accept(plan, [standing for _, standing in chosen], twinned=twinned)
            if made is not None:
                return made
        raise OresmithError(
            "the catalogue cannot give this problem",
            where=f"{category} {level}, number {number + 1}",
            got=f"{TRIES} draws, none of the level and hard enough to guess",
            todo="lower the count, or take a larger catalogue",
        )

    def _from_anywhere(self, category: str, level: Level, rng: random.Random) -> list[Found] | None:
        """Products that fit the level, of several wanted ones each from another shop; None where the luck ran out."""
        count = level.products[category]
        found: list[Found] = []
        for _ in range(1 if category == "product" else count * 8):
            one = self._wish(next(self._products), level, rng, category)
            if one is not None and one[0].gold.shop_id not in {wish.gold.shop_id for wish, _ in found}:
                found.append(one)
            if len(found) == count:
                return found
        return None

    def _from_one_shop(self, category: str, level: Level, rng: random.Random) -> list[Found] | None:
        """Products of the next shop that fit the level; None where it has too few."""
        stock, count = next(self._shops), level.products[category]
        if len(stock) < count:
            return None
        found: list[Found] = []
        documents = rng.sample(list(stock), min(len(stock), count * 3))
        for place, document in enumerate(documents):
            if len(documents) - place < count - len(found):
                return None
            one = self._wish(document, level, rng, category)
            if one is not None:
                found.append(one)
            if len(found) == count:
                return found
        return None

    def _wish(self, document: Document, level: Level, rng: random.Random, category: str) -> Found | None:
        """The document as a wanted product whose standing is the level's, with lookalikes where it is wanted alone."""
        if document.product_id in self._workshop.golds:
            return None
        alone = level.products[category] == 1
        for _ in range(DRAWS):
            drawn = self._workshop.draws.draw(document, level.constraints, rng, price=category != "voucher")
            for one in drawn[:KEPT]:
                if alone and (one.lookalikes < level.near or one.twins > 1):
                    break
                standing = self._workshop.prober.standing(one.wish, level.rank[1])
                if standing is not None and suits(standing, level, alone):
                    return one.wish, standing
        return None

    def _plan(self, cell: Cell, chosen: list[Found], voucher: dict[str, Any] | None, rng: random.Random) -> Plan:
        category, level = cell
        return Plan(
            category=category,
            level=level,
            wishes=tuple(wish for wish, _ in chosen),
            wording=str(rng.getrandbits(64)),
            voucher=voucher,
            voucher_wording=rng.randrange(VOUCHER_WORDINGS),
        )


def _cycle(items: Sequence[_T], seed: str) -> Iterator[_T]:
    """Every item once, then again in another order, without end."""
    left, turn = list(items), 0
    while left:
        stream(seed, turn).shuffle(left)
        yield from left
        turn += 1
