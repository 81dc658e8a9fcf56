"""Playing: a family's version on problems, as the lines of a trace file with the truth about each.

A play depends on seed, family, version, problem, runtime and start alone: not on the other problems, their order, or
the process. So workers may share the problems out as they like.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from oresmith.arena.documents import Shop, product_of
from oresmith.arena.miners.agents import Run
from oresmith.arena.miners.brief import brief_of
from oresmith.arena.miners.fakes import forge
from oresmith.arena.miners.families import FAMILIES, Family
from oresmith.arena.miners.mishaps import LOST, draw_mishap, ending, spoil, time_out
from oresmith.arena.miners.session import Pace, RunEnded, Runtime, Session
from oresmith.arena.miners.streams import stream
from oresmith.arena.scoring import ScoreError, recommended_ids, score
from oresmith.arena.scoring_steps import last_recommendation
from oresmith.arena.tools import Toolbox
from oresmith.arena.witness import Entry, Recorder
from oresmith.errors import OresmithError
from oresmith.records import Problem

SPREAD_MS = 20 * 60 * 1000
"""The problems of a run begin within this time."""
_AGENTS = uuid.UUID("6f1c7a54-5a0e-5a55-9a55-0b5e55ed0a11")


class Played(NamedTuple):
    """One attempt."""

    line: bytes
    """The envelope as Python's own `json` writes it, without a line end."""
    truth: dict[str, Any]
    """The `trajectory` line of `oresmith.truth/1`, without `file` and `line`."""
    witness: list[Entry]
    """What the server saw."""


def agent_version(family: str, version: int) -> str:
    """The public id of an agent version; tells nothing of its family."""
    return str(uuid.uuid5(_AGENTS, f"{family}/{version}"))


def play_run(
    shop: Shop,
    problems: Iterable[Problem],
    *,
    family: str,
    version: int,
    seed: int,
    runtime: Runtime,
    start_ms: int,
    run_id: str,
    declared_version: str | None = None,
    mishaps: bool = True,
) -> Iterator[Played]:
    """Play problems, one after the other.

    Args:
        shop: the world, behind its search.
        problems: with id, reward and category.
        family: a name of `FAMILIES`.
        version: of the agent, from 0; every fourth is a near copy of the one before it.
        seed: of the snapshot.
        runtime: whose envelopes are written.
        start_ms: when the run begins, in ms since the epoch.
        run_id: of the run; no "/" in it, for it names the sessions of the witness.
        declared_version: the agent version's id in the truth; `agent_version(family, version)` where None.
        mishaps: whether runs may fail as real ones do.

    Raises:
        OresmithError: no such family.
    """
    if family not in FAMILIES:
        raise OresmithError("no such family of miners", got=family[:80], expected=", ".join(FAMILIES))
    name = agent_version(family, version) if declared_version is None else declared_version
    tools = Toolbox(shop)
    for problem in problems:
        run = Run(
            session=_session(problem, tools, FAMILIES[family], version, seed),
            brief=brief_of(problem),
            family=family,
            seed=seed,
            version=version,
        )
        session = run.session
        session.runtime = runtime
        session.start_ms += start_ms
        session.witness = witness = Recorder(f"{run_id}/{run.brief.problem_id}")
        chance = run.draws("mishap")
        run.mishap = draw_mishap(chance) if mishaps else None
        envelope = _play(run, chance)
        line = json.dumps(envelope).encode()
        truth = {
            "kind": "trajectory",
            "run_id": run_id,
            "problem_id": run.brief.problem_id,
            "agent_version": name,
            **_truth(run, envelope["dialogue"], line),
            "success": _success(problem, envelope["dialogue"], shop),
        }
        yield Played(line=line, truth=truth, witness=witness.entries)


def _session(problem: Problem, tools: Toolbox, family: Family, version: int, seed: int) -> Session:
    """A session with its own clock, and with its version's client."""
    clock = stream("clock", family.name, version, seed, problem.problem_id)
    habits = stream("client", family.name, version)
    return Session(
        tools=tools,
        problem_id=problem.problem_id or "",
        query=problem.query or "",
        rng=clock,
        start_ms=clock.randrange(SPREAD_MS),
        pace=Pace(think_ms=family.model_ms * habits.uniform(0.7, 1.6), token_ms=habits.uniform(1.0, 5.0)),
        quoted=habits.random() < 0.85,
        own_clients=family.origin == "B" and habits.random() < 0.4,
    )


def _play(run: Run, chance: random.Random) -> dict[str, Any]:
    """Let the agent run and report it as the sandbox does."""
    session = run.session
    lost = run.mishap if run.mishap in LOST else None
    if lost is not None:
        session.dies_after = 0 if lost == "no_start" else chance.randrange(1, 5)
    try:
        if lost != "no_start":
            FAMILIES[run.family].play(run)
    except RunEnded:
        pass
    if lost is not None:
        end = ending(lost, chance)
        return session.envelope(end.status, end.error, [] if end.empty else None)
    if run.error is not None:
        return session.envelope("FAILED", run.error)
    if session.late:
        return session.envelope("TIMED_OUT", time_out())
    envelope = session.envelope(dialogue=session.steps)
    if run.forged:
        forge(run, session.steps)
    spoil(session.steps, run.mishap, chance)
    return envelope


def _truth(run: Run, dialogue: list[Any] | None, line: bytes) -> dict[str, Any]:
    """What is true of an attempt beside its outcome; only what got into the envelope counts."""
    told = bool(dialogue)
    return {
        "family": run.family,
        "origin": FAMILIES[run.family].origin,
        "full_text": told and run.session.replies > 0 and run.session.dropped == 0,
        "forged": told and run.forged,
        "secrets": sorted({secret.type for secret in run.planted if _stands(secret.text, line)}),
        "injection": run.appeal is not None and _stands(run.appeal, line),
    }


def _stands(text: str, line: bytes) -> bool:
    """Whether a text got into the envelope, in quotes of its own or inside JSON that is quoted itself."""
    once = json.dumps(text)[1:-1]
    return once.encode() in line or json.dumps(once)[1:-1].encode() in line


def _success(problem: Problem, dialogue: list[Any] | None, shop: Shop) -> bool | None:
    """By the strict scorer: a run without steps fails, one that the scorer refuses is None."""
    if not dialogue:
        return False
    try:
        ids = recommended_ids(last_recommendation(dialogue))
        found = [document for one in ids if (document := shop.get(one)) is not None]
        products = {one.product_id: product_of(one) for one in found}
        return score(problem, dialogue, products).success
    except ScoreError:
        return None
