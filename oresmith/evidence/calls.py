"""Calls against the tool schema: how many are valid, name an unknown tool, or carry arguments that do not fit."""

from __future__ import annotations

import re
from collections import Counter

from oresmith.arena.toolschema import check_call_json
from oresmith.records import Record, Trajectory

QUOTED = re.compile(r"(?s)(unknown field|Invalid enum value) .*")
"""The two faults that quote the call itself; the others speak in the schema's words."""
MAX_FAULTS = 8
"""Different faults that a row's evidence names; their count is complete."""


class CallEvidence(Record, frozen=True):
    """Verdicts over all calls of a trajectory."""

    calls: int
    unknown_tool: int
    invalid: int
    faults: list[str]
    """The commonest faults, by our schema's words, at most `MAX_FAULTS`."""


def _own_words(reason: str) -> str:
    """The fault without what it quotes of the call: names of arguments and values are the trace's text."""
    return QUOTED.sub(r"\1", reason)


def calls(trajectory: Trajectory) -> CallEvidence:
    """Check every call of every message."""
    verdicts: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for message in trajectory.messages:
        for call in message.tool_calls:
            check = check_call_json(call.name, call.arguments)
            verdicts[check.verdict] += 1
            if check.verdict == "invalid":
                faults[_own_words(check.reason)] += 1
    commonest = sorted(faults, key=lambda fault: (-faults[fault], fault))[:MAX_FAULTS]
    return CallEvidence(
        calls=sum(verdicts.values()),
        unknown_tool=verdicts["unknown_tool"],
        invalid=verdicts["invalid"],
        faults=commonest,
    )
