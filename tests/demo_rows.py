"""What stands in the demo snapshot, line by line, with the truth about each line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests import worlds
from tests.worlds import DAY, NEW, OLD, Case, Truth, World, envelope_line

Row = tuple[bytes, Truth]
Rows = dict[str, list[Row]]
"""Trace file -> its lines (without line end) with the truth about each."""

RUNS: dict[str, tuple[str, str, str, str]] = {
    "traces/honest-1.val-1.jsonl": ("honest-1", "run-1", "val-1", OLD),
    "traces/honest-1.val-2.jsonl.gz": ("honest-1", "run-2", "val-2", OLD),
    "traces/honest-2.val-1.jsonl.zst": ("honest-2", "run-3", "val-1", NEW),
    "traces/honest-2.val-2.jsonl.zst": ("honest-2", "run-4", "val-2", NEW),
    "traces/honest-3.val-1.jsonl.gz": ("honest-3", "run-5", "val-1", OLD),
    "traces/problem-log.json.gz": ("honest-4", "run-6", "val-1", OLD),
}
"""File -> agent version, run, validator, runtime. Two validators ran honest-1 and honest-2 on the same problems."""

*PAIRED, TWICE, BARE = RUNS
FAKES, CARELESS, LEAKS = "traces/unknown-agents.jsonl.zst", "traces/rule-breakers.jsonl.gz", "traces/leaks.jsonl.zst"
OPENAI, ATIF, ROLLOUTS = "traces/openai.jsonl", "traces/atif.jsonl", "traces/rollouts.jsonl"
HOSTILE = "traces/hostile.jsonl"
"""Its last line is torn: it has no line end."""

NO_LOG = Truth("other format", None, ("unknown",), reasons=("origin_unknown", "provenance"))


def demo_world() -> World:
    """The shop, the catalogue and the problems of the demo snapshot."""
    return worlds.make_world(7)


def demo_rows(world: World) -> Rows:
    """Every line of every trace file, before the judge."""
    rows = {file: _paired(world, number, file) for number, file in enumerate(PAIRED)}
    rows |= {TWICE: _twice(world), BARE: _bare(world), FAKES: _fakes(world), CARELESS: _careless(world)}
    rows |= {LEAKS: _leaks(world), HOSTILE: _hostile(world)}
    return rows | _other_formats(world)


def _start(file: str, line: int) -> int:
    """A time of its own for each line, within the snapshot's day."""
    place = int.from_bytes(hashlib.sha256(f"{file}/{line}".encode()).digest()[:4], "big")
    return DAY + place % 86_000_000


def _nth(world: World, number: int) -> dict[str, Any]:
    problems = list(world.problems.values())
    return problems[number % len(problems)]


def _rows(cases: list[Case]) -> list[Row]:
    return [(case.line, case.truth) for case in cases]


def _paired(world: World, number: int, file: str) -> list[Row]:
    """honest-1: six unanimous successes, a disagreement, a failure of both. honest-2: six unanimous successes."""
    agent, _, validator, runtime = RUNS[file]
    cases = []
    for place in range(8) if agent == "honest-1" else range(4, 10):
        failed = agent == "honest-1" and (place == 7 or (place == 6 and validator == "val-2"))
        start = _start(file, place)
        case = worlds.honest(world, _nth(world, place), number, runtime, succeed=not failed, start=start)
        if agent == "honest-1" and place == 6 and validator == "val-1":
            case.truth = replace(case.truth, reasons=("not_unanimous",))
        cases.append(case)
    return _rows(cases)


def _twice(world: World) -> list[Row]:
    """One problem claimed twice with different content (neither can be trusted), another twice with the same."""
    first = [worlds.honest(world, _nth(world, 8), seed, start=_start(TWICE, seed)) for seed in (11, 12)]
    conflict = [(case.line, replace(case.truth, reasons=("id_conflict",))) for case in first]
    case = worlds.honest(world, _nth(world, 9), 13, start=_start(TWICE, 13))
    return [*conflict, (case.line, case.truth), (case.line, replace(case.truth, reasons=("duplicate",)))]


def _bare(world: World) -> list[Row]:
    case = worlds.honest(world, _nth(world, 10), 14, start=_start(BARE, 1))
    return [(json.dumps(case.steps).encode(), case.truth)]


def _fakes(world: World) -> list[Row]:
    """Agents that only look agentic, one that copies another's calls, and two whose origin cannot be told fully."""
    makers: list[Callable[[dict[str, Any], int], Case]] = [
        lambda problem, start: worlds.searcher(world, problem, 1, start=start),
        lambda problem, start: worlds.searcher(world, problem, 2, start=start),
        lambda problem, start: worlds.searcher(world, problem, 3, succeed=False, start=start),
        lambda problem, start: worlds.decoy(world, problem, 1, start=start),
        lambda problem, start: worlds.puppet(world, problem, 1, start=start),
        lambda problem, start: worlds.puppet(world, problem, 2, NEW, start=start),
        lambda problem, start: worlds.forger(world, problem, 21, start=start),
        lambda problem, start: worlds.honest(world, problem, 20, long_replies=True, start=start),
        lambda problem, start: worlds.auto_finish(world, problem, 1, start=start),
    ]
    cases = [make(_nth(world, place), _start(FAKES, place)) for place, make in enumerate(makers)]
    copied = worlds.honest(world, _nth(world, 0), 99, variant=0, start=_start(FAKES, len(cases)))
    copied.truth = replace(copied.truth, family="copycat", reasons=("duplicate_calls",))
    return _rows([*cases, copied])


def _careless(world: World) -> list[Row]:
    """Every way of `worlds.CARELESS` to break a rule, and every way of `worlds.CRASHES` to end."""
    spoilt = [
        worlds.careless(kind, world, _nth(world, place), 40 + place, _start(CARELESS, place))
        for place, kind in enumerate(worlds.CARELESS)
    ]
    ended = [worlds.crashed(kind, _nth(world, place), 1.5 + place) for place, kind in enumerate(worlds.CRASHES)]
    return _rows(spoilt + ended)


def _leaks(world: World) -> list[Row]:
    """Planted secrets of every type, in thinking, arguments and error; personal data; attempts on the judge."""
    secrets = list(worlds.planted_secrets(1).values())
    places = (("think", secrets[0::3]), ("arguments", secrets[1::3]), ("error", secrets[2::3]))
    cases = [
        worlds.leaker(world, _nth(world, line), 60 + line, place, some, start=_start(LEAKS, line))
        for line, (place, some) in enumerate(places)
    ]
    personal = list(worlds.planted_personal(1).values())
    named = worlds.leaker(world, _nth(world, 6), 66, "think", personal, start=_start(LEAKS, 6))
    cases.append(replace(named, truth=replace(named.truth, reasons=("personal_data",))))
    cases += [worlds.injector(world, _nth(world, line), 60 + line, _start(LEAKS, line)) for line in (3, 4, 5)]
    return _rows(cases)


def _hostile(world: World) -> list[Row]:
    lines = [*worlds.hostile_lines(world), (worlds.torn_line(world), "line_torn")]
    return [(line, Truth("hostile", reasons=(reason,))) for line, reason in lines]


def _other_formats(world: World) -> Rows:
    """The same kind of dialogue in formats without a call log: its origin cannot be known."""
    cases = [worlds.honest(world, _nth(world, place), 80 + place, start=_start(OPENAI, place)) for place in range(6)]
    openai = [worlds.openai_row(cases[0]), worlds.openai_row(cases[1], flat=True)]
    atif = [
        worlds.atif_document(cases[2]),
        worlds.atif_document(cases[3], "ATIF-v1.7"),
        worlds.atif_document(cases[4], copied=True),
    ]
    documents: dict[str, list[Any]] = {OPENAI: openai, ATIF: atif, ROLLOUTS: [worlds.rollout_steps(cases[5])]}
    return {file: [(envelope_line(row), NO_LOG) for row in rows] for file, rows in documents.items()}
