"""What the origin signals store: facts only. `oresmith.evidence.origin` reads a verdict from them, by a rule."""

from __future__ import annotations

from typing import Literal

import msgspec

from oresmith.evidence.provenance import LogProvenance
from oresmith.records import Record

StepLabel = Literal["model_emitted", "not_found", "unknown"]
CallLabel = Literal["found", "not_found", "unknown"]
Match = Literal[
    "exact",  # found: same tool, same arguments (`toolcall_text.canonical`)
    "loose",  # found: same tool, one side's arguments contain the other's
    "altered",  # not found: a reply calls that tool with other arguments
    "absent",  # not found: the replies of the window are all known and none names the call
    "no_inference",  # not found: no inference call in the window
    "no_reply",  # not found: every inference call of the window failed
    "dispatch",  # not found: the source itself says that no model was called (ATIF `llm_call_count: 0`)
    "mentioned",  # unknown: a reply names tool and values, in a shape that the parser does not read
    "text_dropped",  # unknown: the log dropped the text of a reply that may hold the call
    "no_window",  # unknown: the step, or an inference call, has no usable time
    "no_log",  # unknown: the format or the file has no log of inference calls
    "not_examined",  # unknown: the trajectory has more calls than are examined
]


class CallEcho(Record, frozen=True):
    """Signal 1 for one tool call."""

    step: int
    """Index in `Trajectory.steps`."""
    call: int
    """Place among the step's tool calls, from 0. (No name: evidence carries no text of a trace.)"""
    label: CallLabel
    match: Match
    carried: bool = False
    """Found in the reply of an earlier window: the agent spreads one reply's parallel calls over several steps."""
    out_of_order: bool = False
    """Found, but before a call that the step lists earlier."""


class EchoFacts(Record, frozen=True):
    """Signal 1, summed over the trajectory. `closing` calls are counted apart and in none of the other counts."""

    found: int = 0
    not_found: int = 0
    unknown: int = 0
    closing: int = 0
    """Calls of a last step that only recommends or terminates and stands in no reply: agents end so when the model
    gives no answer ("Auto-recommending .."). Its step is labelled not_found all the same."""
    altered: int = 0
    """Those not found whose tool a reply of the window calls with other arguments: an agent that rewrites its model's
    calls, or a program that has the model call something for show."""
    carried: int = 0
    out_of_order: int = 0
    anywhere: int = 0
    """Calls that stand in any reply at all, whatever its time: high with `found` low, the step times are no guide."""


class HeadFacts(Record, frozen=True):
    """Signal 2: the pattern I S* of each step that calls tools, failed and dropped calls included."""

    steps: int = 0
    """Steps with calls and a known window; closing steps and those fed by an earlier reply left out."""
    head_first: int = 0
    """Exactly one answered inference call, ended before the step's first other call began."""
    without: int = 0
    """No answered inference call."""
    several: int = 0
    """More than one answered inference call."""


class Growth(Record, frozen=True):
    """Signal 3 for two successive inference calls that both log their prompt's tokens."""

    tokens: int
    """Tokens of the later prompt."""
    delta: int
    """Tokens by which the prompt grew (negative: it shrank)."""
    shown: int
    """Characters of the tool results that the steps between the two record; 0 within one step."""


class InferenceFacts(Record, frozen=True):
    """Signal 4, and what the log holds of inference."""

    logged: int = 0
    answered: int = 0
    with_text: int = 0
    """Calls whose reply's text (or native tool calls) the log holds."""
    others: int = 0
    """Log entries of this run that are not inference: searches and views."""
    untimed: int = 0
    """Inference calls without a usable time."""
    stale: int = 0
    """Log entries (of any kind) of earlier runs in the same output folder."""
    unplaced: bool = False
    """Half of the inference calls or more ended after the last step: the step times are no guide."""
    models: int = 0
    parameter_sets: int = 0
    """Distinct request bodies without messages and tools; failed calls left out (agents fall back to another model)."""


class ReplyFacts(Record, frozen=True):
    """Signal 5: replies that are bare JSON and make no call."""

    bare_json: int = 0
    judging: int = 0
    """Those of them with a key that speaks of scores, best ids, keywords or constraints."""


class PromptFacts(Record, frozen=True):
    """Signal 6: what the prompts hold, where the log has them (later runtime)."""

    logged: int = 0
    """Answered inference calls with a list of messages."""
    readable: int = 0
    """Those of them whose texts were not replaced by their length."""
    with_tools: int = 0
    """Readable ones that offer tools or name at least two tools of the trajectory (one, where it has one)."""
    expecting: int = 0
    """Readable ones before which a step recorded a result with an id in it."""
    with_observations: int = 0
    """Expecting ones that hold such an id."""
    asking: int = 0
    """Readable ones whose system or last message orders the model to score, parse, narrate or repeat."""
    calls: int = 0
    """Calls in the replies to readable prompts, `terminate` left out."""
    told: int = 0
    """Those of them that the prompt already held word for word outside the assistant's own messages."""


class CheckFacts(Record, frozen=True):
    """Signal 8: the log against the envelope."""

    total_zero: bool = False
    """Inference is logged and answered, but the envelope counts none (agents with several clients do so too)."""
    total_without_log: bool = False
    """The envelope counts inference calls and the log holds none: the log is not complete."""
    summed_s: float = 0.0
    """Durations of all log entries added up, in seconds (parallel calls count twice)."""
    busy_s: float = 0.0
    """Seconds in which at least one logged call was running."""
    execution_s: float | None = None


class OriginEvidence(Record, frozen=True):
    """All origin facts of one trajectory."""

    provenance: LogProvenance
    has_log: bool = False
    """There is a log to look calls up in: it holds an entry and is not short of inference that the envelope counts, or
    it is empty and the envelope counts no inference either."""
    full_text: bool = False
    """There is an inference call in the log, and every one has its reply's text."""
    calls: list[CallEcho] = msgspec.field(default_factory=list)
    steps: list[StepLabel] = msgspec.field(default_factory=list)
    """One label per entry of `Trajectory.steps`."""
    recommend: StepLabel | None = None
    """The last `recommend_product` on its own; None where there is none."""
    dispatch: int = 0
    """Tool calls (copied context left out) that the source says no model made."""
    dispatch_of: int = 0
    """Tool calls (copied context left out), where the source counts model calls per step at all; else 0."""
    echo: EchoFacts = EchoFacts()
    head: HeadFacts = HeadFacts()
    growth: list[Growth] = msgspec.field(default_factory=list)
    inference: InferenceFacts = InferenceFacts()
    replies: ReplyFacts = ReplyFacts()
    prompts: PromptFacts = PromptFacts()
    checks: CheckFacts = CheckFacts()
