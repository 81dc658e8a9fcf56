"""A small embedded world with a suite, shared by the tests of the miners."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

from oresmith.arena.documents import Document
from oresmith.arena.miners import Played, play_run
from oresmith.arena.search import Searcher, index_of
from oresmith.arena.suites import definition_of, make_suite
from oresmith.arena.world import documents
from oresmith.evidence.origin import judge_origin, origin_evidence
from oresmith.evidence.origin_facts import OriginEvidence
from oresmith.records import Problem, Provenance, Source, Trajectory
from oresmith.traces import Context, decode

SEED = 11
SIZE = 6_000
START = 1_777_593_600_000
"""2026-05-01T00:00:00Z in milliseconds."""
SOURCE = Source(snapshot="s", file="f", file_sha256="", line=1, offset=0, length=0)
_SUITE = {
    "schema": "oresmith.suite/1",
    "suite": "miners",
    "version": 1,
    "counts": {
        "product": {"L1": 8, "L2": 6, "L3": 4},
        "shop": {"L1": 3, "L2": 2},
        "voucher": {"L1": 3, "L2": 2, "L3": 1},
    },
}


class World(NamedTuple):
    """What the miners play in."""

    shop: Searcher
    documents: list[Document]
    problems: list[Problem]
    levels: dict[str, str]
    """Problem id -> L1 to L5."""


@cache
def world() -> World:
    """The world, made once."""
    made = list(documents(SEED, SIZE))
    shop = index_of(made)
    suite = make_suite(definition_of(_SUITE, "tests"), made, shop, seed=SEED)
    levels = {one.problem.problem_id or "": one.level for one in suite.problems}
    return World(shop, made, [one.problem for one in suite.problems], levels)


@cache
def played(family: str, versions: tuple[int, ...] = (0, 1, 2), runtime: Any = "old") -> tuple[Played, ...]:
    """All problems by some versions of a family."""
    return tuple(
        one
        for version in versions
        for one in play_run(
            world().shop,
            world().problems,
            family=family,
            version=version,
            seed=SEED,
            runtime=runtime,
            start_ms=START,
            run_id=f"run-{version}",
        )
    )


def envelope(one: Played) -> dict[str, Any]:
    """The envelope of a play."""
    row: dict[str, Any] = json.loads(one.line)
    return row


def trajectory(one: Played) -> Trajectory:
    """The play as the pipeline reads it."""
    return decode(envelope(one), Context(source=SOURCE, provenance=Provenance(run_id=one.truth["run_id"])))


class Read(NamedTuple):
    """A play with what the pipeline makes of it."""

    played: Played
    trajectory: Trajectory
    evidence: OriginEvidence

    @property
    def truth(self) -> dict[str, Any]:
        """What is true of it."""
        return self.played.truth

    @property
    def label(self) -> str:
        """A, B or unknown."""
        return judge_origin(self.evidence).label.value


@cache
def read(family: str, versions: tuple[int, ...] = (0, 1, 2), runtime: Any = "old") -> tuple[Read, ...]:
    """The plays of `played`, read."""
    found = []
    for one in played(family, versions, runtime):
        decoded = trajectory(one)
        found.append(Read(one, decoded, origin_evidence(decoded)))
    return tuple(found)
