"""Structure: what the hard rejects ask, what ranking asks, and the hash that tells call sequences apart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.evidence.structure import structure
from oresmith.records import Message, Step, ToolCall, Trajectory
from oresmith.traces import Context, decode
from tests.arena.real import SN15, needs_shared, rows
from tests.evidence.plants import SOURCE, call, trajectory

Calls = list[tuple[str, Any]]
RUN: list[Calls] = [
    [("find_product", {"q": "Red shoes, 42"})],
    [("find_product", {"q": "shoes red 42"}), ("find_product", {"q": "running shoes", "page": 2})],
    [("view_product_information", {"product_ids": "11, 12"})],
    [("recommend_product", {"product_ids": "11,12"})],
    [("terminate", {"status": "success"})],
]


def play(steps: list[Calls], thinking: list[str] | None = None, results: bool = True) -> Trajectory:
    messages, number = [Message(role="user", content="find shoes")], 0
    for index, calls in enumerate(steps):
        made = [call(name, arguments, f"call_{number + place}") for place, (name, arguments) in enumerate(calls)]
        number += len(made)
        think = thinking[index] if thinking else f"step {'abcdefgh'[index]}"
        messages.append(Message(role="assistant", content="", reasoning_content=think, tool_calls=made))
        if results:
            messages += [Message(role="tool", content="[]", tool_call_id=one.id, name=one.name) for one in made]
    return trajectory(messages=messages, steps=[Step(message=0)] * len(steps))


def test_an_honest_run_is_described() -> None:
    found = structure(play(RUN))
    assert (found.n_steps, found.n_calls, found.unparsable_arguments) == (5, 6, 0)
    assert found.calls_by_tool == {
        "find_product": 3,
        "view_product_information": 1,
        "recommend_product": 1,
        "terminate": 1,
    }
    assert (found.depth, found.distinct_queries, found.reformulations) == (3, 2, 1)
    assert (found.recommend_calls, found.recommended_ids, found.recommended_viewed) == (1, ["11", "12"], 2)
    assert found.verified_before_recommend
    assert (found.terminated, found.terminate_status, found.think_then_stop) == (True, "success", False)
    assert (found.unpaired_calls, found.orphan_results) == (0, 0)
    assert (found.max_repeat, found.longest_run) == (1, 1)


def test_no_messages_give_no_structure_and_no_guesses() -> None:
    found = structure(trajectory())
    assert (found.n_steps, found.n_calls, found.max_repeat, found.longest_run, found.depth) == (0, 0, 0, 0, 0)
    assert (found.call_sequence, found.thinking_share, found.templated_thinking) == (None, None, None)
    assert found.think_then_stop
    assert not found.verified_before_recommend


def test_steps_are_counted_from_messages_where_the_source_declares_none() -> None:
    made = play(RUN)
    made.steps = []
    assert structure(made).n_steps == 5


@pytest.mark.parametrize(("dropped", "stopped"), [(3, True), (4, True), (2, False)])
def test_think_then_stop_is_no_recommendation_or_no_terminate(dropped: int, stopped: bool) -> None:
    assert structure(play(RUN[:dropped] + RUN[dropped + 1 :])).think_then_stop is stopped


def test_calls_without_exactly_one_later_result_are_unpaired() -> None:
    assert structure(play(RUN, results=False)).unpaired_calls == 6
    made = play(RUN)
    twice = [message for message in made.messages for _ in range(2 if message.tool_call_id == "call_0" else 1)]
    made.messages = twice
    assert structure(made).unpaired_calls == 1
    made.messages = list(reversed(play(RUN[:1]).messages))
    found = structure(made)
    assert (found.unpaired_calls, found.orphan_results) == (1, 1)


def test_two_calls_of_one_id_are_both_unpaired() -> None:
    calls = [call("find_product", {"q": "a"}, "same"), call("find_product", {"q": "b"}, "same")]
    result = Message(role="tool", content="[]", tool_call_id="same")
    found = structure(trajectory(messages=[Message(role="assistant", tool_calls=calls), result]))
    assert found.unpaired_calls == 2


@pytest.mark.parametrize("arguments", ["", "{", "[1]", '"11"', "null", "NaN", "9" * 5000, "[" * 100_000, '{"a": \\u'])
def test_arguments_that_are_no_object_are_counted_and_recommend_nothing(arguments: str) -> None:
    found = structure(play([[("recommend_product", arguments)]]))
    assert (found.unparsable_arguments, found.recommended_ids, found.recommend_calls) == (1, [], 1)


def test_ids_that_are_no_comma_list_are_no_recommendation() -> None:
    for ids in (["11"], 11, None, "", " , "):
        assert structure(play([[("recommend_product", {"product_ids": ids})]])).recommended_ids == []


def test_the_last_recommendation_counts_and_only_earlier_views_verify_it() -> None:
    view, first, last = (
        [("view_product_information", {"product_ids": "12"})],
        [("recommend_product", {"product_ids": "11"})],
        [("recommend_product", {"product_ids": "12"})],
    )
    found = structure(play([first, view, last]))
    assert (found.recommend_calls, found.recommended_ids, found.verified_before_recommend) == (2, ["12"], True)
    assert not structure(play([first, last, view])).verified_before_recommend
    assert structure(play([first, view, last])).depth == 0, "depth ends at the first recommendation"


def test_repetition_is_counted_over_all_and_in_a_row() -> None:
    same, other = [("find_product", {"q": "a", "page": 1})], [("find_product", {"q": "b"})]
    turned = [("find_product", {"page": 1, "q": "a"})]
    found = structure(play([same, turned, other, same]))
    assert (found.max_repeat, found.longest_run) == (3, 2)


def test_the_sequence_hash_leaves_out_ids_results_and_thinking_and_nothing_else() -> None:
    base = structure(play(RUN)).call_sequence
    other = play(RUN, thinking=["x"] * 5, results=False)
    for message in other.messages:
        message_calls = [msgspec.structs.replace(one, id="z" + one.id, original_id="o") for one in message.tool_calls]
        other.messages[other.messages.index(message)] = msgspec.structs.replace(message, tool_calls=message_calls)
    assert structure(other).call_sequence == base
    turned = [[("view_product_information", {"product_ids": "12,11"})] if step is RUN[2] else step for step in RUN]
    assert structure(play(turned)).call_sequence != base
    assert structure(play(RUN[::-1])).call_sequence != base
    assert structure(play([[("a", "{x")]])).call_sequence != structure(play([[("a", "{y")]])).call_sequence


def test_a_query_is_new_only_by_another_word() -> None:
    queries = ["Red shoes", "shoes  RED!", "red, red shoes", "", "blue shoes"]
    found = structure(play([[("find_product", {"q": query})] for query in queries]))
    assert (found.distinct_queries, found.reformulations) == (2, 1)


def test_thinking_that_differs_in_numbers_and_ids_only_is_templated() -> None:
    thinking = [
        "Checking product 12345 at 9.99",
        "checking  product 77 at 1,000.50",
        "Checking product ab12cd34ef at 3",
        "Something else",
        " ",
    ]
    assert structure(play(RUN, thinking)).templated_thinking == pytest.approx(3 / 4)
    assert structure(play(RUN, ["a", "b", "c", "d", "e"])).templated_thinking == 0
    assert structure(play(RUN, [""] * 5)).templated_thinking is None


def test_the_thinking_share_is_of_what_the_assistant_wrote() -> None:
    message = Message(role="assistant", content="abcd", reasoning_content="abcdef", tool_calls=[call("x", "{}")])
    found = structure(trajectory(messages=[message, Message(role="tool", content="long result")]))
    assert found.thinking_share == 0.5


def test_no_text_of_the_trace_reaches_the_facts() -> None:
    made = play([[("a secret tool", {"q": "s"}), ("terminate", {"status": "a secret status"})]])
    found = structure(made)
    assert (found.calls_by_tool, found.terminate_status) == ({"terminate": 1, "other": 1}, "other")


TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
NAME = st.sampled_from(["find_product", "view_product_information", "recommend_product", "terminate"]) | TEXT
ARGUMENTS = TEXT | st.sampled_from(
    ['{"q": "a"}', '{"product_ids": "1,2"}', '{"product_ids": 3}', '{"status": []}', "[]"]
)
CALL = st.builds(ToolCall, id=st.sampled_from(["a", "b", "c"]), name=NAME, arguments=ARGUMENTS)
MESSAGE = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "tool"]) | TEXT,
    content=st.none() | TEXT,
    reasoning_content=st.none() | TEXT,
    tool_calls=st.lists(CALL, max_size=3),
    tool_call_id=st.none() | st.sampled_from(["a", "b", "d"]),
)


@given(st.lists(MESSAGE, max_size=8))
@settings(deadline=None)
def test_any_messages_give_counts_that_agree(messages: list[Message]) -> None:
    made = trajectory(messages=messages)
    found = structure(made)
    assert found == structure(made)
    assert found.n_calls == sum(found.calls_by_tool.values()) == sum(len(message.tool_calls) for message in messages)
    assert max(found.unpaired_calls, found.unparsable_arguments, found.max_repeat) <= found.n_calls
    assert found.longest_run <= found.max_repeat
    assert found.recommended_viewed <= len(found.recommended_ids)
    assert found.depth <= len(messages)
    for share in (found.thinking_share, found.templated_thinking):
        assert share is None or 0 <= share <= 1


@needs_shared
def test_reference_successes_with_a_recommendation_and_an_end_do_not_stop_short() -> None:
    found = [structure(decode(row, Context(source=SOURCE))) for row in rows(SN15 / "traces_reference.jsonl.gz")]
    ended = [one for one in found if one.n_calls]
    assert len(ended) > 250
    assert sum(one.unpaired_calls for one in ended) == 0
    assert sum(one.think_then_stop for one in ended) < 0.05 * len(ended)
    unread = [one for one in ended if one.recommend_calls and not one.recommended_ids]
    assert len(unread) == 1, "one envelope recommends a number where a comma string is due"
