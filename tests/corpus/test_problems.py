"""What a problem's pool allows, and which gold products are guarded."""

from __future__ import annotations

import json

import polars as pl
import pytest

from oresmith.corpus.guard import gold_key, touched
from oresmith.corpus.problems import ALWAYS, grpo_rows, guarded_golds, heldout_rows, with_use
from oresmith.leakage.keys import problem_keys
from oresmith.records import Format, Message, Problem, Source, ToolCall, Trajectory

SCHEMA = {
    "problem": pl.String(),
    "cluster": pl.String(),
    "pool": pl.String(),
    "held_out": pl.String(),
    "benchmarks": pl.List(pl.String()),
    "trainable": pl.Boolean(),
    "flagged": pl.Boolean(),
    "snapshot": pl.String(),
    "gold_keys": pl.List(pl.String()),
    "reward": pl.String(),
    "voucher": pl.String(),
    "problem_id": pl.String(),
    "query": pl.String(),
    "category": pl.String(),
    "difficulty": pl.String(),
    "vault": pl.Boolean(),
}


def problems(*rows):
    base = {
        "cluster": "c",
        "benchmarks": [],
        "trainable": False,
        "flagged": False,
        "snapshot": "one",
        "gold_keys": [],
        "reward": "{}",
        "query": "a red mug",
        "vault": False,
    }
    full = [base | {"problem": f"p{number}"} | row for number, row in enumerate(rows)]
    return with_use(pl.DataFrame([dict.fromkeys(SCHEMA) | row for row in full], schema=SCHEMA))


@pytest.mark.parametrize(
    ("row", "use"),
    [
        ({"pool": "train", "trainable": True}, "train"),
        ({"pool": "dev"}, "dev"),
        ({"pool": "heldout", "held_out": "2026-05-02"}, "heldout@2026-05-02"),
        ({"pool": "quarantine"}, "quarantine"),
        ({"pool": "benchmark:a+b", "benchmarks": ["a", "b"]}, "benchmark:a+b"),
        ({"pool": "benchmark:a", "benchmarks": ["a"], "trainable": True, "flagged": True}, "train"),
        ({"pool": "train", "benchmarks": ["a"]}, "benchmark:a"),
        ({"pool": "dev", "benchmarks": ["a"]}, "benchmark:a"),
        ({"pool": "train"}, "vault"),
        ({"pool": "dev", "vault": True}, "vault"),
        ({"pool": "heldout", "held_out": "2026-05-02", "vault": True}, "vault"),
    ],
)
def test_a_pool_is_published_only_where_nothing_forbids_it(row, use):
    assert problems(row)["use"].to_list() == [use]


def test_the_vault_column_may_be_missing():
    table = problems({"pool": "dev"}).drop("vault", "use")
    assert with_use(table)["use"].to_list() == ["dev"]


def test_golds_of_heldout_vault_and_guarded_benchmark_problems_are_guarded_from_their_first_snapshot_on():
    table = problems(
        {"pool": "heldout", "held_out": "2026-05-02", "gold_keys": ["h"], "snapshot": "two"},
        {"pool": "heldout", "held_out": "2026-05-01", "gold_keys": ["h", "i"], "snapshot": "three"},
        {"pool": "benchmark:a", "benchmarks": ["a"], "gold_keys": ["b"], "snapshot": None},
        {"pool": "benchmark:a", "benchmarks": ["a"], "gold_keys": ["free"], "trainable": True, "flagged": True},
        {"pool": "dev", "vault": True, "gold_keys": ["v"]},
        {"pool": "train", "trainable": True, "gold_keys": ["own"]},
        {"pool": "dev", "gold_keys": ["dev"]},
        {"pool": "quarantine", "gold_keys": ["q"]},
    )
    assert guarded_golds(table, ["one", "two", "three"]) == {"h": 1, "i": 2, "b": ALWAYS, "v": 0}


def test_grpo_holds_train_problems_with_a_reward_under_the_snapshot_that_brought_them():
    table = problems(
        {"pool": "train", "trainable": True},
        {"pool": "train", "trainable": True, "reward": None},
        {"pool": "dev"},
        {"pool": "train", "trainable": True, "snapshot": "two"},
        {"pool": "benchmark:a", "benchmarks": ["a"], "trainable": True, "flagged": True, "snapshot": None},
    )
    assert [row["problem"] for row in grpo_rows(table, "one")] == ["p0"]
    assert [row["problem"] for row in grpo_rows(table, "two")] == ["p3"]
    (row,) = grpo_rows(table, "two")
    assert [json.loads(text) for text in row["prompt"]] == [{"role": "user", "content": "a red mug"}]


def test_heldout_rows_never_hold_the_reward_and_go_to_the_split_of_their_date():
    table = problems(
        {"pool": "heldout", "held_out": "2026-05-02", "reward": '{"product_id":"1"}', "voucher": '{"budget":5}'},
        {"pool": "heldout", "held_out": "2026-05-02", "vault": True},
    )
    ((split, asked, gold),) = heldout_rows(table, "one")
    assert split == "heldout_2026_05_02"
    assert not {"reward", "voucher"} & asked.keys()
    assert (gold["reward"], gold["voucher"]) == ('{"product_id":"1"}', '{"budget":5}')


def trajectory(*calls):
    tool_calls = [ToolCall(id=f"call_{n}", name=name, arguments=text) for n, (name, text) in enumerate(calls)]
    source = Source(snapshot="s", file="f", file_sha256="", line=1, offset=0, length=0)
    messages = [Message(role="assistant", tool_calls=tool_calls)]
    return Trajectory(trajectory_id="", identity="", content="", source=source, format=Format.OPENAI, messages=messages)


@pytest.mark.parametrize("ids", ['"12, 34"', '["12", "34"]', "[12, 34.0]", '"12,34,"'])
def test_products_are_found_however_the_call_names_them(ids):
    golds = {gold_key("34"): 2, gold_key("12"): 1, gold_key("56"): 0}
    arguments = f'{{"product_ids": {ids}}}'
    found = touched(trajectory(("view_product_information", arguments)), golds)
    assert (found.recommends, found.views_since) == ([], 1)
    found = touched(trajectory(("recommend_product", arguments), ("find_product", '{"q": "56"}')), golds)
    assert (set(found.recommends), found.views_since) == ({gold_key("12"), gold_key("34")}, None)


@pytest.mark.parametrize(
    "arguments", ["", "{", "[]", "null", '{"product_ids": {"a": 1}}', '{"product_ids": [[1], true, null]}', "[" * 5000]
)
def test_hostile_arguments_name_no_product(arguments):
    calls = [("view_product_information", arguments), ("recommend_product", arguments)]
    found = touched(trajectory(*calls), {gold_key("1"): 0})
    assert (found.recommends, found.views_since) == ([], None)


def test_a_gold_key_is_the_one_of_the_problem():
    assert problem_keys(Problem(query="q", reward={"product_id": "AbC-1"})).gold == (gold_key(" abc-1"),)
