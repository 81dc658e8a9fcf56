"""The terse policy copies what it says: needs of the request, pages as they are shown, the id that it recommends."""

from __future__ import annotations

import re
from typing import Any

from oresmith.arena.miners import brief_of, make_teacher
from oresmith.arena.miners.policy import Action
from oresmith.arena.tools import Toolbox
from oresmith.arena.views import render
from oresmith.records import Problem
from tests.arena.miners_world import world


def play(problem: Problem, version: int = 0) -> list[tuple[Action, list[Any]]]:
    tools = Toolbox(world().shop)
    policy = make_teacher(brief_of(problem), version, style="terse")
    done: list[tuple[Action, list[Any]]] = []
    action = policy.observe(None)
    while action is not None:
        results = [tools.call(name, parameters) for name, parameters in action.calls]
        done.append((action, results))
        action = policy.observe(results)
    return done


def test_what_it_recommends_stands_in_what_it_was_shown_and_in_its_last_thought() -> None:
    for problem in world().problems:
        steps = play(problem)
        last = steps[-1][0]
        assert last.calls[-1][0] == "terminate"
        shown = "\n".join(
            render("compare/1", call[0], result)
            for step, results in steps
            for call, result in zip(step.calls, results, strict=True)
        )
        for name, parameters in last.calls:
            if name == "recommend_product":
                for one in parameters["product_ids"].split(","):
                    assert one in shown and one in last.think


def test_each_line_of_its_comparison_is_one_of_the_view_and_what_is_left_is_what_all_needs_share() -> None:
    decided = 0
    for problem in world().problems:
        if len(brief_of(problem).wishes) > 1:
            continue
        steps = play(problem)
        last = steps[-1][0]
        shown = [render("compare/1", step.calls[0][0], results[0]).split("\n") for step, results in steps[:-1]]
        found = re.search(r"^So ([A-E]) = (\d+)$", last.think, re.MULTILINE)
        if found is None:
            continue
        decided += 1
        assert found[0].removeprefix("So ") in shown[-1]
        assert ("recommend_product", {"product_ids": found[2]}) in last.calls
        left = set("ABCDE")
        for line in last.think.split("\n")[:-1]:
            offered, _, kept = line.partition(", left ")
            assert offered in shown[-1]
            left &= set(offered.rpartition(": ")[2].split())
            assert not kept or set(kept.split()) == left
        assert found[1] in left
    assert decided


def test_needs_come_in_the_order_of_the_request() -> None:
    ordered = 0
    for problem in world().problems:
        first = play(problem)[0][0].think
        values = [value for wish in brief_of(problem).wishes[:1] for _, value in wish.pairs]
        places = [(first.find(value), (problem.query or "").lower().find(value)) for value in values]
        found = [pair for pair in places if min(pair) >= 0]
        ordered += [said for said, _ in sorted(found, key=lambda pair: pair[1])] == sorted(said for said, _ in found)
    assert ordered >= 0.9 * len(world().problems)


def test_versions_think_alike_and_read_further_or_less_far() -> None:
    plays = [
        [[step.calls for step, _ in play(problem, version)] for version in range(4)] for problem in world().problems
    ]
    assert all(first == again for first, _, _, again in plays)
    assert all(first[:2] == further[:2] == nearer[:2] for first, further, nearer, _ in plays)
    assert any(len(further) > len(nearer) for _, further, nearer, _ in plays)
