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
            render("brief/1", call[0], result)
            for step, results in steps
            for call, result in zip(step.calls, results, strict=True)
        )
        for name, parameters in last.calls:
            if name == "recommend_product":
                for one in parameters["product_ids"].split(","):
                    assert one in shown and one in last.think


def test_a_page_that_it_copies_offers_every_needed_value_and_ends_with_the_id_that_it_recommends() -> None:
    copied = 0
    for problem in world().problems:
        wishes = brief_of(problem).wishes
        if len(wishes) > 1:
            continue
        last = play(problem)[-1][0]
        for page, product_id in re.findall(r"^.*?: (.*) = (\d+)$", last.think, re.MULTILINE):
            copied += 1
            assert all(value in page for _, value in wishes[0].pairs)
            assert ("recommend_product", {"product_ids": product_id}) in last.calls
    assert copied


def test_needs_come_in_the_order_of_the_request() -> None:
    ordered = 0
    for problem in world().problems:
        first = play(problem)[0][0].think
        values = [value for wish in brief_of(problem).wishes[:1] for _, value in wish.pairs]
        places = [(first.find(value), (problem.query or "").lower().find(value)) for value in values]
        found = [pair for pair in places if min(pair) >= 0]
        ordered += [said for said, _ in sorted(found, key=lambda pair: pair[1])] == sorted(said for said, _ in found)
    assert ordered >= 0.9 * len(world().problems)


def test_versions_search_or_view_differently_and_each_is_the_same_every_time() -> None:
    problem = world().problems[0]
    calls = [[step.calls for step, _ in play(problem, version)] for version in range(4)]
    assert len({repr(one) for one in calls}) > 1
    assert calls[0] == [step.calls for step, _ in play(problem)]
