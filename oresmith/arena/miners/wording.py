"""Which words of a request ask for which item: what a policy searches with."""

from __future__ import annotations

import re
from itertools import pairwise

from oresmith.arena.miners.brief import Brief, Wish

MOST_WORDS = 12
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+/'&:*-]*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_MONEY = re.compile(
    r"(?i)\b(?:voucher|budget|coupon|discount|promo|spend|spending|% off|pesos? off|checkout|wallet|valid only"
    r"|total price)"
)
_BREAK = re.compile(
    r"(?i)^(?:first(?:ly)?|second(?:ly)?|third(?:ly)?|fourth(?:ly)?|lastly|finally|next|then|also|another|plus|besides)$"
)
_ARTICLES = ("a", "an", "one", "some")
_EDGES = ".:'*-/"
_STOP = frozenset(
    """a an the i i'm i'd im me my we you your it its is are be been was were that this these those there here which who
    whose where what one two three four both each any some all every same single only just also and or but with without
    for from of in on at by to into as than between range ranging around about over above under below more less least
    most up want wants need needs looking look find finding search searching show help get buy buying please would like
    could can should may must will shop shops store stores seller sellers sell sells selling sold offer offers offering
    offered carry carries stock stocks item items product products thing things option options first second third fourth
    firstly secondly lastly finally next then another plus besides together everything include includes including
    included available availability come comes coming priced price prices pricing cost costs costing worth peso pesos
    php budget voucher free shipping delivery delivers deliver cash official lazmall lazflash flash sale deal deals cod
    paid pay payable payment payments service support supports supported offered preferably prefer ideally make made
    having has have long goes go right something kind type size color colour when if so do does not no cheaper pricier
    expensive higher lower exceed exceeding exceeds maximum minimum max min listed tagged following exactly them they
    who's let's that's thanks thank while perks perk complimentary supporting""".split()
)


def item_words(brief: Brief) -> list[list[str]]:
    """Return the words that ask for each item, in the order of the items, at most `MOST_WORDS` each.

    The request is cut into as many spans as it has items, where the words of each item's constraints fall best into its
    own span. Sentences about money and words of no meaning to a search are left out.
    """
    words, breaks = _words(brief.query)
    wishes = brief.wishes or (Wish(),)
    found = []
    for (start, end), wish in zip(_spans(words, breaks, wishes), wishes, strict=True):
        found.append(_content(words[start:end], wish) or value_words(wish) or words[start:end][:4])
    return found


def value_words(wish: Wish) -> list[str]:
    """The words of a wish's attribute and SKU values, in order, each once."""
    return list(dict.fromkeys(word for _, value in wish.pairs for word in words_of(value)))


def words_of(text: str) -> list[str]:
    """Words of a text, lower case, without punctuation around them."""
    return [word.strip(_EDGES) for word in _WORD.findall(text.lower())]


def _words(query: str) -> tuple[list[str], list[int]]:
    """All words of the request but those about money, and the places where a new item may begin."""
    paragraphs = query.split("\n\n")
    wanted = [part for part in paragraphs if not _MONEY.search(part)] or paragraphs
    sentences = [part for paragraph in wanted for part in _SENTENCE.split(paragraph) if len(part) > 3]
    told = [part for part in sentences if not _MONEY.search(part)] or sentences or [query]
    words: list[str] = []
    breaks: list[int] = []
    for sentence in told:
        breaks.append(len(words))
        end = 0
        for match in _WORD.finditer(sentence):
            word = match.group().lower().strip(_EDGES)
            gap = sentence[end : match.start()]
            listed = ("," in gap or words[-1:] == ["and"]) and word in _ARTICLES
            if word and (_BREAK.match(word) or ";" in gap or "(" in gap or listed):
                breaks.append(len(words))
            words.append(word)
            end = match.end()
    return words, breaks


def _spans(words: list[str], breaks: list[int], wishes: tuple[Wish, ...]) -> list[tuple[int, int]]:
    """Cut the words at breaks so that the constraints of each wish fall into its span: the best sum over all cuts."""
    if len(wishes) == 1:
        return [(0, len(words))]
    places = sorted({0, *breaks, len(words)})
    if len(places) < 2 * len(wishes):
        places = sorted({*places, *(place for place, word in enumerate(words) if word == "and")})
    wanted = [set(value_words(wish)) | {f"{bound:g}" for bound in wish.bounds if bound is not None} for wish in wishes]
    even = len(words) / len(wishes)
    best: list[tuple[float, list[int]]] = [(0.0, [0])] + [(float("-inf"), [0])] * (len(places) - 1)
    for row in wanted:
        best = [
            max(
                (best[before][0] + _gain(words[start:end], row, even), [*best[before][1], end])
                for before, start in enumerate(places[: after + 1])
            )
            for after, end in enumerate(places)
        ]
    cuts = best[-1][1]
    return list(pairwise(cuts))


def _gain(words: list[str], wanted: set[str], even: float) -> float:
    """How well a span fits a wish: the share of its values that stand there, and some words to search with."""
    if not any(word not in _STOP for word in words):
        return -3.0
    hits = len(wanted.intersection(words)) / len(wanted) if wanted else 0.3
    return 2.0 * hits - 0.3 * abs(len(words) - even) / even


def _content(words: list[str], wish: Wish) -> list[str]:
    """The words worth a search: no stop words, no bounds of the price, each once."""
    bounds = {f"{bound:g}" for bound in wish.bounds if bound is not None}
    kept = [word for word in words if len(word) > 1 and word not in _STOP and word.replace(",", "") not in bounds]
    return list(dict.fromkeys(kept))[:MOST_WORDS]
