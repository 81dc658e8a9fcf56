"""Thoughts about what was seen: each names products, prices and facts of the results, and says why one is ahead."""

from __future__ import annotations

from typing import Any

from oresmith.arena.miners.book import Book
from oresmith.arena.miners.policy import Call
from oresmith.arena.miners.seen import Point, plain
from oresmith.arena.miners.voice import Voice


class Thoughts:
    """Words for one policy's notes."""

    def __init__(self, book: Book, voice: Voice) -> None:
        self.book, self.voice = book, voice

    def on_hits(self, item: int, hits: list[str], parameters: dict[str, Any], at_length: bool) -> str:
        """What a search brought: nothing, one product, or a comparison of the two that look best."""
        book, voice = self.book, self.voice
        query, filters = parameters["q"], voice.filters(parameters)
        if not hits:
            return voice.say("empty", q=query, filters=filters)
        order = {product_id: place for place, product_id in enumerate(book.found[item])}
        ranked = sorted(set(hits), key=lambda one: order.get(one, 99))
        if len(ranked) == 1:
            return voice.say("found_one", a=voice.item(book.listing(ranked[0])), q=query)
        first, second = book.listing(ranked[0]), book.listing(ranked[1])
        title = book.seen.words[ranked[0]]
        matched = [word for word in book.words[item] if word in title]
        why = voice.why(matched, first, second)
        text = voice.say("found", count=len(hits), q=query, a=voice.item(first), b=voice.item(second), why=why)
        if at_length:
            text += " " + voice.walk([book.listing(one) for one in hits], [book.verdict(one, item) for one in hits])
        return text

    def on_details(self, item: int, ids: list[str]) -> str:
        """What a view showed: the better of the best two, and the other's flaw."""
        book = self.book
        shown = book.share_order([one for one in ids if one in book.seen.details], item)
        others = [one for one in book.of(item) if one not in shown]
        pair = [*shown, *others][:2]
        if not shown or len(pair) < 2:
            return ""
        return self.compare(item, pair[0], pair[1])

    def compare(self, item: int, a: str, b: str) -> str:
        """One product against another."""
        book, voice = self.book, self.voice
        first, second = book.listing(a), book.listing(b)
        one, other = book.verdict(a, item), book.verdict(b, item)
        slots = {
            "a": voice.item(first),
            "b": voice.item(second),
            "a_id": a,
            "b_id": b,
            "b_flaw": voice.flaw(other, second, first),
        }
        if book.accepts(one):
            return voice.say("viewed_hit", met=self.met(one.met), **slots)
        return voice.say("viewed_miss", a_flaw=voice.flaw(one, first, second), **slots)

    def opening(self, item: int, parameters: dict[str, Any]) -> str:
        """Before the first search."""
        voice = self.voice
        needs = voice.needs(self.book.wishes[item])
        words = self.book.describe(item)
        return voice.say("open", words=words, needs=needs, q=parameters["q"], filters=voice.filters(parameters))

    def searching(self, item: int, parameters: dict[str, Any], occasion: str) -> str:
        """Before another search: `again`, `page`, `next_item` or `cheaper`."""
        voice = self.voice
        return voice.say(
            occasion,
            q=parameters["q"],
            filters=voice.filters(parameters),
            page=parameters.get("page", 1),
            number=item + 1,
            words=self.book.describe(item),
            needs=voice.needs(self.book.wishes[item]),
        )

    def viewing(self, item: int, ids: list[str]) -> str:
        """Before a view."""
        unclear = list(dict.fromkeys(point for one in ids for point in self.book.verdict(one, item).open))
        doubtful = self.voice.these(unclear, 3) if unclear else "the options and the description"
        return self.voice.say("look", open=doubtful, n=len(ids))

    def deciding(self, ids: list[str], sure: bool) -> str:
        """Before the recommendation: the first item's choice against its rival, all choices named."""
        book, voice = self.book, self.voice
        joined = ",".join(ids)
        chosen = ids[0]
        rivals = [one for one in book.best(0) if one not in ids] or [
            one for one in book.seen.listings if one not in ids
        ]
        listing, verdict = book.listing(chosen), book.verdict(chosen, 0)
        if not rivals:
            met = self.met(verdict.met)
            return voice.say("close", ids=f"{joined} ({voice.item(listing)}: {met})")
        rival = rivals[0]
        other = book.listing(rival)
        return voice.say(
            "decide" if sure else "give_up",
            a=voice.item(listing),
            b=voice.item(other),
            met=self.met(verdict.met),
            b_flaw=voice.flaw(book.verdict(rival, 0), other, listing),
            ids=joined,
        )

    def met(self, met: list[Point]) -> str:
        """What a product meets, in words."""
        return self.voice.these(met) if met else "what the title promises"

    def basket(self, ids: list[str]) -> str:
        """Several products with their prices."""
        return ", ".join(f"{one} ({self.voice.price(self.book.listing(one)['price'])})" for one in ids)


def refused(calls: list[Call], results: list[Any]) -> str | None:
    """The first "Error: .." among results, shortened; None where all went well."""
    for (name, _), result in zip(calls, results, strict=False):
        if isinstance(result, str) and result.startswith("Error: ") and name != "terminate":
            return result[7:120]
    return None


def amount(value: float) -> str:
    """A sum of money, rounded to hundredths."""
    return plain(round(value, 2))
