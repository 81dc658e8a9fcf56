"""The signals of a trajectory's evidence row, each a small class with `name` and `facts`, composed by list.

A signal states facts and applies no gate's threshold. Together they fill the columns of schemas/evidence.py; a stage
times each of them by its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from oresmith.arena.witness import Witness
from oresmith.errors import OresmithError
from oresmith.evidence.calls import calls
from oresmith.evidence.injection import find_injections
from oresmith.evidence.judge import judge_evidence
from oresmith.evidence.origin import OriginRule, judge_origin, origin_evidence
from oresmith.evidence.outcome import World, outcome, score_text
from oresmith.evidence.provenance import SN15_FORMATS
from oresmith.evidence.secrets import find_secrets, find_secrets_in
from oresmith.evidence.structure import structure
from oresmith.param_data import Evidence
from oresmith.records import Problem, Trajectory

Facts = dict[str, Any]
STATUSES = frozenset({"SUCCESS", "FAILED", "TIMED_OUT"})
ERROR_NAME = re.compile(r"[A-Za-z]{1,40}(Error|Exception|Timeout|TimedOut|Interrupt|Exit|Warning)")
SAFE_ID = re.compile(r"[\w.:@/#+-]{1,200}")


class Signal(Protocol):
    """One block of evidence."""

    name: str

    def facts(self, trajectory: Trajectory) -> Facts:
        """Columns of the evidence table and their values; never raises on any trajectory."""


def problem_key(problem: Problem) -> str | None:
    """What groups attempts at one problem: its id, else a hash of its query; None where neither is known."""
    if problem.problem_id or not problem.query:
        return safe_id(problem.problem_id)
    return "query:" + sha256(problem.query.encode()).hexdigest()


def known_status(status: str | None) -> str | None:
    """The envelope's status if it is one of the arena's, else "other": what else stands there is the writer's text."""
    return status if status is None or status in STATUSES else "other"


def error_type(error: object) -> str | None:
    """The name of the exception that ended the agent, if it looks like one, else "other"."""
    kind = error.get("type") if isinstance(error, dict) else None
    if not isinstance(kind, str):
        return None
    return kind if ERROR_NAME.fullmatch(kind) else "other"


@lru_cache(maxsize=4096)
def safe_id(text: str | None) -> str | None:
    """An id as tables and rejects may repeat it: one that is long, odd or carries a secret stands as its hash."""
    if text is None or (SAFE_ID.fullmatch(text) and not find_secrets_in("problem_id", text)):
        return text
    return "sha256:" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Place:
    """Where the row stands, what it is called, and what its source declares."""

    name = "place"

    def __init__(self, world: World) -> None:
        self.world = world

    def facts(self, trajectory: Trajectory) -> Facts:
        """Place, identity, declared provenance and problem."""
        source, who = trajectory.source, trajectory.provenance
        problem = self.world.problem_of(trajectory)
        return {
            "snapshot": source.snapshot,
            "file": source.file,
            "file_sha256": source.file_sha256,
            "line": source.line,
            "offset": source.offset,
            "length": source.length,
            "trajectory_id": trajectory.trajectory_id,
            "identity": trajectory.identity,
            "content": trajectory.content,
            "format": trajectory.format.value,
            "status": known_status(trajectory.status),
            "error_type": error_type(trajectory.error),
            "agent_version": who.agent_version,
            "run_id": who.run_id,
            "validator": who.validator,
            "miner": who.miner,
            "race_id": who.race_id,
            "runtime": who.runtime,
            "licence": trajectory.licence,
            "problem_id": safe_id(problem.problem_id),
            "problem": problem_key(problem),
            "category": problem.category,
        }


class Outcome:
    """Success, by our scorer where problem and catalogue are known, else by the source's word."""

    name = "outcome"

    def __init__(self, world: World) -> None:
        self.world = world

    def facts(self, trajectory: Trajectory) -> Facts:
        """The outcome with the scorer's name, its score, and why it has none."""
        found = outcome(trajectory, self.world)
        score = found.score if found.source == "rescored" and isinstance(found.score, dict) else {}
        # The format score judges SN15's own rendering and time stamps; for other formats it would judge our codec.
        score_format = score.get("format") if trajectory.format in SN15_FORMATS else None
        return {
            "outcome": found.outcome,
            "outcome_source": found.source,
            "scorer": found.scorer if found.source == "rescored" else safe_id(found.scorer),
            "score": score_text(found),
            "score_rule": score.get("rule"),
            "score_gt": score.get("gt"),
            "score_format": score_format,
            "score_error": found.error,
            "recommend_unresolved": found.unresolved,
        }


class Origin:
    """Whether the model itself emitted the calls, and who wrote the log that says so."""

    name = "origin"

    def __init__(self, rule: OriginRule, witness: Witness | None = None) -> None:
        self.rule, self.witness = rule, witness

    def facts(self, trajectory: Trajectory) -> Facts:
        """Label, votes, labels a step, all facts as JSON, and the provenance class."""
        evidence = origin_evidence(trajectory, self.witness)
        verdict = judge_origin(evidence, self.rule)
        return {
            "origin": verdict.label.value,
            "origin_votes": verdict.votes,
            "origin_signals": msgspec.json.encode(evidence).decode(),
            "step_origins": list(evidence.steps),
            "recommend_origin": evidence.recommend,
            "full_text": evidence.full_text,
            "inference_calls": evidence.inference.logged,
            "provenance_class": evidence.provenance.kind.value,
        }


class Judge:
    """The reasoning judge's score, whether there is one, and of which era."""

    name = "judge"

    def facts(self, trajectory: Trajectory) -> Facts:
        """Status, quality and era."""
        found = judge_evidence(trajectory)
        return {
            "judge_status": found.status,
            "judge_quality": found.quality,
            "judge_era": found.era,
            "judge_model": safe_id(found.model),
        }


class Structure:
    """Depth, reformulations, verification, repetition, and what the hard rejects ask."""

    name = "structure"

    def facts(self, trajectory: Trajectory) -> Facts:
        """Structure of messages and calls."""
        found = structure(trajectory)
        return {
            "n_messages": len(trajectory.messages),
            "n_steps": found.n_steps,
            "n_calls": found.n_calls,
            "malformed_steps": sum(step.malformed is not None for step in trajectory.steps),
            "unpaired_calls": found.unpaired_calls,
            "orphan_results": found.orphan_results,
            "recommend_calls": found.recommend_calls,
            "recommend_parses": bool(found.recommended_ids),
            "recommended_ids": found.recommended_ids,
            "terminated": found.terminated,
            "depth": found.depth,
            "reformulations": found.reformulations,
            "verified_before_recommend": found.verified_before_recommend,
            "max_repeat": found.max_repeat,
            "templated_thinking": found.templated_thinking,
            "call_sequence": found.call_sequence,
        }


class Calls:
    """Calls against the tool schema."""

    name = "calls"

    def facts(self, trajectory: Trajectory) -> Facts:
        """Counts of unknown tools and invalid calls, and the commonest faults."""
        found = calls(trajectory)
        return {
            "calls_unknown_tool": found.unknown_tool,
            "calls_invalid": found.invalid,
            "call_faults": found.faults,
        }


class Tokens:
    """Token length under the named tokenizer; null where it cannot be computed."""

    name = "tokens"

    def __init__(self, tokenizer: str, *, required: bool) -> None:
        self.tokenizer, self.required = tokenizer, required

    def facts(self, trajectory: Trajectory) -> Facts:
        """Tokens of content and calls, plus the stated allowance."""
        from oresmith.evidence.tokens import TokensUnavailable, count, tokenizer_name

        if self.tokenizer == "none":
            return {"tokens": None, "tokenizer": None}
        try:
            return {"tokens": count(trajectory), "tokenizer": tokenizer_name()}
        except TokensUnavailable as error:
            if self.required:
                raise OresmithError(
                    "the tokens cannot be counted here",
                    where=f"evidence.tokenizer: {self.tokenizer}",
                    got=str(error)[:200],
                    todo="install what is missing, or set evidence.tokenizer to none: two machines must not differ",
                ) from error
            return {"tokens": None, "tokenizer": None}


class Findings:
    """Secrets, personal data, server paths, and instructions to the judge: types and places, never the text."""

    name = "findings"

    def facts(self, trajectory: Trajectory) -> Facts:
        """Types by kind, and all findings as JSON."""
        found = [*find_secrets(trajectory), *find_injections(trajectory)]
        kinds = ("secret", "personal", "path", "injection")
        types = {kind: sorted({one.type for one in found if one.kind == kind}) for kind in kinds}
        return {
            "secret_types": types["secret"],
            "personal_types": types["personal"],
            "path_types": types["path"],
            "injection_types": types["injection"],
            "findings": msgspec.json.encode(found).decode() if found else None,
        }


def build_signals(
    params: Evidence, world: World, *, witness: Witness | None = None, tokens_required: bool = True
) -> list[Signal]:
    """All signals, in the order in which they run.

    Args:
        params: of the evidence stage.
        world: problems and products to score with.
        witness: the arena server's own request log, where the snapshot carries one.
        tokens_required: refuse where the named tokenizer is missing; else the length reads "not computed".
    """
    rule = OriginRule(echo_min=params.echo_min, head_min=params.head_min)
    return [
        Place(world),
        Outcome(world),
        Origin(rule, witness),
        Judge(),
        Structure(),
        Calls(),
        Tokens(params.tokenizer, required=tokens_required),
        Findings(),
    ]


def evidence_row(trajectory: Trajectory, signals: Sequence[Signal]) -> Facts:
    """The evidence row of one trajectory: the facts of all signals."""
    row: Facts = {}
    for signal in signals:
        row |= signal.facts(trajectory)
    return row
