"""The canonical records. Everything past the reader is one of these types; docs/formats.md explains each field.

A field that a source does not hold is None, and None always means "not declared by the source", never zero or false.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

TRAJECTORY_SCHEMA = "oresmith.trajectory/1"
"""Name and version of the record below; manifests carry it, so that a reader can refuse what it does not know."""


class Format(StrEnum):
    """The trace formats that `oresmith.traces` reads, by the name shown to users."""

    SN15_ENVELOPE = "sn15-envelope"
    SN15_STEPS = "sn15-steps"
    SHOPPINGBENCH = "shoppingbench-rollout"
    OPENAI = "openai-messages"
    ATIF = "atif"


class Record(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """Base of all records: keyword-only, defaults left out of the encoded form."""


class Source(Record, frozen=True):
    """Where a record came from, to the byte."""

    snapshot: str
    """Name of the snapshot in the parameters."""
    file: str
    """Path of the file relative to the snapshot's root, as its manifest lists it."""
    file_sha256: str
    """sha256 of the file's bytes, from the snapshot's manifest ("" outside a pipeline)."""
    line: int
    """1-based line number; 1 for a file that is a single document."""
    offset: int
    """Byte offset of the line's first byte in the decompressed stream."""
    length: int
    """Bytes of the line, without its line end."""


class Provenance(Record, frozen=True, forbid_unknown_fields=True):
    """Who made the trajectory, as declared by the provenance file or, where its rows are trusted, by the row."""

    agent_version: str | None = None
    run_id: str | None = None
    race_id: str | None = None
    suite: str | None = None
    phase: str | None = None
    validator: str | None = None
    miner: str | None = None
    """Keyed hash of the miner's key, never the key."""
    runtime: str | None = None
    scorer_version: str | None = None
    judge_version: str | None = None
    created_at: str | None = None
    """ISO 8601 UTC: logical time, from the source."""


class Problem(Record, frozen=True):
    """The shopping problem. `problem_id` never identifies a trajectory: many share one."""

    problem_id: str | None = None
    query: str | None = None
    category: str | None = None
    """product, shop, voucher, web (lower case) or None."""
    difficulty: str | None = None
    reward: Any = None
    """One object (product) or a list (shop, voucher), as in sn15.md section 2; None when not given."""
    voucher: Any = None


class ToolCall(Record, frozen=True):
    """One call of an assistant message, OpenAI shape."""

    id: str
    """Unique in its trajectory, minted by us: `call_<n>`, n counting from 0."""
    name: str
    arguments: str
    """JSON text of the arguments (always a string, so that no Arrow struct can invent null arguments)."""
    original_id: str | None = None


class Message(Record, frozen=True):
    """One chat message, OpenAI schema with `reasoning_content` for thinking."""

    role: str
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    """On role tool: the `ToolCall.id` answered."""
    name: str | None = None
    """On role tool: the called tool's name."""


class Step(Record, frozen=True):
    """What the source says of one agent step beside its messages."""

    message: int
    """Index in `messages` of the step's assistant message; -1 for a step without one (malformed)."""
    number: int | None = None
    timestamp: int | None = None
    """Milliseconds since the epoch, as logged."""
    malformed: str | None = None
    """Why the step is not of the source's shape; its raw form is then in `Trajectory.raw_dialogue`."""
    log_first: bool = False
    """SN15: `proxy_calls` stands before `problem_id` in key order, so the agent wrote the log, not the runtime."""
    copied_context: bool = False
    """ATIF `is_copied_context`: a repeated step that must not be trained on."""
    llm_calls: int | None = None
    """ATIF `llm_call_count`; 0 is a deterministic dispatch: no model stands behind the step."""
    extra: dict[str, Any] = {}
    """What the source holds and no field above does, for the way back."""


class ProxyCall(Record, frozen=True):
    """One HTTP call in the runtime's log (SN15 `proxy_calls`)."""

    step: int = -1
    """Index in `steps` of the step the log stood in (often one step early: sort by time before use)."""
    kind: str | None = None
    method: str | None = None
    path: str | None = None
    timestamp: float | None = None
    """Milliseconds since the epoch at the END of the call."""
    duration_ms: float | None = None
    status_code: int | None = None
    params: Any = None
    json_data: Any = None
    response: Any = None
    response_truncated: bool | None = None
    response_length: int | None = None
    result_product_ids: Any = None
    completion_tokens: Any = None
    """Top level: written only by agents that replace the runtime's log by their own journal."""


class SourceOutcome(Record, frozen=True):
    """The outcome as the source states it; ours is computed in evidence."""

    success: bool | None = None
    score: Any = None
    """The source's score dict or number, verbatim."""
    scorer: str | None = None


class Judgement(Record, frozen=True):
    """A reasoning score as the source or a judgements file states it."""

    quality: float | None = None
    model: str | None = None
    """Empty model with quality 0.0 means that every retry failed: missing, not "no reasoning"."""
    version: str | None = None
    judged_at: str | None = None
    """ISO 8601 UTC."""
    explanation: str | None = None


class Trajectory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One attempt of one agent at one problem, whatever format it came in."""

    trajectory_id: str
    """sha256 of `identity` and `content`, hex."""
    identity: str
    """sha256 of the declared identity (source, agent version, run, problem; its place where none is declared)."""
    content: str
    """sha256 of the canonical content (problem id, messages, tools)."""
    source: Source
    format: Format
    provenance: Provenance = Provenance()
    problem: Problem = Problem()
    messages: list[Message] = []
    tools: list[Any] | None = None
    """The source's own tool definitions, nested OpenAI shape; None where it logs none."""
    system_prompt: str = "none_logged"
    """"logged" when messages[0] is the agent's own system prompt, else "none_logged"."""
    steps: list[Step] = []
    log: list[ProxyCall] | None = None
    """The runtime's call log; None where the format has none, [] where it logged nothing."""
    log_malformed: bool = False
    status: str | None = None
    """SUCCESS, FAILED, TIMED_OUT for envelopes; None elsewhere."""
    error: Any = None
    execution_time: float | None = None
    """Seconds, as logged."""
    inference_total: int | None = None
    inference_failures: int | None = None
    outcome: SourceOutcome | None = None
    judge: Judgement | None = None
    licence: str | None = None
    raw_dialogue: Any = None
    """The dialogue as logged, kept only where a step is malformed (the scorer judges the raw shape)."""
    extra: dict[str, Any] = {}
    """Losses of the source format, for the way back."""


class Reject(Record, frozen=True):
    """A row that a stage did not pass on. `reasons[0]` decides; evidence never copies unsafe trace text."""

    stage: str
    source: Source
    reasons: list[str]
    """Codes of `oresmith.reasons.Reason`, in the order of the enum."""
    trajectory_id: str | None = None
    problem_id: str | None = None
    evidence: dict[str, Any] = {}
