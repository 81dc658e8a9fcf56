"""The expert as a teacher: driven step by step by somebody else, grounded in what it has seen, and good."""

from __future__ import annotations

import re
from typing import Any

from oresmith.arena.miners import Action, brief_of, make_teacher
from oresmith.arena.miners.seen import Seen, points
from oresmith.arena.scoring import score
from oresmith.arena.tools import Toolbox
from oresmith.records import Problem
from tests.arena.miners_world import envelope, played, world
from tests.arena.test_miners_families import products

ID = re.compile(r"(?<!\d)\d{9,13}(?!\d)")


def drive(problem: Problem, seed: int) -> tuple[list[Action], list[Any]]:
    """Play the teacher against the tools alone; returns its actions and their results."""
    tools, policy = Toolbox(world().shop), make_teacher(brief_of(problem), seed)
    actions: list[Action] = []
    every: list[Any] = []
    action = policy.observe(None)
    while action is not None:
        results = [tools.call(name, parameters) for name, parameters in action.calls]
        actions.append(action)
        every.append(results)
        action = policy.observe(results)
    return actions, every


def succeeds(problem: Problem, actions: list[Action]) -> bool:
    steps = [
        {"completion": {"message": {"tool_call": [{"name": n, "parameters": p} for n, p in action.calls]}}}
        for action in actions
    ]
    return score(problem, steps, products()).success


def test_an_external_harness_can_drive_the_teacher_to_success() -> None:
    easy = [one for one in world().problems if (one.category or "").lower() == "product"]
    wins = [succeeds(one, drive(one, seed)[0]) for one in easy for seed in (0, 1)]
    assert sum(wins) >= 0.85 * len(wins)


def test_the_teacher_ends_every_play_and_says_the_same_again_for_the_same_seed() -> None:
    for problem in world().problems[::4]:
        actions, _ = drive(problem, 5)
        assert actions[-1].calls[-1][0] == "terminate"
        assert all(action.think and action.calls for action in actions)
        assert actions == drive(problem, 5)[0]


def test_the_teacher_survives_tools_that_fail() -> None:
    for problem in world().problems[::4]:
        policy = make_teacher(brief_of(problem), 1)
        action, turns = policy.observe(None), 0
        while action is not None:
            assert turns < 200
            action, turns = policy.observe(["Error: HTTP 500"] * len(action.calls)), turns + 1
        assert turns


def test_thinking_names_only_products_that_were_seen_before() -> None:
    for problem in world().problems:
        seen = ""
        for action, results in zip(*drive(problem, 2), strict=True):
            assert all(number in seen for number in ID.findall(action.think))
            assert all(number in seen for _, parameters in action.calls for number in ids(parameters))
            seen += str(results)


def ids(parameters: dict[str, Any]) -> list[str]:
    return [one for one in str(parameters.get("product_ids", "")).split(",") if one]


def test_thinking_weighs_two_products_and_says_why_one_is_ahead() -> None:
    for one in played("expert"):
        if one.truth["success"]:
            messages = [step["completion"]["message"] or {} for step in envelope(one)["dialogue"]]
            thoughts = [str(message.get("think")) for message in messages]
            assert any(len(set(ID.findall(think))) >= 2 for think in thoughts)


def test_a_verdict_agrees_with_the_scorer_on_every_product_that_was_viewed() -> None:
    tools, known = Toolbox(world().shop), products()
    for problem in world().problems[:8]:
        brief = brief_of(problem)
        rewards = problem.reward if isinstance(problem.reward, list) else [problem.reward]
        for wish, reward in zip(brief.wishes, rewards, strict=True):
            seen = Seen()
            calls = [("find_product", {"q": reward["title"][0]})]
            results = [tools.call(*calls[0])]
            seen.take(calls, results)
            looked = [("view_product_information", {"product_ids": ",".join(seen.listings)})]
            seen.take(looked, [tools.call(*looked[0])])
            alone = Problem(problem_id="p", query="q", category="product", reward=reward | {"product_id": "none"})
            for product_id in seen.listings:
                step = {"name": "recommend_product", "parameters": {"product_ids": product_id}}
                rule = score(alone, [{"completion": {"message": {"tool_call": [step]}}}], known).score["rule"]
                verdict = seen.verdict(product_id, wish)
                assert len(verdict.met) / len(points(wish)) == rule
