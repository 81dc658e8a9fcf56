"""Which rollouts are trained on: well-conducted strict successes, each different, not too many, all accounted for."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oresmith.arena.views import render
from oresmith.evaluation.records import Rollout
from oresmith.records import Message, Problem, ToolCall
from oresmith.training.conduct import Fault, conduct_fault
from oresmith.training.selection import Attempt, account, select

PROBLEM = Problem(
    problem_id="p",
    query="I want a striped mouse pad from Norvale, under 1,200 pesos, with free shipping.",
    category="product",
    reward={"product_id": "1", "price": [{"less than": [0, 1200]}], "service": ["freeShipping"]},
)
TWO = Problem(
    query="A mouse and a lamp from one shop.", category="shop", reward=[{"product_id": "1"}, {"product_id": "2"}]
)
VIEW = "compare/1"
FOUND = [{"product_id": "1", "shop_id": "77", "title": "Mouse", "price": 9.0}, {"product_id": "2", "shop_id": "78"}]
CLOSE = [("recommend_product", {"product_ids": "1"}, "ok"), ("terminate", {"status": "success"}, "ended")]


def find(words: str = "striped mouse", found: Any = FOUND, **filters: Any) -> tuple[str, dict[str, Any], Any]:
    return "find_product", {"q": words, **filters}, found


def view(*ids: str) -> tuple[str, dict[str, Any], Any]:
    return "view_product_information", {"product_ids": ",".join(ids)}, [{"product_id": one} for one in ids]


def play(*turns: list[tuple[str, dict[str, Any], Any]], problem: str = "p", sample: int = 0, **more: Any) -> Rollout:
    """A rollout whose turns make these calls and are shown these results."""
    messages = [Message(role="system", content="s"), Message(role="user", content=PROBLEM.query)]
    number = 0
    for turn in turns:
        calls = [
            ToolCall(id=f"call_{number + place}", name=name, arguments=json.dumps(given))
            for place, (name, given, _) in enumerate(turn)
        ]
        messages.append(Message(role="assistant", content="", reasoning_content="so", tool_calls=calls))
        for call, (name, _, result) in zip(calls, turn, strict=True):
            shown = render(VIEW, name, result)
            messages.append(Message(role="tool", content=shown, tool_call_id=call.id, name=name))
        number += len(turn)
    results = [result for turn in turns for _, _, result in turn]
    stated = {"seed": 0, "ended": "terminated", "results": results} | more
    return Rollout(problem=problem, problem_id=problem, sample=sample, messages=messages, **stated)


GOOD = [find()], [view("1", "2")], CLOSE
SHOP = "78"


@pytest.mark.parametrize(
    ("turns", "fault"),
    [
        (GOOD, None),
        (([find("norvale mouse pads", price="-1200", service="freeShipping")], CLOSE), None),
        (([find("Mousepad", price="0-1200", sort="priceasc", page=2)], CLOSE), None),
        (([find("nor vale mouse")], CLOSE), None),
        (([find()], [find(shop_id=SHOP)], CLOSE), None),
        # A wrong search is forgiven where a right one has shown the product since.
        (([find("stri striped mouse")], [find()], CLOSE), None),
        (([find(page=9)], CLOSE), Fault.INVALID_CALL),
        (([find(found="Error: no such page")], [find()], CLOSE), Fault.INVALID_CALL),
        (([find()], CLOSE[:1], CLOSE), Fault.RECOMMENDED_AGAIN),
        (([find()], [("recommend_product", {"product_ids": "1,2"}, "ok"), CLOSE[1]]), Fault.MORE_IDS),
        ((CLOSE,), Fault.UNSEEN_ID),
        (([find(found=FOUND[1:])], CLOSE), Fault.UNSEEN_ID),
        # Guessed, looked at, and only then shown.
        (([view("1")], CLOSE), Fault.UNSEEN_ID),
        (([find(found=FOUND[1:])], [view("1", "2")], CLOSE), Fault.UNSEEN_ID),
        # Written before the search could answer.
        (([find(), *CLOSE],), Fault.UNSEEN_ID),
        (([find("stri striped mouse")], CLOSE), Fault.FOREIGN_WORDS),
        (([find()], [find("keyboard")], CLOSE), Fault.FOREIGN_WORDS),
        (([find("the a of")], CLOSE), Fault.FOREIGN_WORDS),
        (([find(price="-1300")], CLOSE), Fault.FOREIGN_FILTER),
        (([find(price="500-1200")], CLOSE), Fault.FOREIGN_FILTER),
        (([find(service="COD")], CLOSE), Fault.FOREIGN_FILTER),
        (([find(shop_id="78")], CLOSE), Fault.FOREIGN_FILTER),
    ],
)
def test_a_lucky_end_of_a_wrong_search_is_not_kept(turns: Any, fault: Fault | None):
    assert conduct_fault(play(*turns), PROBLEM, VIEW) is fault


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"ended": "stopped"}, Fault.NOT_TERMINATED),
        ({"ended": "turns"}, Fault.NOT_TERMINATED),
        ({"malformed": 1}, Fault.MALFORMED),
    ],
)
def test_a_success_that_did_not_end_well_is_not_kept(more: dict[str, Any], fault: Fault):
    assert conduct_fault(play(*GOOD, **more), PROBLEM, VIEW) is fault


@pytest.mark.parametrize("view", ["raw/1", "compact/1", "compare/1"])
def test_an_id_counts_as_seen_where_the_view_shows_it(view: str):
    many = [{"product_id": str(place), "shop_id": "7", "title": "Mouse"} for place in (*range(5, 12), 1)]
    seen = conduct_fault(play([find(found=many)], CLOSE), PROBLEM, view)
    assert seen is (Fault.UNSEEN_ID if view == "compare/1" else None)
    assert conduct_fault(play([find()], CLOSE), PROBLEM, view) is None


def test_every_recommended_product_must_come_of_a_search_of_its_own():
    both = [("recommend_product", {"product_ids": "1,2"}, "ok"), CLOSE[1]]
    right, wrong = find("lamp", FOUND[1:]), find("carpet", FOUND[1:])
    assert conduct_fault(play([find("mouse", FOUND[:1])], [right], both), TWO, VIEW) is None
    assert conduct_fault(play([find("mouse", FOUND[:1])], [wrong], both), TWO, VIEW) is Fault.FOREIGN_WORDS


def test_amounts_of_a_voucher_count_as_the_requests():
    offer = replace(PROBLEM, category="voucher", voucher={"budget": 990, "threshold": 10**400, "cap": None})
    assert conduct_fault(play([find(price="-990")], CLOSE), offer, VIEW) is None
    assert conduct_fault(play([find(price="-990")], CLOSE), PROBLEM, VIEW) is Fault.FOREIGN_FILTER


def test_how_many_words_must_be_the_requests_is_a_parameter():
    played = play([find("striped mouse gaming")], CLOSE)
    assert conduct_fault(played, PROBLEM, VIEW, 0.6) is None
    assert conduct_fault(played, PROBLEM, VIEW, 0.7) is Fault.FOREIGN_WORDS


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
named = st.sampled_from(["find_product", "view_product_information", "recommend_product", "terminate", "x"])
keys = st.sampled_from(["q", "price", "service", "shop_id", "product_ids"])
wild = st.tuples(named, st.dictionaries(keys, json_values, max_size=4), json_values)


@given(
    turns=st.lists(st.lists(wild, max_size=3), max_size=4),
    raw=st.text(max_size=20),
    reward=json_values,
    voucher=json_values,
    query=st.none() | st.text(max_size=30),
)
def test_no_rollout_and_no_problem_breaks_the_check(turns: Any, raw: str, reward: Any, voucher: Any, query: str | None):
    played = play(*turns)
    played.messages.append(Message(role="assistant", tool_calls=[ToolCall(id="z", name="find_product", arguments=raw)]))
    problem = Problem(query=query, reward=reward, voucher=voucher)
    assert isinstance(conduct_fault(played, problem, VIEW), Fault | None)


def attempt(problem: str = "p", sample: int = 0, cluster: str = "c", words: str = "mouse", pages: int = 1) -> Attempt:
    """A success; the more pages, the longer."""
    turns = [[find(words, page=page)] for page in range(1, pages + 1)]
    return Attempt(play(*turns, CLOSE, problem=problem, sample=sample), PROBLEM, cluster, True)


def names(attempts: list[Attempt]) -> list[tuple[str, int]]:
    return [(one.rollout.problem, one.rollout.sample) for one in attempts]


def test_of_those_with_the_same_calls_one_is_kept_whatever_it_thinks():
    short, long = attempt(sample=5), attempt(sample=1)
    said = [replace(m, reasoning_content="so " * 9) if m.role == "assistant" else m for m in long.rollout.messages]
    long.rollout.messages[:] = said
    found = select([long, short, attempt(sample=2, words="striped mouse")], VIEW)
    assert names(found.attempts) == [("p", 5), ("p", 2)]
    assert found.dropped == {Fault.SAME_CALLS: 1, Fault.PROBLEM_CAP: 0, Fault.CLUSTER_CAP: 0}


def test_the_shortest_of_a_problem_are_kept():
    found = select([attempt(sample=pages, pages=pages) for pages in (4, 2, 3, 1)], VIEW, per_problem=2)
    assert names(found.attempts) == [("p", 1), ("p", 2)]
    assert found.dropped[Fault.PROBLEM_CAP] == 2


def test_a_cap_on_clusters_takes_one_of_each_problem_before_a_second():
    many = [attempt(problem, pages, "c", pages=pages) for problem in "abc" for pages in (1, 2)]
    other = attempt("d", 1, "other")
    found = select([*many, other], VIEW, per_cluster=4)
    assert Counter(one.rollout.problem for one in found.attempts if one.cluster == "c").most_common()[0][1] == 2
    assert {one.rollout.problem for one in found.attempts} == {"a", "b", "c", "d"}
    assert found.dropped[Fault.CLUSTER_CAP] == 2


samples = st.lists(
    st.tuples(
        st.sampled_from("abcd"), st.sampled_from(["mouse", "mice", "keyboard"]), st.integers(1, 3), st.booleans()
    ),
    max_size=14,
)


@given(drawn=samples, most=st.integers(1, 3), cap=st.integers(1, 4), seed=st.randoms(use_true_random=False))
def test_nothing_vanishes_and_the_order_changes_nothing(drawn: Any, most: int, cap: int, seed: Any):
    everything = [
        attempt(problem, place, "c1" if problem in "ab" else "c2", words, pages)._replace(success=success)
        for place, (problem, words, pages, success) in enumerate(drawn)
    ]
    found = select(everything, VIEW, per_problem=most, per_cluster=cap)
    told = account(everything, found.attempts, found.dropped)
    assert told.sampled == told.kept + sum(told.dropped.values()) == len(drawn)
    assert told.successes == told.sampled - told.dropped.get("failed", 0)
    assert all(count <= most for count in Counter(one.rollout.problem for one in found.attempts).values())
    assert all(count <= cap for count in Counter(one.cluster for one in found.attempts).values())
    shuffled = everything.copy()
    seed.shuffle(shuffled)
    assert names(select(shuffled, VIEW, per_problem=most, per_cluster=cap).attempts) == names(found.attempts)
