"""How far a rollout's calls agree with those of a teacher's trajectory of the same problem, step by step.

A step is one call, or a reply that makes none. Steps are paired in their order so that the pairs agree most; one that
has no partner counts as a step that does not agree, so neither calls that are left out nor needless ones pay.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow.parquet as pq

from oresmith.blocks.atomic import MANIFEST
from oresmith.records import Message
from oresmith.training.sampled import ROLLOUTS, Source, load_attempts

_STEPS = 64
"""Of a trajectory that are looked at: pairing takes the product of two lengths."""
_WORDS = 256
"""Of a text that are compared."""
_BATCH = 64
_WORD = re.compile(r"[^\s,]+")


class Step(NamedTuple):
    """One call; the name is empty where a reply makes none."""

    name: str
    arguments: Mapping[str, Any]


Steps = tuple[Step, ...]


class Teachers(NamedTuple):
    """The trajectories that rollouts are held against."""

    of_problem: Mapping[str, Sequence[Steps]]
    """By the problem's name; each different list of calls once."""
    counts: Mapping[str, int]
    """Trajectories by where they are from, as read."""

    def sha256(self) -> str:
        """Over all problems and steps, hex."""
        told = {name: sorted(map(_canonical, found)) for name, found in sorted(self.of_problem.items())}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def best(self, problem: str, mine: Steps, name_weight: float) -> float:
        """The agreement with the trajectory that agrees most; 0 where there is none.

        Args:
            problem: its name.
            mine: steps of the rollout.
            name_weight: as of `agreement`.
        """
        return max((agreement(mine, one, name_weight) for one in self.of_problem.get(problem, ())), default=0.0)


def agreement(mine: Steps, teacher: Steps, name_weight: float) -> float:
    """From 0 to 1: the agreement of paired steps, over the steps of the longer of the two.

    Args:
        mine: steps of the rollout.
        teacher: steps to hold them against.
        name_weight: of a step that calls the same tool; the rest is for the share of its arguments that agree.
    """
    mine, teacher = mine[:_STEPS], teacher[:_STEPS]
    if not mine or not teacher:
        return 0.0
    row = [0.0] * (len(teacher) + 1)
    for step in mine:
        before, row = row, [0.0]
        for place, wanted in enumerate(teacher):
            paired = before[place] + step_agreement(step, wanted, name_weight)
            row.append(max(paired, before[place + 1], row[place]))
    return row[-1] / max(len(mine), len(teacher))


def step_agreement(mine: Step, teacher: Step, name_weight: float) -> float:
    """From 0 to 1, for two steps; a reply without a call agrees with nothing."""
    if not mine.name or mine.name != teacher.name:
        return 0.0
    names = mine.arguments.keys() | teacher.arguments.keys()
    shared = mine.arguments.keys() & teacher.arguments.keys()
    held = sum(_alike(mine.arguments[name], teacher.arguments[name]) for name in sorted(shared))
    return name_weight + (1 - name_weight) * (held / len(names) if names else 1.0)


def steps_of(messages: Sequence[Message]) -> Steps:
    """The steps of a conversation, in order. Arguments that are no JSON object count as none."""
    found: list[Step] = []
    for message in messages:
        if message.role == "assistant" and not message.tool_calls:
            found.append(Step("", {}))
        found += [Step(call.name, _object(call.arguments)) for call in message.tool_calls]
    return tuple(found)


def load_teachers(source: Source, names: Iterable[str]) -> Teachers:
    """The accepted trajectories of these problems in the corpus' train pool, and the teacher's strict successes.

    Args:
        source: the pipeline's data.
        names: of the problems.

    Raises:
        OresmithError: the teacher's output is not whole.
    """
    wanted = set(names)
    found: dict[str, dict[str, Steps]] = {}
    counts = {"corpus": 0, "teacher": 0}
    for origin, problem, steps in _all(source, wanted):
        called = tuple(step for step in steps if step.name)
        if called:
            counts[origin] += 1
            found.setdefault(problem, {}).setdefault(_canonical(called), called)
    return Teachers({name: list(some.values()) for name, some in sorted(found.items())}, counts)


def _all(source: Source, wanted: set[str]) -> Iterator[tuple[str, str, Steps]]:
    for path in sorted((source.data / "corpus" / "trajectories").glob("train-*.parquet")):
        columns = ["problem", "messages", "copied_context", "no_model"]
        for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH, columns=columns):
            for row in batch.to_pylist():
                if row["problem"] in wanted:
                    yield "corpus", row["problem"], steps_of(list(_own(row)))
    folder = source.data / "teacher"
    if (folder / ROLLOUTS / MANIFEST).is_file():
        for one in load_attempts(folder, source):
            if one.success and one.rollout.problem in wanted:
                yield "teacher", one.rollout.problem, steps_of(one.rollout.messages)


def _own(row: Mapping[str, Any]) -> Iterator[Message]:
    """The messages of a corpus row, those left out that no model of the trajectory wrote."""
    foreign = {*(row["copied_context"] or []), *(row["no_model"] or [])}
    for place, text in enumerate(row["messages"]):
        raw = msgspec.json.decode(text)
        if place not in foreign:
            yield _message(raw)


def _message(raw: Mapping[str, Any]) -> Message:
    calls = [{"id": call["id"], **call["function"]} for call in raw.get("tool_calls") or []]
    return msgspec.convert({**raw, "tool_calls": calls}, Message)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _canonical(steps: Steps) -> str:
    return json.dumps(steps, sort_keys=True, default=str)


def _alike(mine: Any, teacher: Any) -> float:
    """From 0 to 1: the words that two values share, over all words of both; other values are equal or not."""
    one, other = _words(mine), _words(teacher)
    if not one or not other:
        return float(one == other)
    return len(one & other) / len(one | other)


def _words(value: Any) -> set[str]:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return {found[0].casefold() for found, _ in zip(_WORD.finditer(text), range(_WORDS), strict=False)}
