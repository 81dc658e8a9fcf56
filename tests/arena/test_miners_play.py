"""Playing is reproducible, diverse, and fails the way real runs fail."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import Any

import pytest

from oresmith.arena.miners import FAMILIES, Played, agent_version, play_run
from oresmith.arena.miners.mishaps import LOST, RATES, bend_recommendation, draw_mishap, ending, spoil
from oresmith.arena.miners.policy import Action
from oresmith.errors import OresmithError
from oresmith.evidence.structure import structure
from oresmith.records import Problem
from tests.arena.miners_world import SEED, START, envelope, played, trajectory, world


def play(problems: list[Problem], family: str = "careful", **more: Any) -> list[Played]:
    given: dict[str, Any] = {"version": 1, "seed": SEED, "runtime": "old", "start_ms": START, "run_id": "run-1"} | more
    return list(play_run(world().shop, problems, family=family, **given))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_play_does_not_depend_on_the_other_problems_or_their_order(family: str) -> None:
    some = world().problems[::5]
    together = {one.truth["problem_id"]: one for one in play(some, family)}
    for one in [*play(some[::-1][:2], family), *play(some[1:2], family)]:
        assert one == together[one.truth["problem_id"]]


def test_another_seed_or_version_is_another_play() -> None:
    problems = world().problems[:4]
    lines = [[one.line for one in play(problems, seed=seed, version=version)] for seed in (1, 2) for version in (1, 2)]
    assert len({line for run in lines for line in run}) == 4 * len(problems)


def test_the_runtime_changes_what_is_logged_and_not_what_is_done() -> None:
    for old, new in zip(play(world().problems[:6]), play(world().problems[:6], runtime="new"), strict=True):
        assert [step["completion"] for step in envelope(old)["dialogue"] or []] == [
            step["completion"] for step in envelope(new)["dialogue"] or []
        ]


def test_every_fourth_version_is_a_near_copy_of_the_one_before_it() -> None:
    def sequences(version: int) -> list[str | None]:
        made = play(world().problems[:8], version=version, mishaps=False)
        return [structure(trajectory(one)).call_sequence for one in made]

    original, near, other = sequences(2), sequences(3), sequences(4)
    assert sum(one == two for one, two in zip(original, near, strict=True)) >= 7
    assert sum(one == two for one, two in zip(original, other, strict=True)) <= 3
    assert [one.line for one in play(world().problems[:8], version=2)] != [
        one.line for one in play(world().problems[:8], version=3)
    ]


def test_thoughts_of_different_runs_are_not_the_same() -> None:
    every = [one for family in ("expert", "careful", "quick", "browsing") for one in played(family)]
    messages = [step["completion"]["message"] or {} for one in every for step in envelope(one)["dialogue"] or []]
    thoughts = [message.get("think") for message in messages]
    thoughts = [think for think in thoughts if isinstance(think, str) and len(think) > 60]
    assert len(thoughts) > 500
    assert len(set(thoughts)) >= 0.99 * len(thoughts)


def test_clean_dialogues_are_well_formed_and_weigh_candidates() -> None:
    for one in played("expert"):
        if one.truth["success"]:
            found = structure(trajectory(one))
            assert (found.recommend_calls, found.terminated, found.unpaired_calls) == (1, True, 0)


def test_agent_versions_have_ids_that_tell_nothing() -> None:
    ids = {agent_version(family, version) for family in FAMILIES for version in range(3)}
    assert len(ids) == 3 * len(FAMILIES)
    assert not any(family in one for family in FAMILIES for one in ids)
    assert play(world().problems[:1], declared_version="v9")[0].truth["agent_version"] == "v9"


def test_an_unknown_family_is_refused_by_name() -> None:
    with pytest.raises(OresmithError, match="no such family"):
        play(world().problems[:1], "nobody")


def test_runs_begin_within_their_run() -> None:
    stamps = [
        step["extra_info"]["timestamp"] for one in play(world().problems) for step in envelope(one)["dialogue"] or []
    ]
    assert all(START < stamp < START + 30 * 60 * 1000 for stamp in stamps)


def test_failures_come_at_their_rates_and_can_be_switched_off() -> None:
    drawn = Counter(draw_mishap(random.Random(f"m{number}")) for number in range(20_000))
    for name, rate in RATES.items():
        assert 0.5 * rate < drawn[name] / 20_000 < 1.6 * rate, name
    clean = [one for family in FAMILIES for one in play(world().problems[:6], family, mishaps=False)]
    assert {envelope(one)["status"] for one in clean} <= {"SUCCESS", "TIMED_OUT", "FAILED"}
    assert all(one.truth["secrets"] for one in clean if envelope(one)["status"] == "FAILED")


@pytest.mark.parametrize("mishap", sorted(LOST))
def test_a_lost_dialogue_is_reported_as_the_sandbox_does(mishap: str) -> None:
    for number in range(20):
        end = ending(mishap, random.Random(number))
        assert (end.status, end.error is None, end.empty) == {
            "crash": ("FAILED", False, False),
            "no_start": ("FAILED", False, False),
            "timeout": ("TIMED_OUT", False, False),
            "null": ("SUCCESS", True, False),
            "empty": ("SUCCESS", True, True),
        }[mishap]


def test_lost_and_odd_plays_stand_in_the_truth_as_they_are() -> None:
    every = [one for family in FAMILIES for one in played(family)]
    lost = [one for one in every if not envelope(one)["dialogue"]]
    assert lost
    assert all(one.truth["success"] is False and not one.truth["full_text"] for one in lost)
    assert len({envelope(one)["status"] for one in lost}) == 3


def test_odd_steps_are_odd_and_odd_recommendations_count_as_they_are_read() -> None:
    steps: list[dict[str, Any]] = [
        {"completion": {"message": {"think": "t"}}, "extra_info": {"step": number}} for number in (1, 2, 3)
    ]
    for mishap in ("numbering", "odd_step"):
        for number in range(12):
            copies = copy.deepcopy(steps)
            spoil(copies, mishap, random.Random(number))
            assert copies != steps
    action = Action(think="t", calls=[("recommend_product", {"product_ids": "1,2"})])
    for number in range(12):
        assert bend_recommendation("many_ids", random.Random(number))(action).calls[0][1]["product_ids"] in (
            "1,2,1",
            "1,2,2",
        )
        assert not isinstance(
            bend_recommendation("odd_ids", random.Random(number))(action).calls[0][1]["product_ids"], str
        )
    assert bend_recommendation(None, random.Random(0))(action) is action
