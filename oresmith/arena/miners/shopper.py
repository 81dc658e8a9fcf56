"""The scripted ReAct policy: searches, compares, views, checks, recommends. A `Style` makes it an expert or a bungler.

Whatever it says comes from the results it has seen; it never knows a gold id (see `brief`).
"""

from __future__ import annotations

import random
from typing import Any

from oresmith.arena.miners.book import Book
from oresmith.arena.miners.brief import Brief
from oresmith.arena.miners.policy import Acting, Action, Call, Script
from oresmith.arena.miners.seen import price_range
from oresmith.arena.miners.thoughts import Thoughts, refused
from oresmith.arena.miners.voice import Voice
from oresmith.arena.miners.wording import value_words
from oresmith.records import Record


class Style(Record, frozen=True):
    """How a policy works. Shares and rates are probabilities."""

    rounds: int = 3
    """Searches for one item, at most."""
    views: int = 5
    """Products of one view, at most."""
    batches: int = 2
    """Views after one search, at most."""
    filters: float = 1.0
    """Uses the price filter, and the service filter."""
    care: float = 1.0
    """Minds a constraint at all, drawn once for each."""
    settle: float = 1.0
    """Accepts a product from this share of the minded constraints on."""
    noise: float = 0.0
    """Spread of the error in judging titles."""
    pages: float = 0.4
    """Turns the page rather than rewording."""
    sorts: tuple[str, ...] = ()
    """Orders other than relevance that it likes."""
    plans: tuple[str, ...] = ("full", "values", "core", "broad")
    """How it words its searches, in turn."""
    shops: int = 6
    """Sellers it tries for a shop problem; 0 takes each item where it finds it."""
    sums: bool = True
    """Does the sums of a voucher problem."""
    together: float = 0.5
    """Recommends and terminates in one step."""
    answers: float = 0.6
    """Gives the user an answer in words."""
    wordy: float = 0.0
    """Thinks at length, candidate by candidate."""
    slips: float = 0.0
    """Makes a malformed call first."""
    patience: int = 45_000
    """Characters of results after which it looks no further: long dialogues are cut off by the sandbox."""


class Shopper:
    """The policy on one problem.

    Args:
        brief: the problem, with its wishes.
        style: skill and habits.
        voice: its words.
        draws: its choices.
    """

    def __init__(self, brief: Brief, style: Style, voice: Voice, draws: random.Random) -> None:
        self.brief, self.style, self.voice, self.draws = brief, style, voice, draws
        self.book = Book(brief, care=style.care, noise=style.noise, settle=style.settle, draws=draws)
        self.thoughts = Thoughts(self.book, voice)
        self.remark = ""
        """What the last results showed; opens the next thought."""
        self._searched: dict[str, list[str]] = {}
        """Ids that each search listed."""
        self._read = 0

    def act(self, plan: str, calls: list[Call], response: str | None = None) -> Acting:
        """One action; takes its results in and hands them on. A malformed call, where the style slips, goes first."""
        think = self.voice.start() + joined(self.remark, plan)
        self.remark = ""
        if calls[0][0] == "find_product" and self.draws.random() < self.style.slips:
            slip = _slipped(calls[0], self.draws)
            results = yield Action(think=think, calls=[slip])
            error = refused([slip], results) or "no result"
            think = joined(self.voice.say("error", error=error), plan)
        results = yield Action(think=think, calls=calls, response=response)
        self.book.seen.take(calls, results)
        self._read += sum(len(repr(result)) for result in results)
        return results

    @property
    def tired(self) -> bool:
        """Whether it has read as much as its style is ready to."""
        return self._read > self.style.patience

    def search(self, item: int, parameters: dict[str, Any], occasion: str) -> Script:
        """One search for an item; remarks on what it found. A search that was made before costs no action."""
        key = repr(parameters)
        if key in self._searched:
            self.book.note(item, self._searched[key])
            return
        first = not self._searched
        thoughts = self.thoughts
        plan = thoughts.opening(item, parameters) if first else thoughts.searching(item, parameters, occasion)
        results = yield from self.act(plan, [("find_product", parameters)])
        self.found(item, parameters, results[0])

    def found(self, item: int, parameters: dict[str, Any], result: Any, silently: bool = False) -> None:
        """Note what a search for an item listed, and remark on it unless `silently`."""
        hits = [hit["product_id"] for hit in result] if isinstance(result, list) else []
        self._searched[repr(parameters)] = hits
        self.book.note(item, hits)
        if silently:
            return
        at_length = self.draws.random() < self.style.wordy
        self.remark = joined(self.remark, self.thoughts.on_hits(item, hits, parameters, at_length))

    def view(self, item: int, ids: list[str]) -> Script:
        """One view of products listed for an item; remarks on the best two."""
        plan = self.thoughts.viewing(item, ids)
        yield from self.act(plan, [("view_product_information", {"product_ids": ",".join(ids)})])
        self.remark = self.thoughts.on_details(item, ids)

    def hunt(self, item: int, *, shop_id: str | None = None, enough: int = 1, rounds: int | None = None) -> Script:
        """Search for an item and view candidates until `enough` fit, or the style's patience ends."""
        book, style = self.book, self.style
        parameters, page = self.query(item, 0, shop_id), 1
        for number in range(style.rounds if rounds is None else rounds):
            occasion = "page" if page > 1 else "again" if number else "next_item"
            yield from self.search(item, parameters | ({"page": page} if page > 1 else {}), occasion)
            for _ in range(style.batches):
                ids = book.candidates(item, shop_id)[: style.views]
                if not ids or self.tired or len(book.fitting(item, shop_id)) >= enough:
                    break
                yield from self.view(item, ids)
            if self.tired or len(book.fitting(item, shop_id)) >= enough:
                return
            turning = page < 5 and self.draws.random() < style.pages
            page = page + 1 if turning else 1
            parameters = parameters if turning else self.query(item, number + 1, shop_id)

    def query(self, item: int, number: int, shop_id: str | None = None) -> dict[str, Any]:
        """The `number`-th search for an item, as parameters of the tool."""
        style, wish = self.style, self.book.wishes[item]
        parameters: dict[str, Any] = {"q": self.query_words(item, style.plans[number % len(style.plans)])}
        if shop_id is not None:
            parameters["shop_id"] = shop_id
        if wish.prices and self.draws.random() < style.filters:
            parameters["price"] = price_range(*wish.bounds)
        if style.sorts and self.draws.random() < 0.6:
            parameters["sort"] = self.draws.choice(style.sorts)
        if wish.services and self.draws.random() < style.filters:
            parameters["service"] = ",".join(wish.services)
        return parameters

    def query_words(self, item: int, plan: str) -> str:
        """The words of a search."""
        words, values = self.book.words[item], value_words(self.book.wishes[item])
        core = [word for word in words if word not in values] or words
        chosen = {
            "full": words,
            "core": core[:4],
            "values": [*core[:3], *values[:5]],
            "broad": [*core[-2:], *values[:1]],
            "first": words[:3],
        }[plan]
        return " ".join(dict.fromkeys(chosen)) or "product"

    def finish(self, ids: list[str], sure: bool, lead: str = "") -> Script:
        """Decide between the choice and its rival, recommend, terminate."""
        listed = ",".join(ids)
        plan = joined(lead, self.thoughts.deciding(ids, sure))
        recommend: Call = ("recommend_product", {"product_ids": listed})
        terminate: Call = ("terminate", {"status": "success"})
        answer = self.voice.say("answer", ids=listed) if self.draws.random() < self.style.answers else None
        if self.draws.random() < self.style.together:
            yield from self.act(plan, [recommend, terminate], answer)
            return
        yield from self.act(plan, [recommend])
        yield from self.act(self.voice.say("close", ids=listed), [terminate], answer)

    def give_up(self) -> Script:
        """End without any product: nothing was ever found."""
        self.remark = self.remark or self.voice.say("empty", q=self.query_words(0, "full"), filters="")
        yield from self.act("I stop without a recommendation.", [("terminate", {"status": "failure"})])


def joined(*sentences: str) -> str:
    """Sentences in a row, empty ones left out."""
    return " ".join(filter(None, sentences))


def _slipped(call: Call, draws: random.Random) -> Call:
    """A call as models get it wrong: an unknown tool, or a parameter that the tool does not have."""
    name, parameters = call
    if draws.random() < 0.3:
        return draws.choice(("product_search", "search_product")), parameters
    key = draws.choice(("category", "max_price", "brand", "limit"))
    return name, parameters | {key: draws.choice(("10", "any", "2000"))}
