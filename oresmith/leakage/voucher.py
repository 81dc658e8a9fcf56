"""Find and cut the voucher sentences that voucher queries carry after the request itself.

The wording is not relied upon. With the problem's voucher at hand its own numbers lead (budget, threshold, discount,
cap); without it the text must speak of a budget with a number, then of a voucher with at least two more numbers.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from itertools import islice
from typing import Any

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_BREAK = re.compile(r"[.!?;\n](?=\s|$)|\n")
_BUDGET = re.compile(r"budget\b(?:\W+[^\W\d]+){0,4}?\W+(?=\d)")
_TOPICS = ("budget", "voucher", "coupon", "discount")
_LEAD_IN = re.compile(
    r"(?:\b(?:my|our|the|a|an|total|only|i|we|have|has|with|but|and|also|so|please|note|is|can|voucher|coupon)\b\W*)+$"
)

REACH = 60
"""Characters that may lie between a sentence's start and the first voucher number in it."""


@lru_cache(maxsize=1 << 16)
def _number(text: str) -> float:
    return round(float(text.replace(",", "")), 6) if len(text) <= 40 else math.inf


def _voucher_numbers(voucher: Any) -> frozenset[float]:
    """The numbers that a voucher's sentences state; a share also as a percentage."""
    if not isinstance(voucher, dict):
        return frozenset()
    found = set()
    for field in ("budget", "threshold", "face_value", "discount", "cap"):
        value = voucher.get(field)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e15:
            found.add(round(float(value), 6))
            if field == "discount" and value <= 1:
                found.add(round(100.0 * value, 6))
    return frozenset(found)


def _start_by_numbers(folded: str, numbers: frozenset[float]) -> int | None:
    """Start of the shortest tail that states every voucher number which the text states; None for fewer than two."""
    last: dict[float, int] = {}
    for match in _NUMBER.finditer(folded):
        value = _number(match[0])
        if value in numbers:
            last[value] = match.start()
    return min(last.values()) if len(last) >= 2 else None


def _start_by_words(folded: str) -> int | None:
    """Position of the last budget's number behind which a voucher with two numbers follows."""
    if "budget" not in folded:
        return None
    start = None
    for match in _BUDGET.finditer(folded):
        start = match.end()
    if start is None or not any(folded.find(topic, start) >= 0 for topic in _TOPICS[1:]):
        return None
    return start if sum(1 for _ in islice(_NUMBER.finditer(folded, start), 3)) == 3 else None


def _sentence_start(folded: str, at: int) -> int:
    """Where the clause of the number at `at` begins: its sentence, or its topic word where there is no sentence end."""
    floor = max(0, at - REACH)
    begin = floor if floor == 0 else -1
    for match in _BREAK.finditer(folded, floor, at):
        begin = match.end()
    begin_at = max(floor, begin)
    topic = max(folded.rfind(topic, begin_at, at) for topic in _TOPICS)
    if topic < 0:
        return begin if begin >= 0 else at
    lead = _LEAD_IN.search(folded, begin_at, topic)
    return lead.start() if lead else topic


def _end(folded: str, start: int, numbers: frozenset[float]) -> int:
    """End of the last sentence from `start` on that speaks of the voucher."""
    last = max(start, *(folded.rfind(topic, start) for topic in _TOPICS))
    for match in _NUMBER.finditer(folded, last) if numbers else ():
        if _number(match[0]) in numbers:
            last = match.end()
    stop = _BREAK.search(folded, last)
    return stop.end() if stop else len(folded)


def without_voucher(folded: str, voucher: Any = None) -> tuple[str, bool]:
    """A folded query without its voucher text.

    Args:
        folded: the query as `text.fold` returns it.
        voucher: the problem's voucher object, None where it has none.

    Returns:
        The rest of the query, and whether voucher text was found. Only the clause from the voucher's first number's
        sentence to the last sentence about it goes; what stands before and after stays.
    """
    if voucher is None and "budget" not in folded:
        return folded, False
    numbers = _voucher_numbers(voucher)
    starts = [_start_by_numbers(folded, numbers) if numbers else None, _start_by_words(folded)]
    at = min((start for start in starts if start is not None), default=None)
    if at is None:
        return folded, False
    start = _sentence_start(folded, at)
    return f"{folded[:start]} {folded[_end(folded, at, numbers) :]}", True
