"""How far two sets of rollouts of the same problems agree, reply by reply: other engines, batch sizes or machines.

A sample is compared until its first difference, because everything after it has another past.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from oresmith.errors import OresmithError
from oresmith.evaluation.records import ChatReply
from oresmith.evaluation.writing import REQUESTS
from oresmith.lines.framing import BadLine, Limits, read_lines
from oresmith.records import Record

Difference = Literal["prompt", "text", "finish", "turns"]
"""Other token ids were given, other text came, it ended in another way, or one of the two has more turns."""


class Agreement(Record, frozen=True):
    """What two sets have in common."""

    samples: int
    """That both hold."""
    alike: int
    """Of these, without any difference."""
    turns: int
    """Replies compared, first differences included."""
    prompts: int
    """Of these, replies for which both engines say what ids they were given."""
    differences: dict[str, int]
    """Samples by the kind of their first difference."""
    first: list[str]
    """Keys of the first differences, at most 20."""
    missing: int
    """Samples that only one of the two holds."""


class _Line(msgspec.Struct):
    key: str
    reply: ChatReply


_LINE = msgspec.json.Decoder(_Line)
_OWN = Limits(max_ratio=2**20)
"""Of a file of ours: replies can be very much alike."""


def replies_of(folder: Path) -> dict[str, ChatReply]:
    """The replies of a set of rollouts, by the keys of their requests.

    Raises:
        OresmithError: no such file, or not of this form.
    """
    path, found = folder / REQUESTS, {}
    if not path.is_file():
        raise OresmithError("no requests of rollouts", where=str(path))
    for line in read_lines(path, _OWN):
        if isinstance(line, BadLine):
            raise OresmithError("the requests cannot be read", where=f"{path}:{line.number}", got=line.reason.value)
        try:
            read = _LINE.decode(line.data)
        except msgspec.MsgspecError as error:
            raise OresmithError("not a request", where=f"{path}:{line.number}", got=str(error)[:200]) from error
        found[read.key] = read.reply
    return found


def agreement(left: Mapping[str, ChatReply], right: Mapping[str, ChatReply]) -> Agreement:
    """Compare two sets of replies by their keys (problem, sample, turn)."""
    ours, theirs = _samples(left), _samples(right)
    both = sorted(ours.keys() & theirs.keys())
    differences: Counter[str] = Counter()
    first, turns, prompts = [], 0, 0
    for name in both:
        for turn in range(max(len(ours[name]), len(theirs[name]))):
            one, other = ours[name].get(turn), theirs[name].get(turn)
            turns += 1
            prompts += bool(one and other and one.prompt_sha256 and other.prompt_sha256)
            found = _difference(one, other)
            if found is not None:
                differences[found] += 1
                first.append(f"{name}/{turn}")
                break
    return Agreement(
        samples=len(both),
        alike=len(both) - len(first),
        turns=turns,
        prompts=prompts,
        differences=dict(sorted(differences.items())),
        first=first[:20],
        missing=len(ours.keys() ^ theirs.keys()),
    )


def _samples(replies: Mapping[str, ChatReply]) -> dict[str, dict[int, ChatReply]]:
    found: dict[str, dict[int, ChatReply]] = {}
    for key, reply in replies.items():
        name, _, turn = key.rpartition("/")
        found.setdefault(name, {})[int(turn)] = reply
    return found


def _difference(one: ChatReply | None, other: ChatReply | None) -> Difference | None:
    if one is None or other is None:
        return "turns"
    if one.prompt_sha256 and other.prompt_sha256 and one.prompt_sha256 != other.prompt_sha256:
        return "prompt"
    if (one.text, one.tool_calls) != (other.text, other.tool_calls):
        return "text"
    return None if one.finish == other.finish else "finish"
