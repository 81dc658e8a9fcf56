"""The terse policy: few words, each copied from what it saw, so that small models can learn to think like it.

Before a search it writes down what is needed, and searches with the words of the request as they stand. After a view it
copies, need by need, the letters of the products that offer it as the view `compare/1` says them, and which of them are
left: whoever copies the right lines comes to the right product. What it recommends is an id that it has just written.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from string import ascii_uppercase
from typing import Any

from oresmith.arena.miners.book import Book
from oresmith.arena.miners.brief import Brief
from oresmith.arena.miners.policy import Action, Call, Script
from oresmith.arena.miners.seen import Point, points, price_range
from oresmith.records import Record

VIEW = "compare/1"
"""Whose words it thinks in."""
_SHOPS = 3
"""Sellers that it tries for a request that wants one seller."""


class Habits(Record, frozen=True):
    """What tells one version from another."""

    views: int = 5
    """Products of one view."""
    pages: int = 2
    """Pages of a search that it reads."""


VERSIONS = (Habits(), Habits(pages=3), Habits(pages=1))
"""They view and think alike: what one teaches, another does not unteach."""


class Terse:
    """The policy on one problem.

    Args:
        brief: the problem, with its wishes.
        book: its notes.
        habits: of its version.
    """

    def __init__(self, brief: Brief, book: Book, habits: Habits) -> None:
        self.brief, self.book, self.habits = brief, book, habits
        self.needs = [_in_order_of_request(points(wish), brief.query) for wish in book.wishes]
        """Of each item."""
        self.said = ""
        """What was found in the last results; opens the next thought."""

    def script(self) -> Script:
        """The whole play."""
        one_seller = self.brief.category == "shop" or (self.brief.offer is not None and self.brief.offer.shop_only)
        if one_seller and len(self.book.wishes) > 1:
            chosen = yield from self._one_seller()
        else:
            chosen = []
            for item in range(len(self.book.wishes)):
                found = yield from self._hunt(item, None, 1)
                chosen += found[:1]
        if len(chosen) < len(self.book.wishes):
            chosen = self._best(chosen)
        yield from self._close(chosen)

    def _one_seller(self) -> Any:
        """Fits of the first item decide the seller; the others are looked for there."""
        anchors = yield from self._hunt(0, None, _SHOPS)
        tried: set[str] = set()
        for anchor in anchors:
            seller = self.book.listing(anchor)["shop_id"]
            if seller in tried:
                continue
            tried.add(seller)
            basket = [anchor]
            for item in range(1, len(self.book.wishes)):
                found = yield from self._hunt(item, seller, 1)
                if not found:
                    break
                basket.append(found[0])
            if len(basket) == len(self.book.wishes):
                return basket
        return anchors[:1]

    def _hunt(self, item: int, seller: str | None, enough: int) -> Any:
        """Search, view, go through the pages; gives what fits, in the order of the hits."""
        fits: list[str] = []
        for page in range(1, self.habits.pages + 1):
            parameters = self._query(item, seller) | ({"page": page} if page > 1 else {})
            needs = ", ".join(map(_need, self.needs[item]))
            results = yield from self._act(f"Need: {needs}.", [("find_product", parameters)])
            hits = [hit["product_id"] for hit in results[0]] if isinstance(results[0], list) else []
            self.book.note(item, hits)
            shown = hits[: self.habits.views]
            if not shown:
                self.said = "Nothing."
                return fits
            yield from self._act("", [("view_product_information", {"product_ids": ",".join(shown)})])
            fits += [one for one in shown if self._meets(one, item)][: enough - len(fits)]
            self.said = "\n".join([*self._compared(shown, item), *self._chosen(shown, fits)])
            if fits:
                return fits
        return fits

    def _query(self, item: int, seller: str | None) -> dict[str, Any]:
        wish = self.book.wishes[item]
        parameters: dict[str, Any] = {"q": self._words(item)}
        if seller is not None:
            parameters["shop_id"] = seller
        if wish.prices:
            parameters["price"] = price_range(*wish.bounds)
        if wish.services:
            parameters["service"] = ",".join(wish.services)
        return parameters

    def _words(self, item: int) -> str:
        """The request as it stands, without what it says of the budget; of several items, an item's own words."""
        if len(self.book.wishes) > 1:
            return " ".join(dict.fromkeys(self.book.words[item])) or "product"
        return " ".join(self.brief.query.split("\n\n")[0].split())

    def _compared(self, shown: list[str], item: int) -> Iterator[str]:
        """Need by need, the products that offer it, by their letters in the view, and which of them are left."""
        left = ascii_uppercase[: len(shown)]
        for place, need in enumerate(need for need in self.needs[item] if need.kind == "pair"):
            offering = "".join(
                letter for letter, one in zip(ascii_uppercase, shown, strict=False) if self._offers(one, need)
            )
            left = "".join(letter for letter in left if letter in offering)
            yield f"{_need(need)}: {_letters(offering)}" + (f", left {_letters(left)}" if place else "")

    def _offers(self, product_id: str, need: Point) -> bool:
        details = self.book.seen.details.get(product_id) or {}
        options = (details.get("sku_options") or {}).values()
        return need.value in (details.get("attributes") or {}).get(need.key, ()) or any(
            option.get(need.key) == need.value for option in options
        )

    def _chosen(self, shown: list[str], fits: list[str]) -> Iterator[str]:
        for one in fits:
            yield f"So {ascii_uppercase[shown.index(one)]} = {one}"
        if not fits:
            yield "So none"

    def _meets(self, product_id: str, item: int) -> bool:
        """Whether a viewed page meets every need, the budget included."""
        verdict = self.book.verdict(product_id, item)
        return verdict.whole and self._affordable(product_id)

    def _affordable(self, product_id: str) -> bool:
        offer = self.brief.offer
        listing = self.book.listing(product_id)
        if offer is None or len(self.book.wishes) > 1:
            return True
        return offer.affordable([listing["price"]], [listing["shop_id"]])

    def _best(self, chosen: list[str]) -> list[str]:
        """The best that was seen for each item, where not all were found."""
        best = [next(iter(self.book.best(item)), None) for item in range(len(self.book.wishes))]
        return list(dict.fromkeys([*chosen, *(one for one in best if one is not None)]))[: len(best)]

    def _close(self, ids: list[str]) -> Script:
        if not ids:
            yield from self._act("Nothing fits.", [("terminate", {"status": "failure"})])
            return
        listed = ",".join(ids)
        calls: list[Call] = [("recommend_product", {"product_ids": listed}), ("terminate", {"status": "success"})]
        yield from self._act("" if all(one in self.said for one in ids) else f"So {listed}.", calls)

    def _act(self, plan: str, calls: list[Call]) -> Any:
        think = "\n".join(filter(None, (self.said, plan)))
        self.said = ""
        results = yield Action(think=think or "View.", calls=calls)
        self.book.seen.take(calls, results)
        return results


def make_terse(brief: Brief, version: int) -> Terse:
    """The policy of a version on a problem: it draws nothing."""
    book = Book(brief, care=1.0, noise=0.0, settle=1.0, draws=random.Random(0))  # noqa: S311
    return Terse(brief, book, VERSIONS[version % len(VERSIONS)])


def _in_order_of_request(needs: list[Point], query: str) -> list[Point]:
    """Needs as the request comes to speak of them; what it says in other words comes last."""
    text = query.lower()

    def place(need: Point) -> int:
        words = need.value.strip("-").partition("-")[0] if need.kind == "price" else need.value.lower()
        found = text.find(words) if need.kind != "service" else -1
        return found if found >= 0 else len(text)

    return sorted(needs, key=place)


def _letters(letters: str) -> str:
    return " ".join(letters) or "none"


def _need(point: Point) -> str:
    """A need in the words that the view and the tools have for it."""
    if point.kind == "pair":
        return f"{point.key.replace('_', ' ')} {point.value}"
    return f"PHP {point.value}" if point.kind == "price" else point.value
