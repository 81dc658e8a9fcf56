"""Origin on real envelopes: the sandbox's own reference agent, a real miner, and deliberate fakes."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import NamedTuple

from oresmith.evidence.origin import Origin, judge_origin, origin_evidence
from oresmith.evidence.origin_facts import OriginEvidence
from oresmith.traces import Context, decode
from tests.arena.real import SN15, needs_shared, rows
from tests.evidence.test_origin_play import SOURCE

pytestmark = needs_shared
AGENTIC_SHARE = 0.95
UNKNOWN_SHARE = 0.1


class Judged(NamedTuple):
    status: str | None
    evidence: OriginEvidence
    origin: Origin


@cache
def judged(name: str) -> tuple[Judged, ...]:
    found = []
    for row in rows(SN15 / f"traces_{name}.jsonl.gz"):
        trajectory = decode(row, Context(source=SOURCE))
        evidence = origin_evidence(trajectory)
        found.append(Judged(trajectory.status, evidence, judge_origin(evidence)))
    return tuple(found)


def labels(name: str) -> Counter[str]:
    return Counter(one.origin.label.value for one in judged(name))


def test_reference_successes_with_full_text_are_agentic() -> None:
    for name in ("reference", "reference_newruntime"):
        full = [one for one in judged(name) if one.status == "SUCCESS" and one.evidence.full_text]
        agentic = [one for one in full if one.origin.label == "A"]
        assert full
        assert len(agentic) >= AGENTIC_SHARE * len(full), name


def test_reference_envelopes_without_full_text_are_unknown_or_agentic_never_sub_task() -> None:
    for name in ("reference", "reference_long", "reference_newruntime"):
        partial = [one for one in judged(name) if not one.evidence.full_text]
        assert partial, name
        assert {one.origin.label.value for one in partial} <= {"A", "unknown"}, name


def test_a_real_miners_search_program_is_sub_task() -> None:
    found = labels("miner_b")
    assert found["A"] == 0
    assert found["unknown"] <= UNKNOWN_SHARE * sum(found.values())


def test_fakes_are_never_agentic() -> None:
    assert labels("probe_decoy")["A"] == 0
    assert labels("probe_puppet")["A"] == 0


def test_the_puppet_echoes_every_call_and_falls_to_prompt_growth() -> None:
    for one in judged("probe_puppet"):
        assert one.evidence.echo.not_found == one.evidence.echo.unknown == 0
        assert "echo:A" in one.origin.votes
        assert "growth:B" in one.origin.votes


def test_misbehaving_agents_are_labelled_without_a_crash() -> None:
    found = judged("probe_failures")
    assert len(found) == 47
    for one in found:
        assert one.origin.label != "A"
        assert one.origin.label == "unknown" or one.evidence.steps


def test_every_shared_log_is_the_runtimes_own_or_absent() -> None:
    for name in ("reference", "reference_long", "reference_newruntime", "miner_b", "probe_decoy", "probe_puppet"):
        for one in judged(name):
            expected = "runtime-written" if one.evidence.provenance.entries else "absent"
            assert one.evidence.provenance.kind == expected


def test_recommendations_that_the_program_wrote_are_told_apart() -> None:
    program = [one for one in judged("reference") if one.evidence.recommend == "not_found"]
    assert program
    assert {one.evidence.steps[-1] for one in program} == {"not_found"}
