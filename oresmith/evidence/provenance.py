"""Who wrote a trajectory's call log: the class that says how far the log's evidence can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from oresmith.arena.witness import Entry
from oresmith.evidence.witnessed import confirmed
from oresmith.records import Format, Record, Trajectory

RUNTIME_KIND = "summary"
"""`kind` of every entry that SN15's runtime writes."""
SN15_FORMATS = (Format.SN15_ENVELOPE, Format.SN15_STEPS)


class ProvenanceClass(StrEnum):
    """Classes, strongest first."""

    SERVER_VERIFIED = "server-verified"
    """Bears every mark of the runtime, and equals the arena server's own record of the session, which no agent can
    write. No SN15 trace comes with one."""
    RUNTIME_WRITTEN = "runtime-written"
    """Bears every mark of the sandbox runtime and none of an agent's journal."""
    AGENT_WRITTEN = "agent-written"
    """Bears at least one mark that only an agent's own journal leaves."""
    ABSENT = "absent"
    """There is no log to judge by."""


class LogProvenance(Record, frozen=True):
    """The class, with the counts it follows from."""

    kind: ProvenanceClass
    entries: int
    """Entries of the log."""
    agent_first_steps: int
    """Steps in which `proxy_calls` stands before `problem_id`: the runtime adds `problem_id` first."""
    token_entries: int
    """Entries with `completion_tokens` at their top level, which the runtime never writes."""
    foreign_entries: int
    """Entries whose `kind` is not the runtime's."""
    malformed: bool
    """The log is not a list of objects in each step, which the runtime always writes."""


def log_provenance(trajectory: Trajectory, witness: Mapping[str, Sequence[Entry]] | None = None) -> LogProvenance:
    """Judge who wrote the call log.

    One mark of an agent's journal is enough for `agent-written`: an agent that writes part of the log can write all of
    it. Formats other than SN15's are `absent`: an OpenAI row and a ShoppingBench rollout hold no log, and whatever an
    ATIF document says of its calls was written by the harness that also wrote the steps, so nothing in it is a second
    witness. A witness makes no class worse, and an agent's journal stays one even where it tells the truth.

    Args:
        trajectory: any trajectory.
        witness: the arena server's own request log, by session, where the source carries one.

    Returns:
        Class and counts. Never raises.
    """
    log = trajectory.log if isinstance(trajectory.log, list) else []
    first = sum(step.log_first is True for step in trajectory.steps)
    tokens = sum(call.completion_tokens is not None for call in log)
    foreign = sum(call.kind != RUNTIME_KIND for call in log)
    malformed = bool(trajectory.log_malformed)
    if trajectory.format not in SN15_FORMATS:
        kind = ProvenanceClass.ABSENT
    elif first or tokens or foreign or malformed:
        kind = ProvenanceClass.AGENT_WRITTEN
    else:
        kind = ProvenanceClass.RUNTIME_WRITTEN if log else ProvenanceClass.ABSENT
    if kind is ProvenanceClass.RUNTIME_WRITTEN and witness is not None and confirmed(trajectory, witness):
        kind = ProvenanceClass.SERVER_VERIFIED
    return LogProvenance(
        kind=kind,
        entries=len(log),
        agent_first_steps=first,
        token_entries=tokens,
        foreign_entries=foreign,
        malformed=malformed,
    )
