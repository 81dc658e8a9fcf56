"""Row gates: each rule is a reason, the condition that rejects, and the columns that are its evidence.

A rule is a polars expression over one row of the evidence table (schemas/evidence.py), so a changed threshold costs
one columnar pass and never a look at a trace. A null condition (the fact is unknown) does not reject: what an unknown
fact means is always a rule and a parameter of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from oresmith.param_data import Gate
from oresmith.reasons import Reason


class Rule(NamedTuple):
    """One row gate."""

    reason: Reason
    rejects: pl.Expr
    """Boolean expression over the evidence columns; null counts as false."""
    quotes: tuple[str, ...]
    """Evidence columns that the reject carries: facts of ours, never trace text."""


def row_rules(gate: Gate) -> list[Rule]:
    """The row gates under these thresholds, in the order of precedence of `Reason`.

    Args:
        gate: thresholds (`gate.*` in params.yaml).

    Returns:
        Rules whose expressions need the columns of schemas/evidence.py.
    """
    col = pl.col
    readable = [
        Rule(Reason.AGENT_FAILED, col("status") == "FAILED", ("status", "error_type")),
        Rule(Reason.TIMED_OUT, col("status") == "TIMED_OUT", ("status", "error_type")),
        Rule(Reason.NO_DIALOGUE, col("n_steps") == 0, ("status", "n_steps")),
        Rule(Reason.MALFORMED_STEP, col("malformed_steps") > 0, ("malformed_steps",)),
    ]
    hard = [
        Rule(
            Reason.UNPAIRED_CALL,
            (col("unpaired_calls") > 0) | (col("orphan_results") > 0),
            ("unpaired_calls", "orphan_results", "n_calls"),
        ),
        Rule(Reason.RECOMMEND_NOT_ONCE, col("recommend_calls") != 1, ("recommend_calls",)),
        Rule(Reason.RECOMMEND_INVALID, _recommend_invalid(gate), ("recommend_parses", "recommend_unresolved")),
        Rule(Reason.THINK_THEN_STOP, (col("recommend_calls") == 0) | ~col("terminated"), ("terminated", "n_steps")),
    ]
    if gate.max_tokens is not None:
        hard.append(Rule(Reason.TOO_LONG, col("tokens") > gate.max_tokens, ("tokens", "tokenizer")))
        if gate.length_missing == "reject":
            hard.append(Rule(Reason.LENGTH_UNKNOWN, col("tokens").is_null(), ("tokenizer",)))
    rules = [*readable, *hard, *_call_rules(gate), *_judgement_rules(gate), *_text_rules(gate)]
    return sorted(rules, key=lambda rule: list(Reason).index(rule.reason))


def _recommend_invalid(gate: Gate) -> pl.Expr:
    unparsable = ~pl.col("recommend_parses")
    if gate.ids_unresolved == "pass":
        return unparsable
    return unparsable | (pl.col("recommend_unresolved") > 0)


def _call_rules(gate: Gate) -> list[Rule]:
    """Calls against the tool schema, and the format score."""
    rules = [Rule(Reason.FORMAT, pl.col("score_format") < gate.format_min, ("score_format", "scorer"))]
    if gate.unknown_tools == "reject":
        rules.append(Rule(Reason.UNKNOWN_TOOL, pl.col("calls_unknown_tool") > 0, ("calls_unknown_tool", "n_calls")))
    if gate.invalid_calls == "reject":
        rules.append(Rule(Reason.INVALID_CALL, pl.col("calls_invalid") > 0, ("calls_invalid", "call_faults")))
    return rules


def _judgement_rules(gate: Gate) -> list[Rule]:
    """Outcome, reasoning, origin and provenance."""
    rules = []
    outcome_columns = ("outcome", "outcome_source", "scorer", "score_rule", "score_gt")
    if gate.outcome == "success":
        rules.append(Rule(Reason.OUTCOME, pl.col("outcome") == "failure", outcome_columns))
        if gate.outcome_missing == "reject":
            rules.append(
                Rule(Reason.OUTCOME_UNKNOWN, pl.col("outcome") == "unknown", (*outcome_columns, "score_error"))
            )
    judged = (pl.col("judge_status") == "judged") & pl.col("judge_era").is_in(gate.reasoning_eras)
    judge_columns = ("judge_status", "judge_quality", "judge_era")
    rules.append(Rule(Reason.REASONING, judged & (pl.col("judge_quality") < gate.reasoning_min), judge_columns))
    if gate.reasoning_missing == "reject":
        rules.append(Rule(Reason.REASONING_MISSING, ~judged, judge_columns))
    origin_columns = ("origin", "origin_votes", "full_text")
    if "B" not in gate.origin:
        rules.append(Rule(Reason.ORIGIN_SUBTASK, pl.col("origin") == "B", origin_columns))
    if "unknown" not in gate.origin:
        rules.append(Rule(Reason.ORIGIN_UNKNOWN, pl.col("origin") == "unknown", origin_columns))
    rules.append(Rule(Reason.PROVENANCE, ~pl.col("provenance_class").is_in(gate.provenance), ("provenance_class",)))
    return rules


def _text_rules(gate: Gate) -> list[Rule]:
    """Secrets, personal data and instructions to the judge: types and places only, never the text."""
    chosen = (
        (gate.secrets, Reason.SECRET, "secret_types"),
        (gate.personal_data, Reason.PERSONAL_DATA, "personal_types"),
        (gate.judge_injection, Reason.JUDGE_INJECTION, "injection_types"),
    )
    return [
        Rule(reason, pl.col(column).list.len() > 0, (column,)) for mode, reason, column in chosen if mode == "reject"
    ]


def apply_rules(evidence: pl.DataFrame, rules: list[Rule]) -> pl.DataFrame:
    """Add the column `reasons` (list of codes in order of precedence; empty where every rule lets the row pass)."""
    fired = [pl.when(rule.rejects.fill_null(False)).then(pl.lit(rule.reason.value)).otherwise(None) for rule in rules]
    return evidence.with_columns(pl.concat_list(fired).list.drop_nulls().alias("reasons"))
