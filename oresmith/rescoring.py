"""`oresmith rescore`: our scorer over a trace file, one JSON line a trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from oresmith.anyfile import read_any, refuse_unreadable, trace_files
from oresmith.arena.scoring import ScoreError, score_envelope
from oresmith.arena.titles import Titling
from oresmith.evidence.outcome import Wanted, World, load_world
from oresmith.records import Reject, Trajectory
from oresmith.traces import dialogue_of


class Rescored(NamedTuple):
    """What a run of `rescore` saw."""

    traces: int
    scored: int
    succeeded: int
    unreadable: int
    """Lines that are no trace; `oresmith inspect` names their reasons."""


def rescore(path: Path, problems: Path, catalogue: Path, writer: BinaryIO, titling: Titling | None = None) -> Rescored:
    """Score every trace of a file, or of all files below a directory.

    Args:
        path: traces in any known format; read twice, so that only the products they need are held.
        problems: problem file (suite JSON, suite-form JSONL or ShoppingBench's test files).
        catalogue: product documents.
        writer: receives one JSON line a trace: problem_id, category, status, scorer, score, success, error.
        titling: the wish for title similarity.

    Raises:
        OresmithError: a model that is not installed, unreadable files, no readable trace, or a catalogue that lacks
            gold products.
    """
    if titling is not None:
        titling.encoder()  # what cannot be done is refused before any trace is read
    files = trace_files(path)
    wanted = Wanted()
    reasons: Counter[str] = Counter()
    for file, name in files:
        for item in read_any(file, name=name):
            if isinstance(item, Trajectory):
                wanted.add(item)
            else:
                reasons[item.reasons[0]] += 1
    if not wanted.attempts:
        raise refuse_unreadable(path, reasons)
    world = load_world(problems, catalogue, wanted, titling)
    traces = scored = succeeded = 0
    for file, name in files:
        for item in read_any(file, name=name):
            if isinstance(item, Reject):
                continue
            row = rescored_row(item, world)
            writer.write(msgspec.json.encode(row) + b"\n")
            traces += 1
            scored += row["score"] is not None
            succeeded += row["success"]
    return Rescored(traces, scored, succeeded, sum(reasons.values()))


def rescored_row(trajectory: Trajectory, world: World) -> dict[str, Any]:
    """The output row of one trace; `score` is null and `error` says why where it cannot be scored."""
    problem = world.problem_of(trajectory)
    row: dict[str, Any] = {
        "problem_id": problem.problem_id,
        "category": problem.category,
        "status": trajectory.status,
        "scorer": world.scorer,
        "score": None,
        "success": False,
        "error": None,
    }
    if problem is trajectory.problem and problem.reward is None:
        return row | {"error": "the problem is not in the problem file"}
    try:
        result = score_envelope(problem, dialogue_of(trajectory), world.products or {}, world.titles)
    except ScoreError as error:
        return row | {"error": " ".join(str(error).split())}
    return row | {"score": result.score, "success": result.success}
