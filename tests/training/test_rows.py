"""Rows of the corpus and of rollouts: checked, spread over problems, counted where they are left out."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from oresmith.arena.views import render as show
from oresmith.errors import OresmithError
from oresmith.evaluation.prompts import system_prompt
from oresmith.evaluation.records import Rollout
from oresmith.evaluation.shown_messages import shown_messages
from oresmith.models import HERMES, QWEN3, Chat
from oresmith.models.checks import mask_fault
from oresmith.models.tiny import tiny_tokenizer
from oresmith.models.tokenizer import ChatTokenizer
from oresmith.records import Message, ToolCall
from oresmith.training.rows import (
    ProblemFacts,
    Talk,
    check_certificate,
    combined,
    corpus_rows,
    problem_facts,
    rollout_rows,
    rows_sha256,
    talk_rows,
)
from tests.training.rows_build import TOOLS, shopping, write_corpus

CHATS = {"hermes": Chat(HERMES, ChatTokenizer(tiny_tokenizer())), "qwen": Chat(QWEN3, ChatTokenizer(tiny_tokenizer()))}
HERMES_CHAT = CHATS["hermes"]
FACTS = {"p": ProblemFacts("c", "shop")}


def rows_of(corpus, chat=HERMES_CHAT, **changes):
    asked = {"view": "compare/1", "prompt": "shopper-1", "max_tokens": None} | changes
    return corpus_rows(corpus, chat, **asked)


def talk(row_id="r", messages=None, **more):
    own = [{"role": "system", "content": "You shop."}, *(messages or shopping())]
    return Talk(row_id=row_id, messages=own, tools=TOOLS, **more)


def rollout(sample=0, ended="terminated", reply=None, problem="p"):
    found = reply or Message(
        role="assistant",
        content="",
        tool_calls=[ToolCall(id="call_0", name="recommend_product", arguments='{"product_ids": "1"}')],
    )
    messages = [Message(role="system", content="You shop."), Message(role="user", content="a cup"), found]
    return Rollout(problem=problem, problem_id=None, sample=sample, seed=1, messages=messages, ended=ended)


@pytest.mark.parametrize("name", CHATS)
def test_a_certified_corpus_gives_rows_whose_masks_cover_what_the_model_is_to_emit(certified, name):
    chat = CHATS[name]
    found = rows_of(certified.root / "data/corpus", chat)
    assert found.rows
    for row in found.rows:
        assert mask_fault(row.ids, row.mask, found.answers(row), chat) is None
    assert found.report.rows == len(found.rows) + sum(found.report.rejected.values())
    assert (found.tokens, found.supervised) == (found.report.tokens, found.report.supervised)


def test_rows_say_their_problem_and_come_from_the_train_pool_alone(certified):
    data = certified.root / "data"
    found = rows_of(data / "corpus")
    pools = pl.read_parquet(data / "split/assignments.parquet").filter(pl.col("trainable"))["problem"].to_list()
    facts = problem_facts(data)
    assert {row.problem for row in found.rows} <= set(pools)
    assert {(row.problem, row.cluster, row.category) for row in found.rows} <= {(key, *facts[key]) for key in facts}
    assert {row.origin for row in found.rows} == {"corpus"}


def test_the_validation_split_is_of_the_dev_pool(certified):
    data = certified.root / "data"
    dev = pl.read_parquet(data / "split/assignments.parquet").filter(pl.col("pool") == "dev")["problem"].to_list()
    found = rows_of(data / "corpus", split="validation")
    assert found.rows
    assert {row.problem for row in found.rows} <= set(dev)


def test_results_are_shown_by_the_view_and_a_prompt_is_given_where_none_is_logged(tmp_path):
    logged = [{"role": "system", "content": "Their own."}, *shopping()]
    talks = [{"problem": "a"}, {"problem": "b", "messages": logged, "system_prompt": "logged"}]
    write_corpus(tmp_path / "corpus", talks)
    found = {one.problem: one.messages for one in rows_of(tmp_path / "corpus").talks.values()}
    assert found["a"][0] == {"role": "system", "content": system_prompt("shopper-1")}
    assert [message["content"] for message in found["b"] if message["role"] == "system"] == ["Their own."]
    result = json.loads(shopping()[2]["content"])
    for messages in found.values():
        assert [one["content"] for one in messages if one["role"] == "tool"] == [
            show("compare/1", "find_product", result)
        ]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.data())
def test_a_subset_takes_many_problems_first_and_lies_in_every_larger_one(tmp_path_factory, problems, data):
    corpus = tmp_path_factory.mktemp("spread") / "corpus"
    write_corpus(corpus, [{"problem": f"problem {number}"} for number in problems])
    whole = [row.row_id for row in rows_of(corpus).rows]
    limit = data.draw(st.integers(1, len(problems)))
    part = rows_of(corpus, max_rows=limit)
    assert [row.row_id for row in part.rows] == whole[:limit]
    assert part.left_out == ({"limit": len(problems) - limit} if limit < len(problems) else {})
    counts = Counter(row.problem for row in part.rows)
    have = Counter(f"problem {number}" for number in problems)
    assert all(counts[name] >= min(have[name], max(counts.values()) - 1) for name in have)


def test_a_limit_counts_rows_that_are_kept_and_not_those_that_are_too_long(tmp_path):
    long = {"messages": shopping("a cup " * 400)}
    write_corpus(tmp_path / "corpus", [{"problem": f"p{n}"} | (long if n % 2 else {}) for n in range(12)])
    limit = max(len(row.ids) for row in rows_of(tmp_path / "corpus").rows) - 1
    found = rows_of(tmp_path / "corpus", max_tokens=limit, max_rows=5)
    assert len(found.rows) == 5
    assert found.report.conversations == 5 + found.report.rejected.get("too_long", 0)
    assert found.report.conversations + found.left_out.get("limit", 0) == 12


def test_a_row_over_the_limit_is_counted_and_never_cut(tmp_path):
    write_corpus(tmp_path / "corpus", [{"problem": "short"}, {"problem": "long", "messages": shopping(turns=6)}])
    whole = {row.problem: row for row in rows_of(tmp_path / "corpus").rows}
    found = rows_of(tmp_path / "corpus", max_tokens=len(whole["long"].ids) - 1)
    assert [row.ids for row in found.rows] == [whole["short"].ids]
    assert found.report.rejected == {"too_long": 1}
    assert found.report.longest == len(whole["long"].ids)


def test_too_few_rows_are_refused_with_the_counts(tmp_path):
    write_corpus(tmp_path / "corpus", [{"problem": "a"}, {"problem": "b"}])
    with pytest.raises(OresmithError, match=r"too few rows") as refused:
        rows_of(tmp_path / "corpus", max_tokens=10, min_rows=2)
    assert refused.value.got == "0; conversations 2, too_long 2"


def test_an_empty_config_and_a_missing_corpus_are_refused(tmp_path):
    write_corpus(tmp_path / "corpus", [])
    with pytest.raises(OresmithError, match=r"too few rows"):
        rows_of(tmp_path / "corpus")
    with pytest.raises(OresmithError, match=r"manifest"):
        rows_of(tmp_path / "absent")


def test_a_row_that_no_trajectory_accounts_for_is_refused(tmp_path):
    write_corpus(tmp_path / "corpus", [{"problem": "a"}, {"problem": "b", "known": False}])
    with pytest.raises(OresmithError, match=r"does not fit together"):
        rows_of(tmp_path / "corpus")


def test_a_damaged_file_is_refused(tmp_path):
    write_corpus(tmp_path / "corpus", [{"problem": "a"}])
    (file,) = (tmp_path / "corpus/sft").iterdir()
    file.write_bytes(b"\0" * file.stat().st_size)
    with pytest.raises(OresmithError, match=r"does not fit together"):
        rows_of(tmp_path / "corpus")


def test_the_same_corpus_gives_the_same_rows(tmp_path):
    write_corpus(tmp_path / "corpus", [{"problem": f"p{n % 3}"} for n in range(7)])
    assert rows_sha256(rows_of(tmp_path / "corpus").rows) == rows_sha256(rows_of(tmp_path / "corpus").rows)


def test_every_part_of_a_row_counts_in_the_digest():
    (row,) = talk_rows([talk()], HERMES_CHAT, max_tokens=None).rows
    last = len(row.mask) - 1
    others = [
        replace(row, row_id="other"),
        replace(row, turn=row.turn + 1),
        replace(row, ids=[*row.ids[:-1], row.ids[-1] + 1]),
        replace(row, mask=[*row.mask[:last], 1 - row.mask[last]]),
    ]
    assert len({rows_sha256([one]) for one in [row, *others]}) == 5
    assert rows_sha256([row, others[0]]) != rows_sha256([others[0], row])


def test_per_turn_rows_share_the_conversation_and_each_has_its_own_answer():
    found = talk_rows([talk(messages=shopping(turns=2))], CHATS["qwen"], max_tokens=None)
    assert [row.turn for row in found.rows] == [2, 4, 6]
    assert [len(found.answers(row)) for row in found.rows] == [1, 1, 1]
    assert set(found.talks) == {"r"}


def test_rollouts_become_rows_of_their_problem():
    found = rollout_rows([rollout(0), rollout(1)], HERMES_CHAT, tools=TOOLS, facts=FACTS, max_tokens=None)
    assert [(row.row_id, row.origin, row.cluster, row.category) for row in found.rows] == [
        ("rollout:p:0", "rollout", "c", "shop"),
        ("rollout:p:1", "rollout", "c", "shop"),
    ]


@pytest.mark.parametrize("ended", ["length", "context", "error"])
def test_a_rollout_that_was_cut_off_is_left_out_and_counted(ended):
    rollouts = [rollout(0), rollout(1, ended)]
    found = rollout_rows(rollouts, HERMES_CHAT, tools=TOOLS, facts=FACTS, max_tokens=None)
    assert len(found.rows) == 1
    assert found.left_out == {"unfinished": 1}


def test_a_malformed_reply_is_a_counted_reject():
    broken = Message(role="assistant", content='<tool_call>\n{"name": "find_product"')
    found = rollout_rows(
        [rollout(0), rollout(1, "malformed", broken)], HERMES_CHAT, tools=TOOLS, facts=FACTS, max_tokens=None
    )
    assert [row.row_id for row in found.rows] == ["rollout:p:0"]
    assert found.report.rejected == {"not_read_back": 1}


def test_a_rollout_of_an_unknown_problem_is_refused():
    with pytest.raises(OresmithError, match=r"not in the pipeline"):
        rollout_rows([rollout(problem="x")], HERMES_CHAT, tools=TOOLS, facts=FACTS, max_tokens=None)


def test_sets_join_with_all_that_they_counted():
    first = talk_rows([talk("a")], HERMES_CHAT, max_tokens=None, left_out={"limit": 2})
    (short,) = talk_rows([talk("b")], HERMES_CHAT, max_tokens=None).rows
    second = talk_rows([talk("b"), talk("c", shopping(turns=2))], HERMES_CHAT, max_tokens=len(short.ids))
    both = combined([first, second])
    assert [row.row_id for row in both.rows] == ["a", "b"]
    assert (both.report.rows, both.report.kept, both.report.rejected) == (3, 2, {"too_long": 1})
    assert both.left_out == {"limit": 2}
    assert both.report.longest == second.report.longest


def test_two_conversations_of_one_id_are_refused():
    other = talk(messages=shopping("a blue cup"))
    with pytest.raises(OresmithError, match=r"one row id"):
        talk_rows([talk(), other], HERMES_CHAT, max_tokens=None)
    sets = [talk_rows([one], HERMES_CHAT, max_tokens=None) for one in (talk(), other)]
    with pytest.raises(OresmithError, match=r"one row id"):
        combined(sets)


hostile = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "x"]), part, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(hostile, hostile, hostile)
def test_a_hostile_conversation_is_kept_or_counted_and_nothing_else_happens(content, calls, thought):
    answer = {"role": "assistant", "content": content, "reasoning_content": thought, "tool_calls": calls}
    messages = [{"role": "user", "content": "a cup"}, answer]
    found = talk_rows([talk(messages=messages)], HERMES_CHAT, max_tokens=None, min_rows=0)
    assert len(found.rows) + sum(found.report.rejected.values()) == found.report.rows == 1


def test_a_corpus_whose_certificate_holds_may_be_trained_on(certified):
    data = certified.root / "data"
    manifest = json.loads((data / "audit/manifest.json").read_bytes())
    (stated,) = [one["sha256"] for one in manifest["files"] if one["path"] == "certificate/certificate.json"]
    assert check_certificate(data / "audit", data / "corpus") == stated


@pytest.mark.parametrize("what", ["a row less", "a file that is gone", "no certificate"])
def test_a_corpus_whose_certificate_fails_is_refused(certified, tmp_path, what):
    data = tmp_path / "data"
    for name in ("audit", "corpus"):
        shutil.copytree(certified.root / "data" / name, data / name)
    file = next((data / "corpus/sft").glob("train-*.parquet"))
    if what == "a row less":
        pq.write_table(pq.read_table(file).slice(1), file)
    elif what == "a file that is gone":
        file.unlink()
    else:
        shutil.rmtree(data / "audit/certificate")
    with pytest.raises(OresmithError, match=r"certificate fails") as refused:
        check_certificate(data / "audit", data / "corpus")
    assert "FAIL" in refused.value.got


def test_calls_with_arguments_as_objects_are_rendered_as_those_with_text():
    as_object = shopping()
    for message in as_object:
        for one in message.get("tool_calls", []):
            one["function"]["arguments"] = json.loads(one["function"]["arguments"])
    texts = talk_rows([talk()], HERMES_CHAT, max_tokens=None).rows
    assert [row.ids for row in talk_rows([talk(messages=as_object)], HERMES_CHAT, max_tokens=None).rows] == [
        row.ids for row in texts
    ]


def test_a_logged_prompt_is_kept_or_gives_way_to_ours():
    logged = [{"role": "system", "content": "Buy."}, {"role": "user", "content": "a cup"}]
    kept = shown_messages(logged, "compare/1", "shopper-1", logged=True)
    replaced = shown_messages(logged, "compare/1", "shopper-1", logged=True, replace=True)
    added = shown_messages(logged[1:], "compare/1", "shopper-1", logged=False)
    assert kept == logged
    assert replaced == added == [{"role": "system", "content": system_prompt("shopper-1")}, logged[1]]
