"""The policy's plan for each kind of problem: one product, all from one shop, or within a budget with a voucher."""

from __future__ import annotations

from itertools import product as combinations

from oresmith.arena.miners.book import Book
from oresmith.arena.miners.brief import Offer
from oresmith.arena.miners.policy import Call, Script
from oresmith.arena.miners.seen import price_range
from oresmith.arena.miners.shopper import Shopper, joined
from oresmith.arena.miners.thoughts import amount

_CHOICES = 5
"""Fitting products of one item that are combined with the others'."""


def script_of(shopper: Shopper) -> Script:
    """The whole play."""
    scripts = {"shop": shop_script, "voucher": voucher_script}
    return scripts.get(shopper.brief.category, product_script)(shopper)


def product_script(shopper: Shopper) -> Script:
    """One product: hunt, then the best that was seen."""
    yield from shopper.hunt(0)
    book = shopper.book
    fitting = book.fitting(0)
    best = fitting or book.best(0)
    if not best:
        yield from shopper.give_up()
        return
    yield from shopper.finish(best[:1], bool(fitting))


def shop_script(shopper: Shopper) -> Script:
    """All items from one seller: find the item that is hardest to please, then try its sellers for the rest."""
    book = shopper.book
    if shopper.style.shops:
        yield from _one_shop(shopper)
    else:
        yield from _hunt_all(shopper)
    complete = _complete(book)
    chosen = complete[0] if complete else _near_shop(book) or _one_each(book)
    if not chosen:
        yield from shopper.give_up()
        return
    lead = ""
    if complete:
        shop = book.listing(chosen[0])["shop_id"]
        lead = shopper.voice.say("shop_done", shop=shop, items=shopper.thoughts.basket(chosen))
    yield from shopper.finish(chosen, bool(complete), lead)


def voucher_script(shopper: Shopper) -> Script:
    """Items within a budget: find each, do the sums, look for cheaper ones where they do not work out."""
    offer, book, style = shopper.brief.offer, shopper.book, shopper.style
    together = offer is not None and offer.shop_only and len(book.wishes) > 1 and style.sums
    if together and style.shops:
        yield from _one_shop(shopper)
    yield from _hunt_all(shopper)
    if offer is None or not style.sums:
        chosen = _one_each(book)
        if chosen:
            yield from shopper.finish(chosen, False)
        else:
            yield from shopper.give_up()
        return
    if not _works(book, offer, _basket(book, offer)):
        yield from _cheaper(shopper, offer)
    basket = _basket(book, offer)
    if not basket:
        yield from shopper.give_up()
        return
    yield from shopper.finish(basket, _works(book, offer, basket), _sums(shopper, offer, basket))


def _hunt_all(shopper: Shopper) -> Script:
    for item in range(len(shopper.book.wishes)):
        if not shopper.book.fitting(item):
            yield from shopper.hunt(item)


def _one_each(book: Book) -> list[str]:
    """The best product of each item, no product twice; [] where some item has none."""
    chosen: list[str] = []
    for item in range(len(book.wishes)):
        free = [one for one in (*book.fitting(item), *book.best(item)) if one not in chosen]
        chosen += free[:1]
    return chosen if len(chosen) == len(book.wishes) else []


def _one_shop(shopper: Shopper) -> Script:
    """Try sellers until one has all items, the sellers of the hardest item first."""
    book, style = shopper.book, shopper.style
    items = range(len(book.wishes))
    for item in items:
        yield from shopper.search(item, shopper.query(item, 0), "next_item")
    by_hardness = sorted(items, key=lambda item: (-len(book.wishes[item].pairs), len(book.found[item])))
    tried: set[str] = set()
    for anchor in by_hardness[:2]:
        if not book.fitting(anchor):
            yield from shopper.hunt(anchor)
        while len(tried) < style.shops and not _complete(book) and not shopper.tired:
            seller = _next_seller(book, anchor, tried)
            if seller is None:
                break
            tried.add(seller)
            yield from _try_shop(shopper, seller, anchor)
        if _complete(book) or len(tried) >= style.shops or shopper.tired:
            return


def _next_seller(book: Book, anchor: int, tried: set[str]) -> str | None:
    """The seller to try next: one with a fitting anchor first, then by how many items were listed for it."""
    support: dict[str, float] = {}
    for item in range(len(book.wishes)):
        for shop in {book.listing(one)["shop_id"] for one in book.found[item] if not book.verdict(one, item).missed}:
            support[shop] = support.get(shop, 0.0) + 1.0
        for one in book.fitting(item):
            shop = book.listing(one)["shop_id"]
            support[shop] = support.get(shop, 0.0) + (10.0 if item == anchor else 3.0)
    order = [book.listing(one)["shop_id"] for one in book.found[anchor] if not book.verdict(one, anchor).missed]
    left = [shop for shop in dict.fromkeys(order) if shop not in tried]
    return max(left, key=lambda shop: support.get(shop, 0.0), default=None)


def _try_shop(shopper: Shopper, shop: str, anchor: int) -> Script:
    """Search one shop for what it is not known to have, and view what may fit."""
    book, style = shopper.book, shopper.style
    lacking = [item for item in range(len(book.wishes)) if not book.fitting(item, shop)]
    example = book.of(anchor, shop)[0]
    calls: list[Call] = [("find_product", shopper.query(item, 0, shop)) for item in lacking]
    if calls:
        said = shopper.voice.item(book.listing(example))
        plan = shopper.voice.say("shop_try", a=said, shop=shop, q=calls[0][1]["q"])
        results = yield from shopper.act(plan, calls)
        for (_, parameters), item, result in zip(calls, lacking, results, strict=True):
            shopper.found(item, parameters, result, silently=item != lacking[0])
    for _ in range(style.batches):
        ids, first = _unseen(book, shop, lacking, style.views)
        if not ids or not all(book.of(item, shop) for item in lacking):
            break
        yield from shopper.view(first, ids)
        lacking = [item for item in lacking if not book.fitting(item, shop)]
    if lacking:
        gone = shopper.voice.say("shop_fail", shop=shop, lack=book.describe(lacking[0]))
        shopper.remark = joined(shopper.remark, gone)


def _unseen(book: Book, shop: str, items: list[int], views: int) -> tuple[list[str], int]:
    """Candidates of one shop to view at once, item by item, and the first item that has any."""
    lists = [book.candidates(item, shop) for item in items]
    most = max(2, views // max(1, sum(map(bool, lists))))
    ids = [one for candidates in lists for one in candidates[:most]]
    first = next((item for item, candidates in zip(items, lists, strict=True) if candidates), 0)
    return list(dict.fromkeys(ids))[: views + 2], first


def _complete(book: Book) -> list[list[str]]:
    """Baskets of a fitting product of each item from one shop, no product twice, a basket a shop."""
    baskets = []
    for shop in dict.fromkeys(book.listing(one)["shop_id"] for one in book.fitting(0)):
        chosen: list[str] = []
        for item in range(len(book.wishes)):
            free = [one for one in book.fitting(item, shop) if one not in chosen]
            chosen += sorted(free, key=lambda one: float(book.listing(one)["price"]))[:1]
        if len(chosen) == len(book.wishes):
            baskets.append(chosen)
    return baskets


def _near_shop(book: Book) -> list[str]:
    """The best of each item from the one shop where they fit best together; [] where no shop lists all items."""
    items = range(len(book.wishes))
    best: list[str] = []
    score = -1.0
    for shop in dict.fromkeys(book.listing(one)["shop_id"] for one in book.found[0]):
        chosen: list[str] = []
        for item in items:
            chosen += [one for one in book.best(item, shop) if one not in chosen][:1]
        if len(chosen) == len(book.wishes):
            total = sum(book.verdict(one, item).share for item, one in enumerate(chosen))
            best, score = (chosen, total) if total > score else (best, score)
    return best


def _basket(book: Book, offer: Offer) -> list[str]:
    """The combination of fitting products that costs least to pay; [] where an item has no product at all."""
    lists = []
    for item in range(len(book.wishes)):
        fitting = sorted(book.fitting(item), key=lambda one: float(book.listing(one)["price"]))[:_CHOICES]
        lists.append(fitting or book.best(item)[:2])
    every = [ids for ids in map(list, combinations(*lists)) if len(set(ids)) == len(ids)] + _complete(book)
    return min(every, key=lambda ids: _due(book, offer, ids), default=[])


def _works(book: Book, offer: Offer, basket: list[str]) -> bool:
    fits = all(book.accepts(book.verdict(one, item)) for item, one in enumerate(basket))
    return bool(basket) and fits and _due(book, offer, basket) <= offer.budget


def _due(book: Book, offer: Offer, ids: list[str]) -> float:
    prices, shops = _prices(book, ids)
    return min(sum(prices), offer.payable(prices, shops))


def _prices(book: Book, ids: list[str]) -> tuple[list[float], list[str]]:
    listings = [book.listing(one) for one in ids]
    return [float(listing["price"]) for listing in listings], [listing["shop_id"] for listing in listings]


def _cheaper(shopper: Shopper, offer: Offer) -> Script:
    """Look for cheaper products of the items, the dearest first."""
    book = shopper.book
    basket = _basket(book, offer)
    if not basket:
        return
    shopper.remark = joined(shopper.remark, _sums(shopper, offer, basket))
    for item in sorted(range(len(basket)), key=lambda item: -book.listing(basket[item])["price"])[:2]:
        low, high = book.wishes[item].bounds
        now = float(book.listing(basket[item])["price"])
        limit = min(now, now if high is None else high) if book.fitting(item) else high
        parameters = shopper.query(item, 0) | {"sort": "priceasc"}
        if limit is not None or low is not None:
            parameters["price"] = price_range(low, limit)
        yield from shopper.search(item, parameters, "cheaper")
        ids = sorted(book.candidates(item), key=lambda one: float(book.listing(one)["price"]))[: shopper.style.views]
        if ids:
            yield from shopper.view(item, ids)
        if shopper.tired or _works(book, offer, _basket(book, offer)):
            return


def _sums(shopper: Shopper, offer: Offer, ids: list[str]) -> str:
    """The sum of a basket in words, with what the voucher does to it."""
    voice = shopper.voice
    prices, shops = _prices(shopper.book, ids)
    total, due = sum(prices), offer.payable(prices, shops)
    terms = " + ".join(map(amount, prices))
    said = f"{terms} = {voice.price(round(total, 2))}" if len(prices) > 1 else voice.price(total)
    if due < total:
        share = f"{amount(100 * offer.discount)}%, at most {amount(offer.cap)},"
        cut = share if offer.percentage else amount(offer.face_value)
        rule = f"the voucher takes off {cut} from {amount(offer.threshold)} on"
    elif total < offer.threshold:
        rule = f"the voucher needs {amount(offer.threshold)}"
    else:
        rule = "the voucher wants a single shop"
    pay = min(due, total)
    occasion = "sum_ok" if pay <= offer.budget else "sum_bad"
    return voice.say(occasion, sum=said, terms=rule, pay=voice.price(round(pay, 2)), budget=voice.price(offer.budget))
