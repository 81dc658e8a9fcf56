"""Signal 1 and the labels of steps: which calls stand in the model's replies, and what a missing reply means."""

from __future__ import annotations

import json

import msgspec
import pytest

from oresmith.evidence.origin_echo import contains, parts
from tests.evidence.test_origin_play import (
    FIND,
    PLAN,
    RECOMMEND,
    RESULT,
    TERMINATE,
    VIEW,
    Play,
    agentic,
    judged,
    tagged,
)


def program(text: str = "OK.", tokens: int = 40) -> Play:
    """A program that makes the calls and asks the model for something else."""
    play = Play()
    for calls in PLAN:
        play.infer(text, tokens)
        play.search()
        play.step(calls)
    return play


def test_a_program_whose_replies_name_no_call_is_sub_task() -> None:
    evidence, origin = judged(program())
    assert origin.label == "B"
    assert set(evidence.steps) == {"not_found"}
    assert {call.match for call in evidence.calls} == {"absent"}


def test_calls_without_any_inference_in_their_windows_are_sub_task() -> None:
    play = Play()
    play.infer("I will look for kettles.", 300)
    for calls in PLAN:
        play.search()
        play.step(calls)
    evidence, origin = judged(play)
    assert origin.label == "B"
    assert [call.match for call in evidence.calls][1:] == ["no_inference"] * 4


def test_a_dropped_reply_is_unknown_and_never_sub_task() -> None:
    play = Play()
    for calls in PLAN:
        play.drop()
        play.search()
        play.step(calls)
    evidence, origin = judged(play)
    assert origin.label == "unknown"
    assert not evidence.full_text
    assert set(evidence.steps) == {"unknown"}
    assert evidence.head.head_first == evidence.head.steps == 4


@pytest.mark.parametrize("content", [None, "", "[2210 characters]"])
def test_an_emptied_reply_is_as_unknown_as_a_dropped_one(content: str | None) -> None:
    play = agentic()
    for entry in play.log:
        if entry.response:
            entry.response["choices"][0]["message"]["content"] = content
    evidence, origin = judged(play)
    assert origin.label == "unknown"
    assert not evidence.full_text
    assert {call.match for call in evidence.calls} == {"text_dropped"}


def test_a_reply_of_no_tokens_is_known_to_be_empty_and_its_retry_keeps_the_step_pattern() -> None:
    play = Play()
    for number, calls in enumerate(PLAN):
        play.infer("", 900 + 600 * number, finished=0)
        play.infer(tagged(calls), 900 + 600 * number)
        play.search()
        play.step(calls)
    evidence, origin = judged(play)
    assert origin.label == "A"
    assert evidence.full_text
    assert evidence.head.head_first == 4


def test_native_tool_calls_count_like_text() -> None:
    play = Play()
    for number, calls in enumerate(PLAN):
        play.infer(None, 900 + 600 * number, native=calls)
        play.search()
        play.step(calls)
    evidence, origin = judged(play)
    assert origin.label == "A"
    assert evidence.full_text
    assert all(call.match == "exact" for call in evidence.calls)


def test_parallel_calls_are_found_in_any_order_and_the_order_is_noted() -> None:
    other = ("find_product", {"q": "blue mug"})
    play = agentic([[FIND, other, VIEW], [RECOMMEND, TERMINATE]])
    evidence, origin = judged(play)
    assert origin.label == "A"
    assert evidence.echo.out_of_order == 0
    play = Play()
    play.infer(tagged([FIND, other, VIEW]), 900)
    play.step([VIEW, FIND, other])
    play.infer(tagged([RECOMMEND, TERMINATE]), 3000)
    play.step([RECOMMEND, TERMINATE])
    evidence, origin = judged(play)
    assert origin.label == "A"
    assert evidence.echo.out_of_order == 2
    assert evidence.echo.not_found == 0


def test_one_call_of_a_reply_answers_for_one_call_only() -> None:
    play = Play()
    play.infer(tagged([FIND]), 900)
    play.step([FIND, FIND])
    evidence, _ = judged(play)
    assert [call.label for call in evidence.calls] == ["found", "not_found"]
    assert evidence.steps == ["not_found"]


def test_calls_that_the_program_altered_are_not_found_and_leave_the_origin_unknown() -> None:
    play, size = Play(), 900
    for number in range(4):
        play.infer(tagged([("find_product", {"q": f"kettle {number}"})]), size)
        play.step([("find_product", {"q": f"something else {number}"})])
        size += 700
    evidence, origin = judged(play)
    assert evidence.steps == ["not_found"] * 4
    assert evidence.echo.altered == 4
    assert origin.label == "unknown"


def test_parallel_calls_spread_over_several_steps_are_found() -> None:
    other = ("find_product", {"q": "blue mug"})
    play = Play()
    play.infer(tagged([FIND, other]), 900)
    for call in (FIND, other):
        play.search()
        play.step([call])
    play.infer(tagged([VIEW]), 2500)
    play.step([VIEW])
    play.infer(tagged([RECOMMEND]), 3200)
    play.step([RECOMMEND])
    evidence, origin = judged(play)
    assert origin.label == "A"
    assert evidence.echo.carried == 1
    assert evidence.steps == ["model_emitted"] * 4


def test_an_agent_that_spreads_replies_is_not_charged_with_what_a_dropped_one_may_have_held() -> None:
    other = ("find_product", {"q": "blue mug"})
    play = Play()
    play.infer(tagged([FIND, other]), 900)
    play.step([FIND])
    play.step([other])
    play.drop()
    play.step([VIEW])
    play.step([("view_product_information", {"product_ids": "7"})])
    evidence, origin = judged(play)
    assert origin.label != "B"
    assert [call.match for call in evidence.calls] == ["exact", "exact", "text_dropped", "text_dropped"]


def test_retries_after_failed_calls_leave_an_agent_agentic() -> None:
    play = Play()
    for number, calls in enumerate(PLAN):
        play.fail(500 if number % 2 else None)
        play.infer(tagged(calls), 900 + 600 * number)
        play.search()
        play.step(calls)
    evidence, origin = judged(play)
    assert origin.label == "A"
    assert evidence.head.head_first == 4
    assert evidence.inference.logged == 8
    assert evidence.inference.answered == evidence.inference.with_text == 4
    assert not evidence.full_text


def test_a_call_behind_failed_inference_only_is_not_the_models() -> None:
    play = Play()
    play.fail()
    play.step([FIND])
    evidence, _ = judged(play)
    assert [call.match for call in evidence.calls] == ["no_reply"]


def test_a_code_authored_last_step_is_labelled_and_leaves_the_rest_agentic() -> None:
    play = agentic([[FIND], [VIEW], [("find_product", {"q": "kettle"})]])
    play.step([RECOMMEND], think="Auto-recommending best available candidates.")
    evidence, origin = judged(play)
    assert origin.label == "A"
    assert evidence.steps == ["model_emitted"] * 3 + ["not_found"]
    assert evidence.recommend == "not_found"
    assert evidence.echo.closing == 1


def test_a_code_authored_search_is_no_closing_step() -> None:
    play = agentic([[FIND], [VIEW]])
    play.step([("find_product", {"q": "mug"}), RECOMMEND])
    evidence, origin = judged(play)
    assert evidence.echo.closing == 0
    assert origin.label != "A"


def test_tools_of_the_agent_itself_are_judged_by_the_reply_not_by_http() -> None:
    budget = ("calculate_voucher", {"product_ids": ["1", "2"], "voucher": {"type": "shop"}})
    play = agentic([[FIND], [budget], [RECOMMEND, TERMINATE]])
    play.log = [entry for entry in play.log if "search" not in (entry.path or "")]
    evidence, origin = judged(play)
    assert origin.label == "A"
    assert all(call.label == "found" for call in evidence.calls)


def test_steps_that_are_all_stamped_at_the_end_are_unknown_not_sub_task() -> None:
    play = agentic()
    last = play.steps[-1].timestamp
    play.steps = [msgspec.structs.replace(step, timestamp=last) for step in play.steps]
    evidence, origin = judged(play)
    assert origin.label == "unknown"
    assert evidence.echo.anywhere == 5


@pytest.mark.parametrize("stamp", [None, 0, 10**12])
def test_steps_without_a_usable_time_are_never_sub_task(stamp: int | None) -> None:
    play = agentic()
    play.steps = [msgspec.structs.replace(step, timestamp=stamp) for step in play.steps]
    _, origin = judged(play)
    assert origin.label == "unknown"


def test_one_step_without_a_time_costs_only_what_depends_on_it() -> None:
    play = agentic()
    play.steps[1] = msgspec.structs.replace(play.steps[1], timestamp=None)
    evidence, _ = judged(play)
    assert evidence.steps == ["model_emitted", "unknown", "model_emitted", "model_emitted"]


def test_calls_logged_in_any_order_are_sorted_by_their_end() -> None:
    play = agentic()
    play.log.reverse()
    assert judged(play)[1].label == "A"


def test_calls_of_an_earlier_run_are_left_out() -> None:
    play, earlier = agentic(), agentic()
    old = [
        msgspec.structs.replace(entry, timestamp=(entry.timestamp or 0.0) - 3_600_000, response=None)
        for entry in earlier.log
    ]
    play.log = old + play.log
    evidence, origin = judged(play)
    assert origin.label == "A"
    assert evidence.inference.stale == len(earlier.log)
    assert evidence.full_text


def test_a_call_in_a_notation_that_is_not_parsed_is_unknown() -> None:
    play = Play()
    for number, calls in enumerate(PLAN):
        text = "; ".join(f"{name}({', '.join(f'{k}={v}' for k, v in arguments.items())})" for name, arguments in calls)
        play.infer(f"I call {text}", 900 + 500 * number)
        play.step(calls)
    evidence, origin = judged(play)
    assert origin.label == "unknown"
    assert {call.match for call in evidence.calls} == {"mentioned"}


def test_a_step_without_calls_is_the_models_where_a_reply_holds_its_text() -> None:
    play = agentic()
    play.infer("<think>The kettle is found, so I sum up.</think>\nHere it is.", 3000)
    play.step([], think="The kettle is found, so I sum up.")
    play.infer("Something else altogether.", 3100)
    play.step([], think="Written by the program.")
    play.drop()
    play.step([], think="Nobody can tell.")
    assert judged(play)[0].steps[-3:] == ["model_emitted", "not_found", "unknown"]


@pytest.mark.parametrize(
    ("replied", "called", "same"),
    [
        ({"q": "a", "note": "x"}, {"q": "a"}, True),
        ({"q": "a"}, {"q": "a", "page": 1, "sort": "default"}, True),
        ({"q": "a"}, {"q": "a", "shop_id": "55"}, False),
        ({"q": "a"}, {"q": "b"}, False),
        ({}, {"product_ids": "1"}, False),
        ({"reason": "best"}, {"product_ids": "1"}, False),
        (["a"], {"q": "a"}, False),
    ],
)
def test_loose_matches_allow_dropped_arguments_and_defaults_but_no_choice(
    replied: object, called: object, same: bool
) -> None:
    mine, theirs = parts(replied), parts(called)
    assert (mine is not None and theirs is not None and contains(mine, theirs)) is same


def test_a_program_that_fills_in_the_ids_is_not_the_model() -> None:
    play = agentic([[FIND], [VIEW]])
    play.infer(tagged([("recommend_product", {})]), 2500)
    play.step([RECOMMEND])
    evidence, _ = judged(play)
    assert evidence.recommend == "not_found"


def test_more_calls_than_are_examined_are_unknown_and_bounded() -> None:
    many = [("find_product", {"q": f"kettle {n}"}) for n in range(2_500)]
    play = Play()
    play.infer(json.dumps({"plan": "kettles"}), 900)
    play.step(many, result=RESULT[:10])
    evidence, _ = judged(play)
    assert len(evidence.calls) == 2_500
    assert [call.match for call in evidence.calls].count("not_examined") == 500
