"""Facts of structure: what the hard rejects ask, what ranking asks, and what tells equal call sequences apart."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from itertools import groupby
from typing import Any, NamedTuple

from oresmith.arena.scoring import recommended_ids
from oresmith.records import Message, Record, ToolCall, Trajectory

FIND, VIEW, RECOMMEND, TERMINATE = "find_product", "view_product_information", "recommend_product", "terminate"
KNOWN = (FIND, VIEW, RECOMMEND, TERMINATE)
OTHER = "other"
"""Name under which calls of unknown tools are counted: their own names are the miner's text."""

_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"\w+")
_MASKED = re.compile(r"[0-9a-f]{8,}|\d+(?:[.,:-]\d+)*")


class StructureEvidence(Record, frozen=True):
    """Structure of one trajectory."""

    n_steps: int
    """Agent steps: the source's, or the assistant messages where the source declares none."""
    n_calls: int
    calls_by_tool: dict[str, int]
    """Calls of the four SN15 tools, and `other`; tools that were not called are left out."""
    unparsable_arguments: int
    """Calls whose arguments are not a JSON object."""
    unpaired_calls: int
    """Calls without exactly one result after them."""
    orphan_results: int
    """Results that answer no call before them."""
    recommend_calls: int
    recommended_ids: list[str]
    """Of the last recommend_product, the one that is scored; empty where it cannot be parsed."""
    terminated: bool
    terminate_status: str | None
    """success, failure, or other, of the last terminate call; None without one."""
    think_then_stop: bool
    """No recommendation, or no terminate."""
    depth: int
    """Messages that search or view, before the first recommendation."""
    distinct_queries: int
    reformulations: int
    """Distinct queries after the first. Case, order of words, punctuation and repeated words do not make a new one."""
    recommended_viewed: int
    """Recommended ids that were viewed before the last recommendation."""
    verified_before_recommend: bool
    """At least one id is recommended, and each was viewed before."""
    max_repeat: int
    """Times that the commonest call (name and arguments) was made; 0 without calls."""
    longest_run: int
    """Length of the longest run of equal calls in a row."""
    call_sequence: str | None
    """sha256 over names and canonical arguments of the calls in order, without ids and results; None without calls."""
    thinking_share: float | None
    """Characters of thinking over all that the assistant wrote (thinking, content, arguments); None where it wrote
    nothing."""
    templated_thinking: float | None
    """Share of the steps that think whose thinking equals another's once numbers and ids are masked; None where no step
    thinks."""


class _Call(NamedTuple):
    name: str
    arguments: dict[str, Any] | None
    """None where they are not a JSON object."""
    canonical: str
    message: int


def structure(trajectory: Trajectory) -> StructureEvidence:
    """Work the structure out.

    Args:
        trajectory: any trajectory.

    Returns:
        Facts, no thresholds. Never raises.
    """
    messages = trajectory.messages
    calls = [_read(call, place) for place, message in enumerate(messages) for call in message.tool_calls]
    names = Counter(call.name if call.name in KNOWN else OTHER for call in calls)
    unpaired, orphans = _pairing(messages)
    ids, viewed = _recommendation(calls)
    queries = len(_queries(calls))
    repeats = [call.canonical for call in calls]
    terminates = [call for call in calls if call.name == TERMINATE]
    assistants = [message for message in messages if message.role == "assistant"]
    return StructureEvidence(
        n_steps=len(trajectory.steps) or len(assistants),
        n_calls=len(calls),
        calls_by_tool={name: names[name] for name in (*KNOWN, OTHER) if names[name]},
        unparsable_arguments=sum(call.arguments is None for call in calls),
        unpaired_calls=unpaired,
        orphan_results=orphans,
        recommend_calls=names[RECOMMEND],
        recommended_ids=ids,
        terminated=bool(terminates),
        terminate_status=_status(terminates[-1]) if terminates else None,
        think_then_stop=not (names[RECOMMEND] and terminates),
        depth=_depth(calls),
        distinct_queries=queries,
        reformulations=max(0, queries - 1),
        recommended_viewed=viewed,
        verified_before_recommend=bool(ids) and viewed == len(ids),
        max_repeat=max(Counter(repeats).values(), default=0),
        longest_run=max((sum(1 for _ in run) for _, run in groupby(repeats)), default=0),
        call_sequence=_sequence_hash(repeats),
        thinking_share=_thinking_share(assistants),
        templated_thinking=_templated(assistants),
    )


def _read(call: ToolCall, message: int) -> _Call:
    """Parse a call's arguments. Arguments that do not parse are compared as text, blanks apart."""
    try:
        value = json.loads(call.arguments)
        canonical = json.dumps([call.name, value], sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        text = _SPACES.sub(" ", call.arguments).strip()
        return _Call(call.name, None, json.dumps([call.name, "unparsable", text]), message)
    return _Call(call.name, value if isinstance(value, dict) else None, canonical, message)


def _pairing(messages: list[Message]) -> tuple[int, int]:
    """Calls without exactly one later result (or that share their id), and results without an earlier call."""
    made: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    orphans = 0
    for message in messages:
        made.update(call.id for call in message.tool_calls)
        if message.role == "tool":
            key = message.tool_call_id
            if key is not None and key in made:
                answered[key] += 1
            else:
                orphans += 1
    unpaired = sum(times for key, times in made.items() if times != 1 or answered[key] != 1)
    return unpaired, orphans


def _ids(call: _Call) -> list[str]:
    return recommended_ids((call.arguments or {}).get("product_ids"))


def _recommendation(calls: list[_Call]) -> tuple[list[str], int]:
    """Ids of the last recommendation, and how many of them an earlier call viewed."""
    last = max((place for place, call in enumerate(calls) if call.name == RECOMMEND), default=None)
    if last is None:
        return [], 0
    viewed = {product for call in calls[:last] if call.name == VIEW for product in _ids(call)}
    ids = _ids(calls[last])
    return ids, sum(product in viewed for product in ids)


def _depth(calls: list[_Call]) -> int:
    rounds = set()
    for call in calls:
        if call.name == RECOMMEND:
            break
        if call.name in (FIND, VIEW):
            rounds.add(call.message)
    return len(rounds)


def _queries(calls: list[_Call]) -> set[str]:
    """Queries as sets of words, so that only another word makes another query."""
    texts = ((call.arguments or {}).get("q") for call in calls if call.name == FIND)
    return {" ".join(sorted(set(_WORD.findall(text.casefold())))) for text in texts if isinstance(text, str)} - {""}


def _status(call: _Call) -> str:
    status = (call.arguments or {}).get("status")
    return status if status in ("success", "failure") else OTHER


def _sequence_hash(canonical: list[str]) -> str | None:
    if not canonical:
        return None
    return sha256("\n".join(canonical).encode("utf-8", "surrogatepass")).hexdigest()


def _thinking_share(messages: list[Message]) -> float | None:
    thinking = sum(len(message.reasoning_content or "") for message in messages)
    arguments = sum(len(call.arguments) for message in messages for call in message.tool_calls)
    written = thinking + arguments + sum(len(message.content or "") for message in messages)
    return thinking / written if written else None


def _templated(messages: list[Message]) -> float | None:
    masks = Counter(_masked(messages))
    steps = sum(masks.values())
    return sum(times for times in masks.values() if times > 1) / steps if steps else None


def _masked(messages: list[Message]) -> Iterator[str]:
    """Thinking with numbers and ids masked, case and blanks evened out."""
    for message in messages:
        thinking = message.reasoning_content
        if thinking and thinking.strip():
            yield _SPACES.sub(" ", _MASKED.sub("#", thinking.casefold())).strip()
