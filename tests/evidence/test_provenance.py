"""Who wrote the call log: one mark of an agent's journal is enough, and no log is no witness."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oresmith.evidence.provenance import log_provenance
from oresmith.records import Format, ProxyCall
from tests.evidence.test_origin_play import Play, agentic


def test_a_log_with_every_mark_of_the_runtime_is_runtime_written() -> None:
    facts = log_provenance(agentic().trajectory())
    assert facts.kind == "runtime-written"
    assert facts.entries == 7
    assert facts.agent_first_steps == facts.token_entries == facts.foreign_entries == 0


def test_one_step_whose_log_precedes_the_problem_id_is_enough() -> None:
    play = agentic()
    play.steps[-1] = msgspec.structs.replace(play.steps[-1], log_first=True)
    facts = log_provenance(play.trajectory())
    assert (facts.kind, facts.agent_first_steps) == ("agent-written", 1)


@pytest.mark.parametrize("tokens", [0, 31, "31", {"n": 1}])
def test_one_entry_with_its_own_token_count_is_enough(tokens: Any) -> None:
    play = agentic()
    play.log[3] = msgspec.structs.replace(play.log[3], completion_tokens=tokens)
    facts = log_provenance(play.trajectory())
    assert (facts.kind, facts.token_entries) == ("agent-written", 1)


@pytest.mark.parametrize("kind", [None, "", "full", "Summary"])
def test_one_entry_of_another_kind_is_enough(kind: str | None) -> None:
    play = agentic()
    play.log[3] = msgspec.structs.replace(play.log[3], kind=kind)
    facts = log_provenance(play.trajectory())
    assert (facts.kind, facts.foreign_entries) == ("agent-written", 1)


def test_a_malformed_log_is_not_the_runtimes() -> None:
    assert log_provenance(agentic().trajectory(log_malformed=True)).kind == "agent-written"
    assert log_provenance(Play().trajectory(log=[], log_malformed=True)).kind == "agent-written"


@pytest.mark.parametrize("log", [None, []])
def test_no_log_is_absent(log: list[ProxyCall] | None) -> None:
    for format in (Format.SN15_ENVELOPE, Format.SN15_STEPS):
        assert log_provenance(agentic().trajectory(format, log=log)).kind == "absent"


@pytest.mark.parametrize("format", [Format.OPENAI, Format.ATIF, Format.SHOPPINGBENCH])
def test_other_formats_have_no_second_witness(format: Format) -> None:
    assert log_provenance(agentic().trajectory(format, log=None)).kind == "absent"
