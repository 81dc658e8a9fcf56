"""What each family leaves behind, as the pipeline sees it: origin, log, secrets, appeals, outcome."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from oresmith.arena import miners
from oresmith.arena.catalogue import Product
from oresmith.arena.miners import FAMILIES
from oresmith.arena.miners.leaks import KINDS, draw_secret
from oresmith.arena.miners.streams import stream
from oresmith.arena.scoring import ScoreError, score
from oresmith.evidence.injection import find_injections
from oresmith.evidence.origin import judge_origin
from oresmith.evidence.provenance import ProvenanceClass
from oresmith.evidence.secrets import find_secrets, find_secrets_in
from oresmith.evidence.witnessed import confirmed
from tests.arena.miners_world import Read, envelope, read, world

RUNTIMES = ("old", "new")
AGENTIC = [name for name, family in FAMILIES.items() if family.origin == "A"]
FAKES = [name for name, family in FAMILIES.items() if family.origin == "B" and name != "forger"]
VERSIONS = (0, 1, 2)


def plays(family: str, runtime: str = "old") -> tuple[Read, ...]:
    return read(family, VERSIONS if runtime == "old" else VERSIONS[:1], runtime)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("family", AGENTIC)
def test_agentic_plays_with_the_text_of_all_replies_are_agentic(family: str, runtime: str) -> None:
    full = [one for one in plays(family, runtime) if one.truth["full_text"]]
    assert full
    labels = Counter(one.label for one in full)
    assert labels["A"] >= 0.98 * len(full), labels


@pytest.mark.parametrize("family", AGENTIC)
def test_agentic_plays_are_never_sub_task_and_the_truth_knows_whose_text_is_whole(family: str) -> None:
    for one in plays(family):
        assert one.label != "B"
        assert one.truth["origin"] == "A" and not one.truth["forged"]
        facts = one.evidence.inference
        assert one.truth["full_text"] == (facts.with_text == facts.answered > 0)


def test_some_agentic_versions_think_at_such_length_that_the_old_runtime_drops_their_replies() -> None:
    assert any(not one.truth["full_text"] and one.trajectory.steps for one in read("careful", tuple(range(6))))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("family", FAKES)
def test_programs_and_fakes_are_never_agentic(family: str, runtime: str) -> None:
    labels = Counter(one.label for one in plays(family, runtime))
    assert labels["A"] == 0
    assert labels["B"] >= 0.8 * labels.total()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_forger_is_neither_agentic_nor_runtime_written_and_leaves_various_marks(runtime: str) -> None:
    forged = [one for one in read("forger", tuple(range(7)), runtime) if one.truth["forged"]]
    found = [one.evidence for one in forged]
    assert forged
    assert {one.provenance.kind for one in found} == {ProvenanceClass.AGENT_WRITTEN}
    assert all(judge_origin(one).label.value != "A" for one in found)
    marks = {
        (one.provenance.agent_first_steps > 0, one.provenance.token_entries > 0, one.provenance.foreign_entries > 0)
        for one in found
    }
    assert (True, False, False) in marks
    assert len(marks) >= 3


@pytest.mark.parametrize("family", FAMILIES)
def test_the_server_confirms_every_log_but_the_forgers(family: str) -> None:
    for one in plays(family):
        if one.trajectory.steps:
            seen = {entry.session: tuple(one.played.witness) for entry in one.played.witness}
            assert confirmed(one.trajectory, seen) == (not one.truth["forged"])


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("family", FAMILIES)
def test_planted_secrets_are_found_and_clean_plays_have_no_finding(family: str, runtime: str) -> None:
    for one in plays(family, runtime):
        found = {finding.type for finding in find_secrets(one.trajectory)}
        assert found == set(one.truth["secrets"])


def test_the_leaker_leaks_in_every_place_and_many_kinds() -> None:
    leaked = [one for runtime in RUNTIMES for one in read("leaker", tuple(range(5)), runtime) if one.truth["secrets"]]
    places = {finding.where for one in leaked for finding in find_secrets(one.trajectory)}
    for part in ("reasoning_content", "arguments", "error", "json_data.messages"):
        assert any(part in place for place in places), part
    assert len({kind for one in leaked for kind in one.truth["secrets"]}) >= 10


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_invented_secret_is_recognised_by_its_name(kind: str) -> None:
    made = [draw_secret(stream("test", kind, number)) for number in range(400)]
    texts = [secret.text for secret in made if secret.type == kind]
    assert texts
    for text in texts:
        assert {finding.type for finding in find_secrets_in("x", f"I note this ({text}) for later.")} == {kind}


def test_no_secret_stands_in_the_source() -> None:
    for path in Path(miners.__file__).parent.glob("*.py"):
        assert [one.type for one in find_secrets_in("source", path.read_text("utf-8")) if one.kind == "secret"] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_appeals_to_the_judge_are_found_where_they_stand_and_nowhere_else(family: str) -> None:
    for one in plays(family):
        assert bool(find_injections(one.trajectory)) == one.truth["injection"]
    assert any(one.truth["injection"] for one in plays(family)) == (family == "injector")


def products() -> dict[str, Product]:
    fields = ("product_id", "shop_id", "title", "price", "service", "sku_options", "attributes")
    return {one.product_id: Product(**{name: getattr(one, name) for name in fields}) for one in world().documents}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_strict_scorer_agrees_with_the_truth(family: str) -> None:
    known, problems = products(), {one.problem_id: one for one in world().problems}
    for one in plays(family):
        dialogue: Any = envelope(one.played)["dialogue"]
        expected: bool | None = False
        try:
            expected = score(problems[one.truth["problem_id"]], dialogue, known).success if dialogue else False
        except ScoreError:
            expected = None
        assert one.truth["success"] == expected


def rate(family: str) -> float:
    clean = [one for one in plays(family) if one.trajectory.status == "SUCCESS"]
    return sum(one.truth["success"] is True for one in clean) / len(clean)


def test_the_styles_differ_in_skill() -> None:
    rates = [rate(family) for family in ("expert", "careful", "quick", "browsing")]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 0.85 and rates[-1] < 0.5
    assert rates[0] - rates[-1] > 0.4


def test_envelopes_are_of_the_size_of_real_ones() -> None:
    sizes = sorted(len(one.played.line) for one in plays("expert") if one.trajectory.steps)
    assert 9_000 < sizes[len(sizes) // 2] < 36_000


def test_truth_lines_have_the_fields_of_the_contract() -> None:
    one = plays("leaker")[0]
    assert list(one.truth) == (
        "kind run_id problem_id agent_version family origin full_text forged secrets injection success".split()
    )
    assert json.loads(json.dumps(one.truth)) == one.truth
