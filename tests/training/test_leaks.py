"""Training text holds nothing of what is held out; what tools answered is exempt."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.leakage import LedgerLine, problem_keys
from oresmith.leakage.text import fold, words
from oresmith.models import HERMES, Chat
from oresmith.models.tiny import tiny_tokenizer
from oresmith.models.tokenizer import ChatTokenizer
from oresmith.records import Problem
from oresmith.training.leaks import RULES, check_training_text, find_text_leaks, without_leaks
from oresmith.training.phrases import RUN, Phrases, Query, forms_of
from oresmith.training.rows import Talk, corpus_rows, talk_rows
from tests.training.rows_build import TOOLS, call, guarded, problem

CHAT = Chat(HERMES, ChatTokenizer(tiny_tokenizer()))
HELD = "Looking for a men's T-shirt of organic cotton, size XL, under 1,250 pesos, with free shipping"
VOUCHER = {"budget": 696, "threshold": 179, "discount": 0.1, "cap": 30}
SPENT = " My budget is 696 pesos. I have a voucher that takes 10% off from 179 pesos on, 30 at most."
OURS = "Find a red lamp with a brass foot and a linen shade"
WORLD = [problem("ours", OURS, gold="1001"), problem("held", HELD, "heldout", gold="9009")]


def said(content="", thinking="", *calls, query=OURS, result="[]"):
    """A conversation with one answer that calls a tool and gets a result."""
    answer = {"role": "assistant", "content": content, "reasoning_content": thinking, "tool_calls": list(calls)}
    return [
        {"role": "system", "content": "You shop. End with recommend_product."},
        {"role": "user", "content": query},
        answer,
        {"role": "tool", "name": "find_product", "content": result},
        {"role": "assistant", "content": "Done."},
    ]


def kinds(messages, *rows, **more):
    """Kinds of leaks in a conversation; the world is the one above where no other is given."""
    found = find_text_leaks([("row", messages)], guarded(*(rows or WORLD), **more))
    assert {leak.row_id for leak in found.leaks} <= {"row"}
    return {leak.kind for leak in found.leaks}


def row_set(*talks):
    made = [
        Talk(row_id=f"row {place}", messages=messages, tools=TOOLS, problem=name)
        for place, (name, messages) in enumerate(talks)
    ]
    return talk_rows(made, CHAT, max_tokens=None)


def test_a_certified_corpus_passes_and_the_report_says_what_was_compared(certified):
    data = certified.root / "data"
    rows = corpus_rows(data / "corpus", CHAT, view="compare/1", prompt="shopper-1", max_tokens=None)
    report = check_training_text(rows, data)
    pools = pl.read_parquet(data / "split/assignments.parquet")
    held = pools.filter(pl.col("pool") == "heldout")
    assert report.guarded == {"heldout@2026-05-02": held.height}
    assert (report.conversations, report.leaks) == (len(rows.talks), [])
    assert min(report.texts, report.letters, report.recommended, report.queries, report.golds) > 0


@pytest.mark.parametrize(
    "place",
    ["query", "thinking", "content", "argument", "key", "nested", "system"],
)
def test_a_held_out_query_is_found_wherever_the_model_would_read_or_write_it(place):
    messages = said("", "", call("find_product", q="lamp"))
    text = f"The user says: {HELD}. I search."
    if place == "query":
        messages[1]["content"] = text
    elif place == "system":
        messages[0]["content"] = text
    elif place in ("thinking", "content"):
        messages[2]["reasoning_content" if place == "thinking" else "content"] = text
    else:
        given_ = {"argument": {"q": text}, "key": {text: 1}, "nested": {"a": [{"b": text}]}}[place]
        messages[2]["tool_calls"] = [call("find_product", **given_)]
    assert "query" in kinds(messages)


def test_a_held_out_query_in_the_definition_of_a_tool_is_found():
    tools = [{"type": "function", "function": {"name": "f", "description": HELD, "parameters": {}}}]
    rows = talk_rows([Talk(row_id="r", messages=said(), tools=tools, problem="ours")], CHAT, max_tokens=None)
    assert [leak.place for leak in find_text_leaks(rows, guarded(*WORLD)).leaks if leak.kind == "query"] == ["tools"]


def test_what_a_tool_answered_is_exempt():
    result = json.dumps([{"product_id": "9009", "title": HELD}])
    assert kinds(said(result=result)) == set()


@pytest.mark.parametrize(
    "spelt",
    [
        HELD.upper(),
        HELD.replace("T-shirt", "tshirt").replace("1,250", "1250"),
        HELD.replace(" ", "\n ").replace(",\n", " -\n"),
        HELD.replace("'", "\u2019").replace("s", "\uff53"),
        HELD.replace("cotton", "cot\u00adton"),
    ],
)
def test_spelling_hides_no_query(spelt):
    assert "query" in kinds(said(thinking=f"So: {spelt}!"))


@pytest.mark.parametrize("text", [HELD.replace("1,250", "11,250"), OURS, "", "a T-shirt of organic cotton in size XL"])
def test_another_text_is_not_taken_for_the_query(text):
    assert "query" not in kinds(said(thinking=text))


@pytest.mark.parametrize("spent", ["", SPENT, " My budget is 50 pesos, and a voucher takes 5 off from 20 pesos on."])
def test_a_query_is_found_with_its_voucher_text_without_it_and_with_another(spent):
    world = [WORLD[0], problem("held", HELD + SPENT, "heldout", voucher=json.dumps(VOUCHER))]
    assert kinds(said(query=HELD + spent), *world) & {"query", "base"}


def test_eight_words_that_only_a_held_out_query_has_are_found_and_seven_are_not():
    eight = " ".join(words(fold(HELD))[3 : 3 + RUN])
    assert kinds(said(thinking=f"so {eight} it is")) == {"words"}
    assert kinds(said(thinking=f"so {eight.rsplit(' ', 1)[0]} it is")) == set()


def test_eight_words_that_another_cluster_uses_too_recognise_nothing():
    eight = " ".join(words(fold(HELD))[3 : 3 + RUN])
    other = problem("other", f"I want {eight} in green", "dev")
    assert kinds(said(thinking=eight), *WORLD, other) == set()
    same_cluster = problem("other", f"I want {eight} in green", "heldout", cluster="held")
    assert kinds(said(thinking=eight), *WORLD, same_cluster) == {"words"}


def test_a_phrase_of_a_few_words_is_a_query_only_as_a_whole_text():
    world = [WORLD[0], problem("held", "usb hub", "heldout")]
    assert kinds(said("", "", call("find_product", q="USB-hub")), *world) == {"query"}
    assert kinds(said(thinking="A usb hub would do."), *world) == set()
    assert kinds(said("", "", call("find_product", q="usb hub")), *world, problem("p", "A blue usb hub")) == set()


def test_a_query_in_a_script_without_blanks_is_found():
    held = "我想买一个红色的陶瓷杯子，容量三百毫升，价格低于五十元，需要包邮"
    world = [WORLD[0], problem("held", held, "heldout")]
    assert kinds(said(thinking=f"请问{held}谢谢"), *world) == {"query"}


@pytest.mark.parametrize("ids", ["9009", "5, 9009 ,6", 9009, [1, "9009"], " 9009"])
def test_recommending_a_held_out_gold_product_is_found_in_any_form(ids):
    assert kinds(said("", "", call("recommend_product", product_ids=ids))) == {"gold"}


def test_a_recommendation_that_could_not_be_read_is_found_in_its_text():
    written = '<tool_call>\n{"name": "recommend_product", "arguments": {"product_ids": "9009"'
    assert kinds(said(written)) == {"gold"}


def test_viewing_a_held_out_gold_product_is_told_and_no_leak():
    messages = said("", "", call("view_product_information", product_ids="9009,1001"))
    report = check_training_text([("row", messages)], guarded(*WORLD))
    assert report.viewed == {"heldout@2026-05-02": 1}


@pytest.mark.parametrize(
    "facts",
    [
        {"pool": "heldout", "held_out": "2020-01-01"},
        {"pool": "quarantine"},
        {"pool": "benchmark:suite", "benchmarks": ["suite"]},
        {"pool": "train", "benchmarks": ["suite"], "trainable": False},
        {"pool": "dev", "benchmarks": ["suite"]},
        {"pool": "train", "vault": True, "trainable": False},
    ],
)
def test_all_that_nothing_may_be_trained_on_is_guarded(facts):
    world = [WORLD[0], problem("other", HELD, gold="9009", **({"trainable": False} | facts))]
    messages = said(HELD, "", call("recommend_product", product_ids="9009"))
    assert kinds(messages, *world) == {"query", "words", "gold"}


@pytest.mark.parametrize(
    "facts", [{"pool": "benchmark:suite", "benchmarks": ["suite"], "trainable": True}, {"pool": "dev"}]
)
def test_an_allowed_benchmark_and_the_dev_pool_are_not_guarded(facts):
    world = [WORLD[0], problem("other", HELD, gold="9009", **facts)]
    assert kinds(said(HELD, "", call("recommend_product", product_ids="9009")), *world) == set()


def test_a_quarantined_problem_guards_what_it_does_not_share_with_a_trainable_one():
    between = problem("between", OURS + " and a garden hose of twenty metres in green", "quarantine")
    between |= {"reward": json.dumps([{"product_id": "1001"}, {"product_id": "3003"}]), "cluster": "ours"}
    world = [*WORLD, between]
    assert kinds(said("", "", call("recommend_product", product_ids="1001")), *world) == set()
    assert kinds(said("", "", call("recommend_product", product_ids="3003")), *world) == {"gold"}
    assert kinds(said(query=between["query"]), *world) >= {"query"}


def test_problems_that_only_the_ledger_knows_stay_guarded_by_their_keys():
    keys = problem_keys(Problem(problem_id="x", query=HELD + SPENT, reward={"product_id": "9009"}, voucher=VOUCHER))
    line = LedgerLine(release="0.1.0", cluster=keys.problem, pool="heldout", held_out="2020-01-01", problems=(keys,))
    alone = {"retired": [line]}
    assert kinds(said("", "", call("recommend_product", product_ids="9009")), WORLD[0], **alone) == {"gold"}
    assert kinds(said(query=HELD.lower()), WORLD[0], **alone) == {"base"}
    assert kinds(said(), WORLD[0], **alone) == set()


def test_the_ledger_beside_the_certificate_is_read(certified, tmp_path):
    data = tmp_path / "data"
    for name in ("audit", "cluster", "split"):
        shutil.copytree(certified.root / "data" / name, data / name)
    problems, pools = (data / name for name in ("cluster/problems.parquet", "split/assignments.parquet"))
    held = pl.read_parquet(pools).filter(pl.col("pool") == "heldout")["problem"].to_list()
    golds = pl.read_parquet(problems).filter(pl.col("problem").is_in(held))["reward"].to_list()
    for path in (problems, pools):
        pl.read_parquet(path).filter(~pl.col("problem").is_in(held)).write_parquet(path)
    product = str(_first_id(json.loads(golds[0])))
    report = find_text_leaks([("row", said("", "", call("recommend_product", product_ids=product)))], data)
    assert [leak.kind for leak in report.leaks] == ["gold"]
    assert report.guarded == {"ledger": len(held)}


def _first_id(reward):
    return (reward[0] if isinstance(reward, list) else reward)["product_id"]


def test_a_row_of_a_problem_that_may_not_be_trained_on_is_found():
    found = find_text_leaks(row_set(("ours", said()), ("held", said()), ("strange", said())), guarded(*WORLD))
    assert [(leak.row_id, leak.kind) for leak in found.leaks] == [("row 1", "problem"), ("row 2", "problem")]


def test_a_row_without_its_conversation_is_refused():
    rows = row_set(("ours", said()))
    rows.talks.clear()
    with pytest.raises(OresmithError, match=r"cannot be checked"):
        check_training_text(rows, guarded(*WORLD))


def test_a_leak_is_refused_with_its_place_and_without_its_text():
    with pytest.raises(OresmithError, match=r"holds what is held out") as refused:
        check_training_text([("row", said(thinking=HELD))], guarded(*WORLD))
    assert "row, message 2: query of held" in refused.value.where
    assert refused.value.got == "query 1, words 1"
    assert "organic" not in refused.value.sentence()


def test_leaking_rollouts_are_left_out_and_counted_and_the_rest_passes():
    rows = row_set(("ours", said()), ("ours", said(HELD)), ("ours", said(thinking=" ".join(HELD.split()[3:12]))))
    kept = without_leaks(rows, guarded(*WORLD))
    assert [row.row_id for row in kept.rows] == ["row 0"]
    assert kept.left_out == {"leak_query": 1, "leak_words": 1}
    assert (kept.report.kept, kept.report.rows, kept.report.tokens) == (1, 1, kept.tokens)
    assert check_training_text(kept, guarded(*WORLD)).conversations == 1


def test_tables_of_other_problems_and_missing_ones_are_refused(certified, tmp_path):
    with pytest.raises(OresmithError, match=r"cannot be read"):
        check_training_text([], tmp_path)
    for name in ("cluster", "split"):
        shutil.copytree(certified.root / "data" / name, tmp_path / name)
    path = tmp_path / "split/assignments.parquet"
    pl.read_parquet(path).head(3).write_parquet(path)
    with pytest.raises(OresmithError, match=r"different problems"):
        check_training_text([], tmp_path)


WORDS = st.sampled_from("red lamp T-shirt 5 10 1,250 men's brass x ab b a usb-hub".split())
TEXTS = st.lists(WORDS, min_size=1, max_size=14).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_a_query_of_some_length_is_found_between_any_words(query, before, after):
    forms = forms_of(query)
    long = len(forms[0]) >= 4
    phrases = Phrases([Query("held", "held", forms, guarded=True)])
    found = {one.kind for one in phrases.find(f"{before}; {query}; {after}")}
    assert not long or "query" in found
    assert {one.kind for one in phrases.find(query)} >= {"query"}


@settings(max_examples=300, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_runs_are_those_of_the_definition(query, other, text):
    def runs(of):
        (form,) = forms_of(of)
        return {form[place : place + RUN] for place in range(len(form) - RUN + 1)}

    known = [
        Query("held", "held", forms_of(query), guarded=True),
        Query("ours", "ours", forms_of(other), trainable=True),
    ]
    found = {one.kind for one in Phrases(known).find(text)}
    assert ("words" in found) == bool(runs(text) & (runs(query) - runs(other)))


hostile = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=4), part, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(hostile, hostile, st.lists(hostile, max_size=3), st.sampled_from(["assistant", "user", "tool", "x", None]))
def test_no_conversation_makes_the_check_fail_in_another_way(content, arguments, calls, role):
    own = {"function": {"name": "recommend_product", "arguments": arguments}}
    messages = [{"role": role, "content": content, "reasoning_content": content, "tool_calls": [own, *calls]}]
    assert find_text_leaks([("row", messages)], guarded(*WORLD)).conversations == 1


def test_every_kind_of_leak_has_its_sentence():
    world = [WORLD[0], problem("held", HELD + SPENT, "heldout", gold="9009", voucher=json.dumps(VOUCHER))]
    messages = said(HELD + SPENT, HELD, call("recommend_product", product_ids="9009"))
    found = find_text_leaks(row_set(("held", messages)), guarded(*world))
    assert {leak.kind for leak in found.leaks} == set(RULES)
