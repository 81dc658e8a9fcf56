"""The three hashes of a trajectory. All are sha256, hex.

identity: over the JSON array `[source, agent version, run, problem, validator, attempt]`, null where not declared, if
an agent version, a run or an attempt is declared and a problem is known; otherwise over the row's place, `[source,
snapshot, file, line]`: two snapshots of one source may hold different files of one name. *problem* is the problem's id,
else its query; *attempt* is the source's own id of this one attempt (ATIF `trajectory_id`, orobench
`episode_result_id`), null for formats without one and where rows are not trusted. Two rows of one identity claim to be
the same attempt.

content: over the JSON array `[problem id, query, messages, tools, status]`, messages and tools as the record's JSON
(keys of tools sorted), and the raw dialogue as a sixth element where a step is malformed.

trajectory_id: over the text `identity + content`.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from oresmith.records import Trajectory

_encode = msgspec.json.Encoder(order="deterministic").encode


def identity(source_name: str, trajectory: Trajectory, attempt: str | None = None) -> str:
    """Hash of what the source declares; see the module's text."""
    who, problem = trajectory.provenance, trajectory.problem
    key = problem.problem_id if problem.problem_id is not None else problem.query
    declared = who.agent_version is not None or who.run_id is not None or attempt is not None
    if declared and key is not None:
        parts: tuple[object, ...] = (source_name, who.agent_version, who.run_id, key, who.validator, attempt)
    else:
        place = trajectory.source
        parts = (source_name, place.snapshot, place.file, place.line)
    return sha256(_encode(parts)).hexdigest()


def content(trajectory: Trajectory) -> str:
    """Hash of what the attempt holds; see the module's text."""
    problem = trajectory.problem
    parts: tuple[object, ...] = (
        problem.problem_id,
        problem.query,
        trajectory.messages,
        trajectory.tools,
        trajectory.status,
    )
    if trajectory.raw_dialogue is not None:
        parts = (*parts, trajectory.raw_dialogue)
    return sha256(_encode(parts)).hexdigest()


def seal(trajectory: Trajectory, source_name: str, attempt: str | None = None) -> Trajectory:
    """Fill the three hashes in; the trajectory must not change in what they cover afterwards."""
    trajectory.identity = identity(source_name, trajectory, attempt)
    trajectory.content = content(trajectory)
    trajectory.trajectory_id = sha256((trajectory.identity + trajectory.content).encode()).hexdigest()
    return trajectory
