"""Signal 1, ordered echo: does each tool call of a step stand in the model's reply of that step's own time window?"""

from __future__ import annotations

from typing import Any

import msgspec

from oresmith.evidence.origin_facts import CallEcho, CallLabel, EchoFacts, Match
from oresmith.evidence.origin_log import Log
from oresmith.evidence.origin_steps import StepCalls
from oresmith.evidence.toolcall_text import TextCall, canonical

MAX_EXAMINED = 2_000
"""Tool calls of one trajectory that are looked up; the rest is labelled not_examined."""
_LOOSE_POOL = 64
_MENTION_VALUES = 8
_MENTION_TEXTS = 8
_DEFAULTS = frozenset({"null", "", "{}", "1", "0", "false", "default"})
"""Argument values that a program adds by itself without choosing anything."""
_LABELS: dict[Match, CallLabel] = {
    "exact": "found",
    "loose": "found",
    "altered": "not_found",
    "absent": "not_found",
    "no_inference": "not_found",
    "no_reply": "not_found",
    "dispatch": "not_found",
}


class Pool(msgspec.Struct):
    """Calls of the replies of one window, used up as steps claim them."""

    calls: list[TextCall] = []
    keys: list[tuple[str, str]] = []
    free: dict[tuple[str, str], list[int]] = {}
    """Places of unclaimed calls by key, last first."""
    used: set[int] = set()
    parts: list[dict[str, str] | None] = []
    """Canonical arguments of the first `_LOOSE_POOL` calls."""
    names: set[str] = set()
    cursor: int = -1
    """Place claimed last."""
    texts: list[str] = []
    """Of replies in which no call was read."""
    dropped: bool = False
    """A reply of the window has no text in the log."""
    replies: int = 0


def echo(calls: list[StepCalls], log: Log) -> list[CallEcho]:
    """Look every call up in the replies of its window.

    Args:
        calls: of each step.
        log: with one window a step.

    Returns:
        One entry a call, in order. A call whose reply text was dropped, or whose step has no usable time, is unknown.
    """
    found: list[CallEcho] = []
    pool = Pool()
    for index, own in enumerate(calls):
        carried = not log.windows[index]
        if not carried:
            pool = _pool(log, index)
        for place in range(len(own.names)):
            if len(found) >= MAX_EXAMINED:
                match: Match = "not_examined"
                disordered = False
            else:
                match, disordered = _look_up(own, place, pool, log, index)
            hit = match in ("exact", "loose")
            found.append(
                CallEcho(
                    step=index,
                    call=place,
                    label=_LABELS.get(match, "unknown"),
                    match=match,
                    carried=carried and hit,
                    out_of_order=disordered,
                )
            )
    return _doubt_spread(found, calls, log)


def _pool(log: Log, index: int) -> Pool:
    inferences = [log.inferences[at] for at in log.windows[index]]
    replies = [one.reply for one in inferences if one.reply is not None]
    pool = Pool(
        texts=[reply.text for reply in replies if not reply.calls][:_MENTION_TEXTS],
        dropped=any(one.dropped for one in inferences),
        replies=len(replies),
    )
    pool.calls = [call for reply in replies for call in reply.calls]
    pool.keys = [(call.name, canonical(call.arguments)) for call in pool.calls]
    pool.names = {call.name for call in pool.calls}
    pool.parts = [parts(call.arguments) for call in pool.calls[:_LOOSE_POOL]]
    for place in range(len(pool.keys) - 1, -1, -1):
        pool.free.setdefault(pool.keys[place], []).append(place)
    return pool


def _look_up(own: StepCalls, place: int, pool: Pool, log: Log, index: int) -> tuple[Match, bool]:
    """How one call stands in the pool, and whether it stands before one claimed earlier."""
    at = _claim(pool, own.keys[place], own.arguments[place])
    if at is None:
        return _why_not(own.names[place], own.arguments[place], pool, log, index), False
    disordered = at < pool.cursor
    pool.cursor = max(pool.cursor, at)
    return ("exact" if pool.keys[at] == own.keys[place] else "loose"), disordered


def _why_not(name: str, arguments: Any, pool: Pool, log: Log, index: int) -> Match:
    """What an unclaimed call is: unknown where a time or a text is missing, else not found."""
    if not log.timed[index] or log.unplaced or log.untimed:
        return "no_window"
    if not log.windows[index]:
        return "no_inference"
    if pool.dropped or not pool.replies:
        return "text_dropped" if pool.dropped else "no_reply"
    if name in pool.names:
        return "altered"
    return "mentioned" if any(_mentions(text, name, arguments) for text in pool.texts) else "absent"


def _claim(pool: Pool, key: tuple[str, str], arguments: Any) -> int | None:
    """Take a matching unclaimed call out of the pool: an equal one, else one that `contains` says is the same."""
    places = pool.free.get(key, [])
    while places:
        at = places.pop()
        if at not in pool.used:
            pool.used.add(at)
            return at
    called: dict[str, str] | None = None
    for at, replied in enumerate(pool.parts):
        if at in pool.used or replied is None or pool.keys[at][0] != key[0]:
            continue
        called = parts(arguments) if called is None else called
        if called is not None and contains(replied, called):
            pool.used.add(at)
            return at
    return None


def parts(arguments: Any) -> dict[str, str] | None:
    """Arguments by name, each canonical; None where they are no object."""
    return {str(key): canonical(value) for key, value in arguments.items()} if isinstance(arguments, dict) else None


def contains(replied: dict[str, str], called: dict[str, str]) -> bool:
    """Whether a program ran a reply's call with arguments dropped or harmless defaults added, and no value changed.

    Args:
        replied: arguments that the model gave, from `parts`.
        called: arguments that the step states, from `parts`.

    Returns:
        True where the two share an argument, every shared one is equal, and what only the step has is a default. A call
        without arguments never contains one with some: there the program chose them.
    """
    shared = replied.keys() & called.keys()
    if not shared or any(replied[key] != called[key] for key in shared):
        return False
    return all(value in _DEFAULTS for key, value in called.items() if key not in shared)


def _mentions(text: str, name: str, arguments: Any) -> bool:
    """Whether a text names a tool and the call's values, in whatever notation."""
    if not name or name not in text:
        return False
    values = list(arguments.values()) if isinstance(arguments, dict) else []
    plain = [value if isinstance(value, str) else canonical(value) for value in values[:_MENTION_VALUES]]
    plain = [value for value in plain if value]
    return bool(plain) and all(value in text for value in plain)


def _doubt_spread(found: list[CallEcho], calls: list[StepCalls], log: Log) -> list[CallEcho]:
    """An agent seen to spread one reply over several steps may do so with a reply whose text was dropped."""
    if not any(call.carried for call in found):
        return found
    source = -1
    doubtful = set()
    for index in range(len(calls)):
        if log.windows[index]:
            source = index
        elif source >= 0 and any(log.inferences[at].dropped for at in log.windows[source]):
            doubtful.add(index)
    return [
        msgspec.structs.replace(call, label="unknown", match="text_dropped")
        if call.match == "no_inference" and call.step in doubtful
        else call
        for call in found
    ]


def echo_facts(calls: list[StepCalls], log: Log, found: list[CallEcho], closing: int) -> EchoFacts:
    """Sum the echo over the trajectory."""
    counted = [call for call in found if call.step != closing]
    labels = [call.label for call in counted]
    return EchoFacts(
        found=labels.count("found"),
        not_found=labels.count("not_found"),
        unknown=labels.count("unknown"),
        closing=len(found) - len(counted),
        altered=sum(call.match == "altered" for call in counted),
        carried=sum(call.carried for call in counted),
        out_of_order=sum(call.out_of_order for call in counted),
        anywhere=_anywhere([own for index, own in enumerate(calls) if index != closing], log),
    )


def _anywhere(calls: list[StepCalls], log: Log) -> int:
    """Calls that stand in any reply, each reply's call counted once."""
    left: dict[tuple[str, str], int] = {}
    for one in log.inferences:
        for call in one.reply.calls if one.reply is not None else []:
            key = (call.name, canonical(call.arguments))
            left[key] = left.get(key, 0) + 1
    hits = 0
    for own in calls:
        for key in own.keys:
            if left.get(key, 0) > 0:
                left[key] -= 1
                hits += 1
    return hits
