"""What the search answers to a problem: where its gold stands, what stands beside it, and how far no judgement gets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from oresmith.arena.catalogue import Product
from oresmith.arena.documents import Shop, product_of
from oresmith.arena.scoring_items import shop_count, total_price, within_budget
from oresmith.arena.suites.levels import Level
from oresmith.arena.suites.requests import Request
from oresmith.arena.suites.wishes import Wish, count_of, meets, stated_of
from oresmith.arena.suites.wording import reference_query, values_query

PAGE = 10
QUERIES = ("reference", "keywords", "values", "verbatim")
POLICIES = tuple(
    f"{choice}/{query}{end}" for query in QUERIES for end in ("+filters", "") for choice in ("first", "random")
)
"""Policies without judgement: they take the first hit, or any hit, of the first page. The query is the request as it
stands (of several products, the first hits of that one page), or of each product the keywords of its part of the
request, the reference query, or the stated values alone; with or without the stated price range and services as
filters."""


class Standing(NamedTuple):
    """What the reference query of one wanted product gives."""

    rank: int
    """Of the gold product among the kept hits, from 1."""
    near: int
    """Hits of the first page that fail exactly one constraint."""
    details: bool
    """Some of them fail what neither the listing nor their title shows."""
    twins: tuple[str, ...]
    """Other products that meet the specification, among the hits that a gold product of the level may be, in order."""


class Prober:
    """Searches of a shop, each made once for the problem at hand; products as the scorer reads them."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._pages: dict[tuple[str, str | None, str | None, int], list[str]] = {}
        self._products: dict[str, Product | None] = {}
        self.searches = 0

    def forget(self) -> None:
        """Drop the answers kept: the next problem asks other questions."""
        self._pages.clear()

    def product(self, product_id: str) -> Product | None:
        """A product of the shop, None where there is none."""
        if product_id not in self._products:
            document = self._shop.get(product_id)
            self._products[product_id] = None if document is None else product_of(document)
        return self._products[product_id]

    def page(self, q: str, price: str | None = None, service: str | None = None, number: int = 1) -> list[str]:
        """Product ids of one page of hits."""
        key = (q, price, service, number)
        if key not in self._pages:
            self.searches += 1
            hits = self._shop.find_product(q, page=number, price=price, service=service)
            self._pages[key] = [str(hit["product_id"]) for hit in hits]
        return self._pages[key]

    def products(self, ids: Sequence[str]) -> list[Product]:
        """The products of these ids that exist."""
        return [product for product in map(self.product, ids) if product is not None]

    def standing(self, wish: Wish, deepest: int) -> Standing | None:
        """Where a wish's gold product stands; None where it is not among the first `deepest` hits."""
        query, stated = reference_query(wish), stated_of(wish.reward())
        first = self.page(query, *wish.filters)
        seen = list(first)
        for number in range(2, deepest // PAGE + 1):
            if wish.gold.product_id in seen or len(seen) < PAGE * (number - 1):
                break
            seen += self.page(query, *wish.filters, number)
        if wish.gold.product_id not in seen[:deepest]:
            return None
        total, near, details = count_of(stated), 0, False
        for product in self.products(first):
            if round(meets(product, stated) * total) == total - 1:
                near += 1
                details = details or not _told_by_listing(product, wish)
        twins = [
            product.product_id
            for product in self.products(seen[:deepest])
            if product.product_id != wish.gold.product_id and meets(product, stated) >= 1
        ]
        return Standing(seen.index(wish.gold.product_id) + 1, near, details, tuple(twins))


def _told_by_listing(product: Product, wish: Wish) -> bool:
    """Whether the listing shows what a near miss fails: its price, its services, or a title that says the value."""
    one = wish._replace(constraints=tuple(c for c in wish.constraints if c.kind in ("price", "service")))
    stated = stated_of(one.reward())
    return bool(one.constraints) and meets(product, stated) < 1


def suits(standing: Standing, level: Level, alone: bool) -> bool:
    """Whether a wanted product's standing is one of the level; `alone` where the problem wants no other product."""
    if standing.rank > level.rank[1] or standing.near < (level.near if alone else 1):
        return False
    return not alone or all_suit([standing], level)


def all_suit(standings: Sequence[Standing], level: Level) -> bool:
    """Whether some wanted product has the depth, and some the details, that the level asks for."""
    deep = any(standing.rank >= level.rank[0] for standing in standings)
    return deep and (not level.details or any(standing.details for standing in standings))


class Guesses:
    """How probable success is for each of `POLICIES` on one problem, worked out one by one.

    Success is the strict scorer's without title similarity. A random choice is judged exactly for product and shop;
    of a voucher the budget is left out of account, which can only make its figure larger.
    """

    def __init__(
        self, prober: Prober, category: str, wishes: Sequence[Wish], request: Request, voucher: dict[str, Any] | None
    ) -> None:
        self._prober, self._category, self._wishes, self._voucher = prober, category, wishes, voucher
        self._stated = [stated_of(wish.reward()) for wish in wishes]
        self._golds = [wish.gold.product_id for wish in wishes]
        self._asked = {
            "verbatim": [request.query] * len(wishes),
            "keywords": list(request.keywords),
            "reference": [reference_query(wish) for wish in wishes],
            "values": [values_query(wish) for wish in wishes],
        }

    def of(self, policy: str) -> float:
        """The probability of success of one policy."""
        choice, query = policy.removesuffix("+filters").split("/")
        filtered = policy.endswith("+filters") and (query != "verbatim" or len(self._wishes) == 1)
        pages = [
            self._prober.products(self._prober.page(words, *(wish.filters if filtered else (None, None))))
            for wish, words in zip(self._wishes, self._asked[query], strict=True)
        ]
        if choice == "random":
            return _random(self._category, pages, self._golds, self._stated)
        places = range(len(pages)) if query == "verbatim" else [0] * len(pages)
        firsts = [page[place] for page, place in zip(pages, places, strict=True) if place < len(page)]
        return float(_succeeds(self._category, firsts, self._golds, self._stated, self._voucher))


def _met(product: Product, gold: str, stated: dict[str, Any]) -> bool:
    return product.product_id == gold or meets(product, stated) >= 1


def _succeeds(
    category: str,
    chosen: list[Product],
    golds: list[str],
    stated: list[dict[str, Any]],
    voucher: dict[str, Any] | None,
) -> bool:
    if len(chosen) != len(golds) or not all(map(_met, chosen, golds, stated)):
        return False
    if category == "shop":
        return shop_count(chosen) == 1
    return voucher is None or within_budget(voucher, total_price(chosen), shop_count(chosen))


def _random(category: str, pages: list[list[Product]], golds: list[str], stated: list[dict[str, Any]]) -> float:
    """Probability that one hit of each page, drawn evenly, meets all; of shop problems, from one shop."""
    by_shop: dict[object, list[float]] = defaultdict(lambda: [0.0] * len(pages))
    for place, (page, gold, wanted) in enumerate(zip(pages, golds, stated, strict=True)):
        for product in page:
            if _met(product, gold, wanted):
                by_shop[product.shop_id if category == "shop" else ""][place] += 1 / len(page)
    total = 0.0
    for share in by_shop.values():
        chance = 1.0
        for part in share:
            chance *= part
        total += chance
    return total
