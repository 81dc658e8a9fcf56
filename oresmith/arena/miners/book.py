"""What a policy knows of each item that it looks for: the products listed for it, and how they fit."""

from __future__ import annotations

import random

from oresmith.arena.miners.brief import Brief, Wish
from oresmith.arena.miners.seen import Listing, Point, Seen, Verdict, points
from oresmith.arena.miners.wording import item_words


class Book:
    """One policy's notes.

    Args:
        brief: the problem.
        care: how likely a constraint is minded at all; drawn once for each.
        noise: spread of the error in judging a title.
        settle: a product is accepted from this share of the minded constraints on.
        draws: the policy's choices.
    """

    def __init__(self, brief: Brief, *, care: float, noise: float, settle: float, draws: random.Random) -> None:
        self.wishes: tuple[Wish, ...] = brief.wishes or (Wish(),)
        self.words = item_words(brief)
        self.seen = Seen()
        self.found: list[list[str]] = [[] for _ in self.wishes]
        """Ids listed for each item, the most promising first."""
        self._minded: list[frozenset[Point]] = [
            frozenset(point for point in points(wish) if draws.random() < care) for wish in self.wishes
        ]
        self._appeal: list[dict[str, float]] = [{} for _ in self.wishes]
        self._noise, self._settle, self._draws = noise, settle, draws
        self._verdicts: dict[tuple[int, str, bool], Verdict] = {}

    def note(self, item: int, hits: list[str]) -> None:
        """Put the hits of a search for an item where they promise to belong; each keeps its first appeal."""
        appeal = self._appeal[item]
        for rank, product_id in enumerate(hits):
            if product_id not in appeal:
                look = self.seen.appeal(product_id, self.words[item], self.wishes[item]) - 0.03 * rank
                appeal[product_id] = look + (self._draws.gauss(0.0, self._noise) if self._noise else 0.0)
        self.found[item] = sorted(appeal, key=lambda product_id: -appeal[product_id])

    def listing(self, product_id: str) -> Listing:
        """The listing of a product that was seen."""
        return self.seen.listings[product_id]

    def describe(self, item: int) -> str:
        """An item in a few words."""
        return " ".join(self.words[item][:5]) or "the item"

    def verdict(self, product_id: str, item: int) -> Verdict:
        """How a listed product fits an item, by what the policy minds."""
        key = (item, product_id, product_id in self.seen.details)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._verdicts[key] = self.seen.verdict(product_id, self.wishes[item], self._minded[item])
        return verdict

    def of(self, item: int, shop_id: str | None = None) -> list[str]:
        """Products listed for an item, in one shop or anywhere, the most promising first."""
        found = self.found[item]
        return found if shop_id is None else [one for one in found if self.listing(one)["shop_id"] == shop_id]

    def candidates(self, item: int, shop_id: str | None = None) -> list[str]:
        """Those worth a view that had none: nothing in the listing speaks against them."""
        return [
            product_id
            for product_id in self.of(item, shop_id)
            if product_id not in self.seen.details and not self.verdict(product_id, item).missed
        ]

    def fitting(self, item: int, shop_id: str | None = None) -> list[str]:
        """Those that fit, as far as the policy asks."""
        return [one for one in self.of(item, shop_id) if self.accepts(self.verdict(one, item))]

    def best(self, item: int, shop_id: str | None = None) -> list[str]:
        """All of them, the best fitting first."""
        return sorted(self.of(item, shop_id), key=lambda one: -self.verdict(one, item).share)

    def accepts(self, verdict: Verdict) -> bool:
        """Whether a product fits well enough: whole, or past the policy's threshold where it has a lower one."""
        return verdict.whole or (self._settle < 1.0 and verdict.share >= self._settle)

    def share_order(self, ids: list[str], item: int) -> list[str]:
        """Given products by how well they fit an item, best first."""
        return sorted(ids, key=lambda one: -self.verdict(one, item).share)
