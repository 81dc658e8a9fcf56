"""An episode shows the model the view's text, keeps raw results apart, counts what is malformed, and always ends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.arena.tools import Toolbox
from oresmith.arena.toolschema import tools
from oresmith.arena.views import VIEWS, render
from oresmith.errors import OresmithError
from oresmith.evaluation.episode import Episode, Setup, seed_of
from oresmith.evaluation.problems import Case
from oresmith.evaluation.prompts import PROMPTS, malformed_answer, prompt_sha256, system_prompt
from oresmith.evaluation.records import ChatReply, Rollout, Sampling
from oresmith.evaluation.writing import Writer, request_rows
from oresmith.lines.decoding import decode as decode_line
from oresmith.models.replies import Malformed
from oresmith.param_models import Rollout as Settings
from oresmith.records import Format, Problem
from oresmith.traces import Context, decode, encode
from tests.arena.tiny_shop import TinyShop
from tests.evaluation.scripted import called, said
from tests.traces.build import SOURCE

BROKEN = '<tool_call>{"name": "find_product"</tool_call>'
SEARCH = called(("find_product", {"q": "red"}))
END = called(("terminate", {"status": "success"}))


def episode(sample: int = 0, **changes: Any) -> Episode:
    made = {
        "model": "m",
        "system": "You shop.",
        "tools": tools(),
        "view": "compact/1",
        "sampling": Sampling(max_new_tokens=100),
        "context": 1000,
        "max_turns": 5,
        "max_malformed": 3,
        "seed": 1,
    }
    case = Case("name", Problem(problem_id="p", query="a red kettle"), "")
    return Episode(case, sample, Setup(**(made | changes)), Toolbox(TinyShop()))


def play(one: Episode, *replies: str | ChatReply) -> Episode:
    for reply in replies:
        assert one.ended is None
        one.take(said(reply) if isinstance(reply, str) else reply)
    return one


def test_the_model_sees_the_views_text_and_the_raw_result_is_kept_apart():
    one = play(episode(), SEARCH)
    [result] = one.results
    assert [hit["product_id"] for hit in result[:2]] == ["1000", "1003"]
    shown = one.messages[-1]
    assert (shown.role, shown.tool_call_id, shown.name) == ("tool", "call_0", "find_product")
    assert shown.content == render("compact/1", "find_product", result)
    assert shown.content != render("raw/1", "find_product", result)


def test_a_request_holds_the_conversation_so_far_and_nothing_that_comes_later():
    one = episode()
    first = one.request()
    assert [(message.role, message.content) for message in first.messages] == [
        ("system", "You shop."),
        ("user", "a red kettle"),
    ]
    assert first.key == "name/0/0"
    assert first.tools == tools()
    play(one, SEARCH)
    second = one.request()
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]
    assert second.key == "name/0/1"
    assert len(first.messages) == 2


def test_calls_of_one_reply_are_executed_in_order_and_terminate_ends_it():
    reply = called(
        ("find_product", {"q": "red"}), ("terminate", {"status": "success"}), ("find_product", {"q": "blue"})
    )
    one = play(episode(), reply)
    assert one.ended == "terminated"
    assert [message.tool_call_id for message in one.messages[3:]] == ["call_0", "call_1", "call_2"]
    assert [call.name for call in one.messages[2].tool_calls] == ["find_product", "terminate", "find_product"]


def test_a_call_of_terminate_that_fails_ends_nothing():
    one = play(episode(), called(("terminate", {"state": "done"})))
    assert one.ended is None
    assert one.results == ["Error: terminate() got an unexpected keyword argument 'state'"]
    assert play(one, END).ended == "terminated"


def test_an_answer_without_a_call_stops():
    one = play(episode(), "<think>nothing fits</think>I found nothing.")
    assert one.ended == "stopped"
    assert (one.messages[-1].content, one.messages[-1].reasoning_content) == ("I found nothing.", "nothing fits")


def test_malformed_replies_are_answered_counted_and_end_the_episode_when_they_do_not_cease():
    one = play(episode(max_turns=9), BROKEN, BROKEN, SEARCH, BROKEN, BROKEN)
    assert (one.ended, one.malformed) == (None, 4)
    answer = one.messages[-1]
    assert (answer.role, answer.content) == ("user", malformed_answer(Malformed.INVALID_JSON))
    assert one.messages[-2].content == BROKEN
    play(one, BROKEN)
    assert (one.ended, one.malformed) == ("malformed", 5)
    assert one.messages[-1].role == "assistant"
    assert len(one.results) == 1


def test_no_call_of_a_malformed_reply_is_made():
    one = play(episode(), SEARCH + BROKEN)
    assert (one.results, one.messages[2].tool_calls) == ([], [])


def test_every_kind_of_malformed_reply_is_answered_in_words():
    answers = {malformed_answer(kind) for kind in Malformed}
    assert len(answers) == len(Malformed)
    assert all("Error: " in answer and "No tool was called" in answer for answer in answers)


def test_a_reply_cut_at_the_limit_ends_the_episode_and_makes_no_call():
    one = play(episode(), said(SEARCH + " and then", finish="length"))
    assert (one.ended, one.results, one.malformed) == ("length", [], 0)
    assert one.messages[-1].content == SEARCH + " and then"
    assert one.messages[-1].tool_calls == []


@pytest.mark.parametrize("reply", [said("", finish="context"), said(SEARCH, prompt_tokens=901)])
def test_where_prompt_and_new_tokens_could_pass_the_context_it_ends_and_nothing_is_taken(reply: ChatReply):
    one = play(episode(), reply)
    assert one.ended == "context"
    assert (len(one.messages), len(one.replies), one.results) == (2, 1, [])


def test_a_prompt_that_just_fits_is_played():
    assert play(episode(), said(SEARCH, prompt_tokens=900)).ended is None


def test_it_ends_after_the_last_turn_that_is_allowed():
    one = play(episode(max_turns=2), SEARCH, SEARCH)
    assert one.ended == "turns"
    assert [message.role for message in one.messages[2:]] == ["assistant", "tool", "assistant", "tool"]
    assert play(episode(max_turns=1), END).ended == "terminated"


def test_the_engines_fault_ends_it_and_is_kept():
    one = play(episode(), SEARCH, said("", finish="error", error="\ud800" + "x" * 900))
    assert one.ended == "error"
    assert one.replies[-1].error == "?" + "x" * 499
    assert len(one.messages) == 4


def test_what_a_tool_cannot_do_is_an_observation():
    one = play(episode(), called(("buy", {}), ("find_product", {"query": "red"})))
    assert [message.content.split(":")[0] for message in one.messages[3:]] == ["Error", "Error"]
    assert one.ended is None


def test_native_calls_of_a_server_are_played_like_the_same_calls_in_text():
    text = play(episode(), "<think>so</think>" + called(("find_product", {"q": "red"}), content="Looking."))
    native = [{"id": "x9", "type": "function", "function": {"name": "find_product", "arguments": '{"q": "red"}'}}]
    server = play(episode(), said("<think>so</think>Looking.", tool_calls=native))
    assert text.messages == server.messages
    assert text.results == server.results


def test_seeds_follow_from_names_alone_and_differ_by_sample_and_turn():
    seeds = set()
    for sample in range(20):
        one = episode(sample)
        seeds.add(one.request().seed)
        seeds.add(play(one, SEARCH).request().seed)
    assert len(seeds) == 40
    assert all(0 <= seed < 2**48 for seed in seeds)
    assert episode(3).request().seed == episode(3).request().seed
    assert episode(3, model="other").request().seed not in seeds
    assert seed_of("a", 1) == seed_of("a", "1") != seed_of("a1")
    # On every machine.
    assert seed_of("oresmith", 0) == 86790062075207


def test_wall_time_is_not_part_of_a_rollout():
    assert play(episode(), said(END, seconds=3.5)).rollout().replies[0].seconds is None


NATIVE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        SEARCH,
        END,
        BROKEN,
        "<|im_end|>",
        "\ud800",
        "\x00",
        "é",
        "{",
    ]
)
REPLIES = st.builds(
    lambda parts, calls, finish, tokens: said("".join(parts), tool_calls=calls, finish=finish, prompt_tokens=tokens),
    st.lists(PARTS | st.text(st.characters(), max_size=8), max_size=6),
    st.none() | st.lists(st.dictionaries(st.sampled_from(["id", "function", "type"]), NATIVE), max_size=2),
    st.sampled_from(["stop", "stop", "stop", "length", "context", "error"]),
    st.none() | st.integers(0, 2000),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(REPLIES, min_size=6, max_size=6), st.sampled_from(sorted(VIEWS)))
def test_whatever_a_model_says_it_ends_and_the_row_is_one_that_any_reader_takes(replies: list[ChatReply], view: str):
    one = episode(view=view)
    for reply in replies:
        one.take(reply)
        if one.ended is not None:
            break
    assert one.ended in {"terminated", "stopped", "malformed", "turns", "length", "context", "error"}
    rollout = one.rollout()
    stored = msgspec.json.encode(rollout)
    assert msgspec.json.encode(msgspec.json.decode(stored, type=Rollout)) == stored
    row = Writer(Path(), "m", "d", tools()).row_of(one.case, rollout)
    read = decode(decode_line(msgspec.json.encode(row)), Context(source=SOURCE, trust_rows=True))
    assert [message.content for message in read.messages] == [message.content for message in one.messages]
    document = encode(read, Format.ATIF)
    assert decode(decode_line(msgspec.json.encode(document)), Context(source=SOURCE)).messages
    told = list(map(msgspec.json.encode, request_rows(rollout)))
    assert [decode_line(line)["turn"] for line in told] == list(range(len(one.replies)))
    assert len(one.results) == sum(len(message.tool_calls) for message in one.messages)


def test_the_system_prompt_names_the_tools_and_their_parameters_as_the_schema_does():
    for version in PROMPTS:
        text = system_prompt(version)
        functions = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools()}
        known = set(functions).union(*(parameters["properties"] for parameters in functions.values()))
        named = set(re.findall(r"\b[a-z]+_[a-z_]+\b", text))
        assert all(re.search(rf"\b{name}\b", text) for name in functions)
        assert {"product_ids", "shop_id"} <= named <= known | {"product_id"}
        assert functions["recommend_product"]["properties"]["product_ids"]["type"] == "string"
        # The brief one is for models that are trained with it: their rows show how several ids are written.
        assert "comma" in text or version == "shopper-brief-1"


def test_the_system_prompt_is_short_and_speaks_of_the_task_alone():
    for version in PROMPTS:
        text = system_prompt(version).lower()
        assert len(text.split()) <= 150
        assert not re.search(r"reward|score|split|held|train|benchmark|evaluat|<", text)
        assert re.fullmatch(r"[0-9a-f]{64}", prompt_sha256(version))
    with pytest.raises(OresmithError, match="no such system prompt"):
        system_prompt("../shopper-1")


def test_the_parameters_offer_the_prompts_and_views_that_there_are():
    fields = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    assert set(fields["prompt"].__args__) == set(PROMPTS)
    assert set(fields["view"].__args__) == set(VIEWS)
