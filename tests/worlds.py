"""Raw SN15 worlds for tests, benchmarks and the demo snapshot: everything that the other `world_*` modules make.

world = make_world(7)
case = honest(world, world.of("shop")[0], seed=1, runtime="new")
case.line, case.truth.success, case.truth.origins
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.world_agents import auto_finish, decoy, forger, honest, puppet, searcher
from tests.world_broken import (
    CARELESS,
    CRASHES,
    INJECTIONS,
    careless,
    crashed,
    hostile_lines,
    injector,
    leaker,
    planted_personal,
    planted_secrets,
    torn_line,
)
from tests.world_rows import atif_document, openai_row, rollout_steps, tool_definitions
from tests.world_runtime import DAY, NEW, OLD, Case, Truth, bare_steps, envelope_line, tool_call_id
from tests.world_shop import World, make_world, rewards

__all__ = [
    "BIG",
    "CARELESS",
    "CRASHES",
    "DAY",
    "INJECTIONS",
    "NEW",
    "OLD",
    "Case",
    "Truth",
    "World",
    "atif_document",
    "auto_finish",
    "bare_steps",
    "big_envelopes",
    "big_world",
    "careless",
    "crashed",
    "decoy",
    "envelope_line",
    "forger",
    "honest",
    "hostile_lines",
    "injector",
    "leaker",
    "make_world",
    "openai_row",
    "planted_personal",
    "planted_secrets",
    "puppet",
    "rewards",
    "rollout_steps",
    "searcher",
    "tool_call_id",
    "tool_definitions",
    "torn_line",
]

BIG = (13_000, 17_000)
"""Bytes of an envelope of `big_envelopes`, the size of most that the old runtime writes."""

_MILLISECONDS = re.compile(rb'("timestamp": )(\d{13})')


def big_world(seed: int) -> World:
    """The world that `big_envelopes` plays in: its problems and catalogue go with them."""
    return make_world(seed, products=240, problems=60, wordy=True)


def big_envelopes(count: int, seed: int = 0, distinct: int = 240) -> Iterator[bytes]:
    """Lines of 13 to 17 KB without line end, honest and otherwise, successes and failures.

    `distinct` dialogues are played; the others repeat them at later times, so that no two lines are equal.
    """
    made = _distinct(big_world(seed), min(distinct, count))
    for number in range(count):
        later = 60_000 * (number // len(made))
        line = made[number % len(made)]
        yield _shift(line, later) if later else line


def _shift(line: bytes, milliseconds: int) -> bytes:
    """The same dialogue at a later time."""
    return _MILLISECONDS.sub(lambda match: match[1] + str(int(match[2]) + milliseconds).encode(), line)


def _distinct(world: World, count: int) -> list[bytes]:
    made: list[bytes] = []
    problems = list(world.problems.values())
    number = 0
    while len(made) < count:
        problem, seed = problems[number % len(problems)], number // len(problems)
        case = (
            searcher(world, problem, seed) if number % 5 == 4 else honest(world, problem, seed, succeed=number % 3 > 0)
        )
        if BIG[0] <= len(case.line) <= BIG[1]:
            made.append(case.line)
        number += 1
    return made
