"""How a success came about: a right id at the end of a wrong search is luck, and nothing to learn from.

Filtering by the outcome alone keeps such rollouts (3 of 65 in a trial), so the calls are judged, too: by the request
and by what the model was shown, never by what only the catalogue knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from oresmith.arena.scoring import recommended_ids
from oresmith.arena.toolschema import check_call
from oresmith.arena.views import visible_ids
from oresmith.evaluation.records import Rollout
from oresmith.evidence.structure import FIND, RECOMMEND, VIEW
from oresmith.leakage.text import fold, token, tokens, words
from oresmith.records import Message, Problem

_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_MOST = 1e15
_MONEY = ("budget", "threshold", "face_value", "cap", "price_after_voucher")
"""Amounts of a voucher, all of which its text names."""


class Fault(StrEnum):
    """Why a rollout is not trained on, the first that applies. The value is what is counted."""

    sentence: str

    def __new__(cls, code: str, sentence: str) -> Fault:
        """Attach the sentence to the member."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    FAILED = "failed", "The strict scorer does not call it a success."
    NOT_TERMINATED = "not_terminated", "It was not ended by a call of terminate."
    MALFORMED = "malformed", "A reply breaks the form."
    INVALID_CALL = "invalid_call", "A call breaks the tools' schema, or its result is an error."
    RECOMMENDED_AGAIN = "recommended_again", "It recommends more than once."
    MORE_IDS = "more_ids", "It recommends more products than the request asks for."
    UNSEEN_ID = "unseen_id", "A product was viewed or recommended that no earlier search had shown."
    FOREIGN_WORDS = "foreign_words", "The search that showed the product has words that the request lacks."
    FOREIGN_FILTER = "foreign_filter", "A filter of that search is not what the request asks for."
    SAME_CALLS = "same_calls", "Another one of the problem makes the same calls."
    PROBLEM_CAP = "problem_cap", "The problem has enough shorter ones."
    CLUSTER_CAP = "cluster_cap", "The leak cluster has enough."
    UNRENDERED = "unrendered", "It gives no training row; the account of the rendering says why."
    BEYOND_MIX = "beyond_mix", "There are enough for their share of the rows."


class Call(NamedTuple):
    """A call of a conversation, in its order."""

    name: str
    arguments: dict[str, Any]
    """Empty where they are no object."""
    shown: frozenset[str]
    """Product ids that the model was shown of its result."""
    before: frozenset[str]
    """Those that it had been shown before it wrote the call."""
    texts: tuple[str, ...]
    """Results that it had been shown before."""
    valid: bool


def conduct_fault(rollout: Rollout, problem: Problem, view: str, request_words: float = 1.0) -> Fault | None:
    """Why a success is not worth learning from; None where it is.

    Args:
        rollout: one that the strict scorer calls a success.
        problem: that it was played on.
        view: that it was shown results in.
        request_words: least share of the words of a deciding search that the request holds; inflections of number,
            function words and joined spellings aside.

    Raises:
        OresmithError: no such view. Nothing else, whatever was said and found.
    """
    calls = list(read_calls(rollout, view))
    checks = {
        Fault.NOT_TERMINATED: rollout.ended != "terminated",
        Fault.MALFORMED: rollout.malformed > 0,
        Fault.INVALID_CALL: not all(call.valid for call in calls),
        Fault.RECOMMENDED_AGAIN: sum(call.name == RECOMMEND for call in calls) != 1,
        Fault.MORE_IDS: len(_recommended(calls)) > len(_rewards(problem)),
        Fault.UNSEEN_ID: not all(call.before.issuperset(_ids(call)) for call in calls),
    }
    found = next((fault for fault, applies in checks.items() if applies), None)
    return found or _search_fault(calls, _Request(problem), request_words)


def calls_key(messages: Iterable[Message]) -> tuple[tuple[str, str], ...]:
    """The calls of a conversation: equal for two that do the same, whatever they think or say."""
    made = [call for message in messages for call in message.tool_calls]
    return tuple((call.name, json.dumps(_object(call.arguments), sort_keys=True)) for call in made)


def read_calls(rollout: Rollout, view: str) -> Iterator[Call]:
    """The calls of a rollout with what had been shown before each.

    Args:
        rollout: with its results.
        view: that they were shown in.

    Raises:
        OresmithError: no such view.
    """
    answers = {message.tool_call_id: message.content or "" for message in rollout.messages if message.role == "tool"}
    results = iter(rollout.results)
    before: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()
    for message in rollout.messages:
        fresh: set[str] = set()
        for call in message.tool_calls:
            arguments, result, text = _object(call.arguments), next(results, None), answers.get(call.id, "")
            valid = check_call(call.name, arguments).verdict == "valid" and not text.startswith("Error:")
            shown = frozenset(visible_ids(view, call.name, result) if call.name in (FIND, VIEW) else ())
            yield Call(call.name, arguments or {}, shown, before, texts, valid)
            fresh |= shown
        # Only with the next turn: the calls of one reply were written before any of their results.
        before |= fresh
        texts += tuple(answers.get(call.id, "") for call in message.tool_calls)


class _Request:
    """What a request asks for, as a search could put it."""

    def __init__(self, problem: Problem) -> None:
        text = fold(problem.query or "")
        said = words(text)
        self._tokens = tokens([*said, *map("".join, pairwise(said))])
        self._numbers = {float(found) for found in _NUMBER.findall(text)} | set(_amounts(problem))
        self._services = {one for reward in _rewards(problem) for one in _texts(reward.get("service"))}

    def share(self, query: object) -> float:
        """The share of a search's words that the request holds; 0 for a search without a word."""
        asked = words(fold(query if isinstance(query, str) else ""))
        held = [token(one) in self._tokens for one in asked]
        for place, both in enumerate(map("".join, pairwise(asked))):
            if token(both) in self._tokens:
                held[place] = held[place + 1] = True
        counted = [one for one, word in zip(held, asked, strict=True) if token(word)]
        return sum(counted) / len(counted) if counted else 0.0

    def asks_for(self, search: Call) -> bool:
        """Whether each filter of a search is the request's; a seller must have been seen before."""
        price, service, seller = (search.arguments.get(name) for name in ("price", "service", "shop_id"))
        bounds = [float(one) for one in str(price or "").split("-") if one]
        wanted = [part.strip() for part in str(service or "").split(",") if part.strip()]
        return (
            all(one == 0.0 or one in self._numbers for one in bounds)
            and self._services.issuperset(wanted)
            and (seller is None or _stands(str(seller), search.texts))
        )


def _search_fault(calls: Sequence[Call], request: _Request, least: float) -> Fault | None:
    """What is wrong with the last search before the recommendation that showed a recommended product."""
    for one in _recommended(calls):
        searches = [call for call in _before_recommending(calls) if call.name == FIND and one in call.shown]
        if not searches:
            return Fault.UNSEEN_ID
        if request.share(searches[-1].arguments.get("q")) < least:
            return Fault.FOREIGN_WORDS
        if not request.asks_for(searches[-1]):
            return Fault.FOREIGN_FILTER
    return None


def _stands(word: str, texts: Iterable[str]) -> bool:
    whole = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    return any(whole.search(text) for text in texts)


def _before_recommending(calls: Sequence[Call]) -> Iterator[Call]:
    return takewhile(lambda call: call.name != RECOMMEND, calls)


def _recommended(calls: Sequence[Call]) -> Sequence[str]:
    return next((_ids(call) for call in calls if call.name == RECOMMEND), ())


def _ids(call: Call) -> Sequence[str]:
    """The products that a call names."""
    return recommended_ids(call.arguments.get("product_ids")) if call.name in (VIEW, RECOMMEND) else ()


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _rewards(problem: Problem) -> list[dict[str, Any]]:
    found = problem.reward if isinstance(problem.reward, list) else [problem.reward]
    return [reward for reward in found if isinstance(reward, dict)]


def _amounts(problem: Problem) -> Iterator[float]:
    """The amounts that the problem states beside its words: bounds of prices, and those of a voucher."""
    voucher = problem.voucher if isinstance(problem.voucher, dict) else {}
    found: list[object] = [voucher.get(name) for name in _MONEY]
    for reward in _rewards(problem):
        ranges = reward.get("price")
        for entry in ranges if isinstance(ranges, list) else []:
            for bounds in entry.values() if isinstance(entry, dict) else []:
                found += bounds if isinstance(bounds, list) else []
    return (float(one) for one in found if isinstance(one, int | float) and abs(one) < _MOST)


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
