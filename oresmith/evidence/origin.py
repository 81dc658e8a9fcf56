"""Origin of a trajectory: did the model itself emit the tool calls (A), or did a program make them (B)?

`origin_evidence` gathers facts and knows no threshold of a verdict; `judge_origin` reads the verdict from stored facts
by an `OriginRule`, so that another rule costs no second look at a trace. A means "consistent with agentic": whoever
writes the whole log can write a consistent one, hence the provenance class beside the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

from oresmith.arena.witness import Entry
from oresmith.evidence.origin_echo import echo, echo_facts
from oresmith.evidence.origin_facts import CallEcho, EchoFacts, HeadFacts, OriginEvidence, StepLabel
from oresmith.evidence.origin_log import read_log
from oresmith.evidence.origin_signals import (
    check_facts,
    growth,
    head_facts,
    inference_facts,
    prompt_facts,
    reply_facts,
)
from oresmith.evidence.origin_steps import StepCalls, closing_step, result_sizes, step_calls, step_labels
from oresmith.evidence.provenance import ProvenanceClass, log_provenance
from oresmith.records import Record, Trajectory

MAX_NAMES = 32
"""Distinct tool names that are searched for in texts."""
Vote = Literal["A", "B", "none"]
_STEP_LABEL: dict[str, StepLabel] = {"found": "model_emitted", "not_found": "not_found", "unknown": "unknown"}


class OriginLabel(StrEnum):
    """The label of a trajectory."""

    AGENTIC = "A"
    SUBTASK = "B"
    UNKNOWN = "unknown"


class OriginRule(Record, frozen=True):
    """Every constant of the verdict. Shares are of calls, steps or pairs, between 0 and 1."""

    echo_min: float = 0.9
    """The echo votes A from this share of found among the calls that are not unknown."""
    echo_max: float = 0.5
    """It votes B up to this share, altered calls (the model's tool, other arguments) counted as found."""
    known_min: float = 0.5
    """It votes only where at least this share of the calls is not unknown."""
    anywhere_max: float = 0.5
    """It does not vote B where this share of the calls stands in replies of other times: then the times mislead."""
    head_min: float = 0.9
    """The step pattern votes A from this share of steps with exactly one inference call at their head."""
    head_max: float = 0.5
    """It votes B up to this share."""
    growth_ratio: float = 0.08
    """Tokens per character of recorded results that count as a rise: a result shown whole gives 0.25 or more, so an
    agent may show the model a third of each."""
    growth_min: float = 0.9
    """Prompt growth votes A from this share of rises, where no prompt shrinks."""
    growth_max: float = 0.5
    """It votes B up to this share of rises, or where all rises together fall short of `growth_ratio`. Between the two
    (a history compacted now and then) it abstains."""
    size_tokens: int = 150
    """Tokens that a prompt with a tool list, a request and an observation has at least."""
    size_ratio: float = 0.1
    """A prompt below `size_tokens` with fewer tokens per character of the results before it cannot have held them."""
    size_max: float = 0.5
    """The prompts' size votes B from this share of prompts (after steps with results) that are too small."""
    bare_max: float = 0.25
    """Bare JSON votes B from this share of the known replies; any at all keeps it from voting A."""
    prompt_min: float = 0.8
    """Prompts vote A where this share holds tools and earlier observations, and few order or tell."""
    prompt_max: float = 0.5
    """They vote B from this share of calls told to the model, or of prompts that order a sub-task without tools."""
    dispatch_min: float = 0.5
    """Declared dispatch (ATIF) votes B from this share of the calls."""
    odd_votes: int = 1
    """Votes for B of step pattern, request bodies and bare JSON that a trajectory may have and still be A."""
    busy_slack_s: float = 1.0
    """Seconds by which logged calls may outlast the execution time before the log contradicts the envelope."""
    doubt_uncounted: bool = True
    """Whether logged inference that the envelope counts as 0 casts doubt. Forged journals look so, and so do agents
    that use no client of the runtime's."""
    trust_agent_log: bool = False
    """Whether a log that the agent wrote can make a trajectory A."""


class Origin(Record, frozen=True):
    """The verdict."""

    label: OriginLabel
    votes: list[str]
    """`signal:A`, `signal:B` or `signal:none` for echo, head, growth, size, bodies, replies, prompts and dispatch, then
    `provenance:doubt`, `checks:doubt` where they apply, in this order."""


def origin_evidence(trajectory: Trajectory, witness: Mapping[str, Sequence[Entry]] | None = None) -> OriginEvidence:
    """Gather the origin facts of a trajectory of any format.

    SN15 is judged by its log. An OpenAI row or a ShoppingBench rollout has none: every call is unknown. An ATIF
    document proves nothing by itself, because the harness that could make the calls also writes the document; but where
    it states `llm_call_count: 0` on a step with tool calls, that is a statement against its own interest and is
    believed: those calls are not the model's.

    Args:
        trajectory: from any codec; its log may hold values of any JSON type.
        witness: the arena server's own request log, by session, where the source carries one.

    Returns:
        The facts, all of them. Never raises.
    """
    calls = step_calls(trajectory)
    names = frozenset(
        list(dict.fromkeys(name for own in calls for name in own.names if 0 < len(name) <= 64))[:MAX_NAMES]
    )
    log = read_log(trajectory, names)
    checks = check_facts(trajectory, log)
    has_log = bool(trajectory.log) or (trajectory.log is not None and trajectory.inference_total == 0)
    has_log = has_log and not checks.total_without_log
    declared = any(step.llm_calls is not None for step in trajectory.steps)
    found = echo(calls, log) if has_log and not declared else _without_log(trajectory, calls)
    closing = closing_step(calls, found) if has_log else -1
    facts = inference_facts(log)
    own = [call for call in found if not trajectory.steps[call.step].copied_context] if declared else []
    return OriginEvidence(
        provenance=log_provenance(trajectory, witness),
        has_log=has_log,
        full_text=facts.logged > 0 and facts.with_text == facts.logged,
        calls=found,
        steps=step_labels(trajectory, calls, log, found, has_log),
        recommend=_recommend(calls, found),
        dispatch=sum(call.match == "dispatch" for call in own),
        dispatch_of=len(own),
        echo=echo_facts(calls, log, found, closing) if has_log else EchoFacts(unknown=len(found)),
        head=head_facts(calls, log, found, closing) if has_log else HeadFacts(),
        growth=growth(log, result_sizes(trajectory)),
        inference=facts,
        replies=reply_facts(log),
        prompts=prompt_facts(trajectory, log, names),
        checks=checks,
    )


def _without_log(trajectory: Trajectory, calls: list[StepCalls]) -> list[CallEcho]:
    """Calls of a source without a log: unknown, unless the source itself says that no model was called."""
    found = []
    for index, (step, own) in enumerate(zip(trajectory.steps, calls, strict=True)):
        dispatched = step.llm_calls == 0
        for place in range(len(own.names)):
            label: Literal["not_found", "unknown"] = "not_found" if dispatched else "unknown"
            match: Literal["dispatch", "no_log"] = "dispatch" if dispatched else "no_log"
            found.append(CallEcho(step=index, call=place, label=label, match=match))
    return found


def _recommend(calls: list[StepCalls], found: list[CallEcho]) -> StepLabel | None:
    """The label of the last recommendation: only that one is scored."""
    for call in reversed(found):
        if calls[call.step].names[call.call] == "recommend_product":
            return _STEP_LABEL[call.label]
    return None


def judge_origin(evidence: OriginEvidence, rule: OriginRule | None = None) -> Origin:
    """Read the verdict from stored facts.

    * A: the echo votes A; prompts grow, or were read and hold tools and observations; at most `odd_votes` of the other
      signals vote B; nothing shows that the calls were told to the model or chosen without the results; and neither
      the log's provenance nor the cross-checks cast doubt.
    * B: the echo votes B; or it votes A while the prompts told the calls or were too small to hold the results; or it
      abstains (texts dropped) while replies are bare JSON and step pattern or request bodies vote B as well.
    * unknown: everything else. Dropped texts alone never make B.

    Args:
        evidence: the facts.
        rule: the constants; the defaults where None.

    Returns:
        Label and votes.
    """
    rule = rule or OriginRule()
    votes = origin_votes(evidence, rule)
    doubts = origin_doubts(evidence, rule)
    label = _label(evidence, rule, votes, bool(doubts))
    return Origin(label=label, votes=[f"{signal}:{vote}" for signal, vote in votes.items()] + doubts)


def _label(evidence: OriginEvidence, rule: OriginRule, votes: dict[str, Vote], doubt: bool) -> OriginLabel:
    odd = [votes[signal] for signal in ("head", "bodies", "replies")].count("B")
    if votes["dispatch"] == "B":
        return OriginLabel.SUBTASK
    if votes["echo"] == "none":
        judged = votes["replies"] == "B" and odd > 1 and votes["growth"] != "A"
        return OriginLabel.SUBTASK if judged else OriginLabel.UNKNOWN
    if votes["echo"] == "B" or votes["prompts"] == "B" or votes["size"] == "B":
        return OriginLabel.SUBTASK
    measured = votes["prompts"] == "A" or any(pair.shown for pair in evidence.growth)
    if doubt or votes["growth"] == "B" or not measured or odd > rule.odd_votes:
        return OriginLabel.UNKNOWN
    return OriginLabel.AGENTIC


def origin_votes(evidence: OriginEvidence, rule: OriginRule) -> dict[str, Vote]:
    """The vote of each signal, by its name."""
    head, inference, replies = evidence.head, evidence.inference, evidence.replies
    return {
        "echo": _echo_vote(evidence, rule),
        "head": _share_vote(head.head_first, head.steps, rule.head_min, rule.head_max),
        "growth": _growth_vote(evidence, rule),
        "size": _size_vote(evidence, rule),
        "bodies": "none" if inference.answered < 2 else "A" if inference.parameter_sets == 1 else "B",
        "replies": _replies_vote(replies.bare_json, inference.with_text, rule),
        "prompts": _prompts_vote(evidence, rule),
        "dispatch": _dispatch_vote(evidence, rule),
    }


def origin_doubts(evidence: OriginEvidence, rule: OriginRule) -> list[str]:
    """What keeps a log from being believed when it speaks for A."""
    checks = evidence.checks
    late = checks.execution_s is not None and checks.busy_s > checks.execution_s + rule.busy_slack_s
    agent = evidence.provenance.kind is ProvenanceClass.AGENT_WRITTEN and not rule.trust_agent_log
    doubts = ["provenance:doubt"] if agent else []
    uncounted = checks.total_zero and rule.doubt_uncounted
    return [*doubts, "checks:doubt"] if late or uncounted else doubts


def _share_vote(part: int, whole: int, least: float, most: float) -> Vote:
    """A from the share `least` on, B up to `most`; no vote over nothing."""
    if whole == 0:
        return "none"
    return "A" if part >= least * whole else "B" if part <= most * whole else "none"


def _growth_vote(evidence: OriginEvidence, rule: OriginRule) -> Vote:
    pairs = [pair for pair in evidence.growth if pair.shown]
    rises = sum(pair.delta >= max(1.0, rule.growth_ratio * pair.shown) for pair in pairs)
    gained, shown = sum(max(pair.delta, 0) for pair in pairs), sum(pair.shown for pair in pairs)
    vote = _share_vote(rises, len(pairs), rule.growth_min, rule.growth_max)
    if pairs and gained < rule.growth_ratio * shown:
        return "B"
    return "none" if vote == "A" and any(pair.delta < 0 for pair in pairs) else vote


def _size_vote(evidence: OriginEvidence, rule: OriginRule) -> Vote:
    prompts = [pair for pair in evidence.growth if pair.shown]
    small = sum(p.tokens < min(rule.size_tokens, rule.size_ratio * p.shown) for p in prompts)
    return "B" if small and small >= rule.size_max * len(prompts) else "none"


def _echo_vote(evidence: OriginEvidence, rule: OriginRule) -> Vote:
    echo_of = evidence.echo
    known = echo_of.found + echo_of.not_found
    total = known + echo_of.unknown
    if not evidence.has_log or known == 0 or known < rule.known_min * total:
        return "none"
    vote = _share_vote(echo_of.found, known, rule.echo_min, rule.echo_max)
    misplaced = echo_of.anywhere >= rule.anywhere_max * total and echo_of.anywhere > echo_of.found
    altered = echo_of.found + echo_of.altered > rule.echo_max * known
    return "none" if vote == "B" and (misplaced or altered) else vote


def _dispatch_vote(evidence: OriginEvidence, rule: OriginRule) -> Vote:
    most = evidence.dispatch >= rule.dispatch_min * evidence.dispatch_of
    return "B" if evidence.dispatch and most else "none"


def _replies_vote(bare: int, known: int, rule: OriginRule) -> Vote:
    if known == 0:
        return "none"
    return "A" if bare == 0 else "B" if bare >= rule.bare_max * known else "none"


def _prompts_vote(evidence: OriginEvidence, rule: OriginRule) -> Vote:
    facts = evidence.prompts
    if facts.readable == 0:
        return "none"
    told = facts.calls > 0 and facts.told >= rule.prompt_max * facts.calls
    asked = facts.asking >= rule.prompt_max * facts.readable
    tools = facts.with_tools >= rule.prompt_min * facts.readable
    if told or (asked and not tools):
        return "B"
    seen = facts.expecting > 0 and facts.with_observations >= rule.prompt_min * facts.expecting
    return "A" if tools and seen and not asked else "none"
