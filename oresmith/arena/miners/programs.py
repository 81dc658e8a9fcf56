"""The sub-task families: a program searches and decides, the model only parses, scores and narrates."""

from __future__ import annotations

import json
from typing import Any

from oresmith.arena.miners.agents import Run
from oresmith.arena.miners.book import Book
from oresmith.arena.miners.session import shown
from oresmith.arena.miners.shopper import Shopper, Style

_PROGRAM = Style(rounds=2, views=5, batches=1, filters=0.8, care=0.85, noise=0.2, shops=0, sums=False)
_PARSERS = ("open-model/parser-8b", "fable-labs/sieve-7b", "northwind/extract-v2")
_SCORERS = ("open-model/scorer-14b", "fable-labs/quarry-24b-instruct", "northwind/chat-v3")
_ORDERS = {
    "parser": "Extract the products and their constraints from the request below. Answer with JSON only.",
    "scorer": "Score the candidates against the request. Answer with JSON: best_product_id, reason, relevance_score.",
    "narrator": "Narrate in two sentences, in the first person, what was just done and why. No lists, no JSON.",
}
_PLANS = (
    "I start by planning the search. The keywords I will use are {q}.",
    "My plan is to search for {q} and to compare what comes back.",
    "The request needs {q}; I will look that up first.",
    "First I settle the keywords: {q}.",
    "Before anything else I note what to look for, {q}.",
)
_TOLD = (
    'I just searched for "{q}" and got {n} results. {a} costs {a_price} while {b} costs {b_price}, and I weigh them.',
    'The query sent was "{q}". I compare {a} at {a_price} with {b} at {b_price}; the first looks closer by its title.',
    'With "{q}" the shop listed {n} products. {a} ({a_price}) and {b} ({b_price}) are the ones worth a look.',
    'Searching "{q}" returned {n} listings. My favourite is {a} for {a_price}; {b} for {b_price} is the alternative.',
    '"{q}" was the search. Among {n} hits {a}, priced {a_price}, seems better than {b}, priced {b_price}.',
)
_FINAL = (
    "Between {a} and {b}, I chose {a} because it covers more of what was asked.",
    "Everything was scored; {a} came out ahead of {b}.",
    "{a} is the final choice over {b}, judged by its listing and its attributes.",
    "After scoring, {a} beats {b}.",
)


def play_searcher(run: Run) -> None:
    """Parse, search, view, score in bursts, narrate; the steps show calls that the program made by itself."""
    shopper, asks, words = run.shopper(_PROGRAM), _Asks(run), run.draws("narrate")
    book, session = shopper.book, run.session
    queries = [shopper.query_words(item, "full") for item in range(len(book.wishes))]
    parsed = [
        {"keywords": query, "price_range": list(wish.bounds), "constraints": dict(wish.pairs)}
        for query, wish in zip(queries, book.wishes, strict=True)
    ]
    asks.ask("parser", run.brief.query, json.dumps({"reasoning": "Split the request.", "products": parsed}))
    session.step(asks.ask("narrator", run.brief.query, words.choice(_PLANS).format(q=queries[0])), [])
    for item in range(len(book.wishes)):
        for number in range(2 if words.random() < 0.6 else 1):
            parameters = {"page": 1} | shopper.query(item, number)
            hits = _fetch(run, book, item, parameters)
            for place in range(min(2, len(hits))):
                best = book.best(item)[0]
                verdict = {
                    "best_product_id": best,
                    "reason": book.listing(best)["title"][:60],
                    "relevance_score": 9 - place,
                }
                asks.ask("scorer", json.dumps(hits)[:1500], json.dumps(verdict))
            told = asks.ask(
                "narrator", json.dumps(hits)[:1200], _tell(book, item, parameters, hits, words.choice(_TOLD))
            )
            session.step(told, [shown("find_product", parameters, hits)])
    _close(run, shopper, words.choice(_FINAL))


def play_narrator(run: Run) -> None:
    """A search loop with fixed rules; after each step the model writes the thinking for it."""
    shopper, asks, words = run.shopper(_PROGRAM), _Asks(run), run.draws("narrate")
    book, session = shopper.book, run.session
    for item in range(len(book.wishes)):
        parameters = shopper.query(item, 0)
        call = session.call("find_product", parameters)
        hits = call["result"] if isinstance(call["result"], list) else []
        book.seen.take([("find_product", parameters)], [hits])
        shopper.found(item, parameters, hits, silently=True)
        told = _tell(book, item, parameters, hits, words.choice(_TOLD))
        session.step(asks.ask("narrator", f"{run.brief.query}\n{json.dumps(hits)[:900]}", told), [call])
        ids = book.candidates(item)[:4]
        if ids:
            viewed = session.call("view_product_information", {"product_ids": ",".join(ids)})
            book.seen.take([("view_product_information", {})], [viewed["result"]])
            told = shopper.thoughts.on_details(item, ids) or f"I opened {len(ids)} products."
            session.step(asks.ask("narrator", json.dumps(viewed["result"])[:900], told), [viewed])
    _close(run, shopper, words.choice(_FINAL), asks)


class _Asks:
    """The program's questions to its models."""

    def __init__(self, run: Run) -> None:
        habits = run.draws("asks", of_version=True, copied=True)
        parser, scorer = habits.choice(_PARSERS), habits.choice(_SCORERS)
        warmth = habits.choice((0.3, 0.5, 0.7))
        self._run = run
        self._roles: dict[str, tuple[str, dict[str, Any]]] = {
            "parser": (parser, {}),
            "scorer": (scorer, {"temperature": warmth}),
            "narrator": (scorer, {"temperature": round(warmth - 0.2, 1), "max_tokens": habits.choice((400, 600))}),
        }

    def ask(self, role: str, text: str, reply: str) -> str:
        """One question; returns the reply."""
        model, options = self._roles[role]
        messages = [{"role": "system", "content": _ORDERS[role]}, {"role": "user", "content": text}]
        self._run.session.infer(reply, messages, model=model, options=options)
        return reply


def _fetch(run: Run, book: Book, item: int, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Search and view by the program alone; returns the listings."""
    found = run.session.fetch("find_product", parameters)
    hits: list[dict[str, Any]] = found if isinstance(found, list) else []
    book.seen.take([("find_product", parameters)], [hits])
    book.note(item, [hit["product_id"] for hit in hits])
    ids = [hit["product_id"] for hit in hits if hit["product_id"] not in book.seen.details][:8]
    if ids:
        viewed = run.session.fetch("view_product_information", {"product_ids": ",".join(ids)})
        book.seen.take([("view_product_information", {})], [viewed])
    return hits


def _tell(book: Book, item: int, parameters: dict[str, Any], hits: list[dict[str, Any]], wording: str) -> str:
    """A narration of one search."""
    listings = [book.listing(one) for one in book.best(item)[:2]] or hits[:2]
    if not listings:
        return f'The search "{parameters["q"]}" gave nothing.'
    a, b = listings[0], listings[-1]
    return wording.format(
        q=parameters["q"],
        n=len(hits),
        a=f"[{a['product_id']}] {a['title'][:44]}",
        b=f"[{b['product_id']}] {b['title'][:44]}",
        a_price=a["price"],
        b_price=b["price"],
    )


def _close(run: Run, shopper: Shopper, wording: str, asks: _Asks | None = None) -> None:
    """Recommend the best of each item and end, in one step."""
    book, session = shopper.book, run.session
    chosen = [best[0] for item in range(len(book.wishes)) if (best := book.fitting(item) or book.best(item))]
    if not chosen:
        session.step("Nothing was found.", [session.call("terminate", {"status": "failure"})], "Sorry.")
        return
    rival = next((one for one in book.seen.listings if one not in chosen), chosen[0])
    ids = ",".join(chosen + (chosen[:1] if run.mishap == "many_ids" else []))
    think = wording.format(a=chosen[0], b=rival)
    if asks is not None:
        asks.ask("narrator", f"Chosen: {ids}", think)
    calls = [session.call("recommend_product", {"product_ids": ids}), session.call("terminate", {"status": "success"})]
    session.step(think, calls, "Done.")
