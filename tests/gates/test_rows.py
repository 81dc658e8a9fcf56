"""Each row gate rejects what its reason says, for a threshold that is a parameter, and nothing else."""

import pytest

from oresmith.gates import decide
from oresmith.gates.decide import rejects
from oresmith.param_data import Gate
from oresmith.reasons import Reason
from tests.gates.rows import good, table

CASES = [
    (Reason.AGENT_FAILED, {"status": "FAILED"}),
    (Reason.TIMED_OUT, {"status": "TIMED_OUT"}),
    (Reason.NO_DIALOGUE, {"n_steps": 0}),
    (Reason.MALFORMED_STEP, {"malformed_steps": 1}),
    (Reason.UNPAIRED_CALL, {"unpaired_calls": 1}),
    (Reason.UNPAIRED_CALL, {"orphan_results": 1}),
    (Reason.RECOMMEND_NOT_ONCE, {"recommend_calls": 2}),
    (Reason.RECOMMEND_INVALID, {"recommend_parses": False}),
    (Reason.RECOMMEND_INVALID, {"recommend_unresolved": 1}),
    (Reason.TOO_LONG, {"tokens": 14337}),
    (Reason.THINK_THEN_STOP, {"terminated": False}),
    (Reason.UNKNOWN_TOOL, {"calls_unknown_tool": 1}),
    (Reason.INVALID_CALL, {"calls_invalid": 1}),
    (Reason.FORMAT, {"score_format": 0.99}),
    (Reason.OUTCOME, {"outcome": "failure"}),
    (Reason.OUTCOME_UNKNOWN, {"outcome": "unknown"}),
    (Reason.REASONING, {"judge_quality": 0.3}),
    (Reason.ORIGIN_SUBTASK, {"origin": "B"}),
    (Reason.ORIGIN_UNKNOWN, {"origin": "unknown"}),
    (Reason.PROVENANCE, {"provenance_class": "agent-written"}),
    (Reason.SECRET, {"secret_types": ["aws_key"]}),
    (Reason.PERSONAL_DATA, {"personal_types": ["email"]}),
    (Reason.JUDGE_INJECTION, {"injection_types": ["instruction"]}),
]


def reasons(row, gate=None):
    return decide([table(row)], gate or Gate())["reasons"].to_list()[0]


def test_a_good_row_passes_every_default_gate():
    assert reasons(good()) == []


@pytest.mark.parametrize(("reason", "change"), CASES, ids=[f"{r}-{i}" for i, (r, _) in enumerate(CASES)])
def test_one_fault_gives_one_reason(reason, change):
    assert reasons(good(**change)) == [reason.value]


def test_a_row_keeps_all_its_reasons_and_the_first_in_the_enum_decides():
    row = good(secret_types=["jwt"], outcome="failure", unpaired_calls=2)
    assert reasons(row) == ["unpaired_call", "outcome", "secret"]


def test_thinking_and_stopping_is_named_beside_the_missing_recommendation():
    assert reasons(good(recommend_calls=0)) == ["recommend_not_once", "think_then_stop"]


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        ({"judge_status": "missing", "judge_quality": None}, Gate()),
        ({"judge_status": "judged", "judge_quality": 0.1, "judge_era": "unbinned"}, Gate()),
        ({"tokens": None}, Gate()),
        ({"score_format": None}, Gate()),
        ({"recommend_unresolved": None}, Gate()),
        ({"outcome": "unknown"}, Gate(outcome_missing="pass")),
        ({"outcome": "failure"}, Gate(outcome="any")),
        ({"origin": "B"}, Gate(origin=("A", "B"))),
        ({"tokens": 99999}, Gate(max_tokens=None)),
        ({"secret_types": ["jwt"]}, Gate(secrets="pass")),
    ],
)
def test_unknown_facts_and_lifted_gates_let_a_row_pass(change, gate):
    assert reasons(good(**change), gate) == []


@pytest.mark.parametrize(
    ("change", "gate", "expected"),
    [
        ({"judge_status": "missing", "judge_quality": None}, Gate(reasoning_missing="reject"), ["reasoning_missing"]),
        ({"tokens": None}, Gate(length_missing="reject"), ["length_unknown"]),
        ({"judge_era": "unbinned"}, Gate(reasoning_missing="reject"), ["reasoning_missing"]),
        ({}, Gate(reasoning_min=0.95), ["reasoning"]),
    ],
)
def test_what_a_missing_fact_means_is_a_parameter(change, gate, expected):
    assert reasons(good(**change), gate) == expected


def test_a_reject_carries_place_reasons_and_the_facts_behind_them():
    decided = decide([table(good(7, outcome="failure", score_rule=0.5))], Gate())
    (reject,) = rejects(decided, Gate())
    assert (reject.source.file, reject.source.line, reject.source.offset) == ("a.jsonl", 7, 700)
    assert reject.reasons == ["outcome"]
    assert reject.evidence["score_rule"] == 0.5
