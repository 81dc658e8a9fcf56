"""Each contract lets a real row pass and refuses it once any one thing in it is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from oresmith.errors import OresmithError
from oresmith.param_data import Corpus
from oresmith.validation.facts import derive
from oresmith.validation.reading import pieces
from schemas.corpus import CONFIGS
from schemas.corpus_checks import ROWS, check_rows
from schemas.problem_checks import TABLES
from tests.pipeline.project import Project

LIMIT = Corpus().max_row_bytes


def rows_of(project: Project, config: str) -> pl.DataFrame:
    paths = sorted((project.root / "data/corpus" / config).glob("*.parquet"))
    return pl.concat([piece for path in paths for piece in pieces(path)])


def checked(rows: pl.DataFrame, config: str, limit: int = LIMIT) -> None:
    check_rows(derive(rows, config, limit), "here", config)


def subtask_rows(project: Project) -> pl.DataFrame:
    return rows_of(project, "trajectories").with_columns(origin=pl.lit("B"))


def source(project: Project, config: str) -> pl.DataFrame:
    return subtask_rows(project) if config == "subtask" else rows_of(project, config)


@pytest.mark.parametrize("config", CONFIGS)
def test_a_contract_names_every_column_of_its_config(config: str, corpus_project: Project) -> None:
    rows = source(corpus_project, config)
    derived = set(derive(rows, config, LIMIT).columns) - set(rows.columns)
    assert set(ROWS[config].model.to_schema().columns) == set(CONFIGS[config]) | derived
    assert ROWS[config].name.endswith(f".{config}/1")


@pytest.mark.parametrize("config", CONFIGS)
def test_real_rows_pass(config: str, corpus_project: Project) -> None:
    rows = source(corpus_project, config)
    assert rows.height
    checked(rows, config)


@pytest.mark.parametrize("config", CONFIGS)
def test_no_rows_pass(config: str, corpus_project: Project) -> None:
    checked(source(corpus_project, config).clear(), config)


@pytest.mark.parametrize("config", CONFIGS)
def test_a_column_more_or_less_is_refused(config: str, corpus_project: Project) -> None:
    whole = derive(source(corpus_project, config), config, LIMIT)
    with pytest.raises(OresmithError, match="reward_hint"):
        check_rows(whole.with_columns(reward_hint=pl.lit("1")), "here", config)
    last = list(CONFIGS[config])[-1]
    with pytest.raises(OresmithError, match=last):
        check_rows(whole.drop(last), "here", config)


WRONG_VALUES = [
    ("trajectories", "row_id", "not-a-hash"),
    ("trajectories", "snapshot", "../etc"),
    ("trajectories", "file", ""),
    ("trajectories", "line", 0),
    ("trajectories", "problem", None),
    ("trajectories", "cluster", "x"),
    ("trajectories", "pool", "heldout"),
    ("trajectories", "pool", "quarantine"),
    ("trajectories", "pool", "benchmark:shoppingbench"),
    ("trajectories", "category", "Product"),
    ("trajectories", "benchmark_flag", True),
    ("trajectories", "outcome", "won"),
    ("trajectories", "judge_quality", 1.01),
    ("trajectories", "judge_status", "failed"),
    ("trajectories", "judge_era", "new"),
    ("trajectories", "tokens", 0),
    ("trajectories", "tokenizer", None),
    ("trajectories", "n_steps", 0),
    ("trajectories", "n_calls", 10_000),
    ("trajectories", "miner", "5F3sa2TJAWMqDhXG6jhV4N8ko9SxwGy8TpaNS1repo5EYjQX"),
    ("trajectories", "format", "csv"),
    ("trajectories", "licence", None),
    ("trajectories", "licence", ""),
    ("trajectories", "rank", 0),
    ("trajectories", "schema", "oresmith.corpus/0"),
    ("trajectories", "score", "{'rule': 1}"),
    ("trajectories", "original_call_ids", ["one"]),
    ("trajectories", "copied_context", [10_000]),
    ("trajectories", "no_model", [-1]),
    ("trajectories", "viewed_heldout_gold", None),
    ("trajectories", "tools", "null"),
    ("trajectories", "tools", '[{"type":"function","name":"find_product"}]'),
    ("trajectories", "messages", None),
    ("trajectories", "messages", [None]),
    ("trajectories", "messages", []),
    ("subtask", "origin", "A"),
    ("sft", "row_id", None),
    ("sft", "messages", ['{"role":"user","content":"q"}']),
    ("sft", "tools", None),
    ("kto", "label", None),
    ("kto", "prompt", []),
    ("kto", "prompt", None),
    ("kto", "completion", ['{"role":"user","content":"and now?"}']),
    ("grpo", "reward", None),
    ("grpo", "reward", "{"),
    ("grpo", "voucher", "{"),
    ("grpo", "prompt", ['{"role":"user","content":"another query"}']),
    ("grpo", "prompt", []),
    ("grpo", "benchmark_flag", True),
    ("grpo", "benchmarks", ["suite"]),
    ("heldout", "held_out", "2 May"),
    ("heldout", "held_out", None),
    ("heldout", "category", "web-shop"),
    ("heldout_gold", "reward", "nul"),
    ("rejects", "stage", "evidence"),
    ("rejects", "reason", "another"),
    ("rejects", "reasons", []),
    ("rejects", "offset", -1),
    ("rejects", "evidence", "text"),
    ("rejects", "trajectory_id", "../x"),
]


@pytest.mark.parametrize(("config", "column", "value"), WRONG_VALUES)
def test_a_wrong_value_in_one_row_is_refused(config: str, column: str, value: Any, corpus_project: Project) -> None:
    rows = source(corpus_project, config)
    kind = rows.schema[column]
    broken = rows.with_columns(
        pl.when(pl.int_range(pl.len()) == rows.height - 1)
        .then(pl.lit(pl.Series([value], dtype=kind)).first())
        .otherwise(pl.col(column))
        .alias(column)
    )
    assert broken.height == rows.height
    with pytest.raises(OresmithError, match="breaks its contract"):
        checked(broken, config)


def edited(messages: list[str], change: Callable[[list[Any]], object]) -> list[str]:
    decoded = [json.loads(text) for text in messages]
    change(decoded)
    return [json.dumps(message) for message in decoded]


def calling(messages: list[Any]) -> dict[str, Any]:
    return next(message for message in messages if message.get("tool_calls"))


DIALOGUES: dict[str, tuple[Callable[[list[Any]], object], str]] = {
    "an answer is taken out": (
        lambda messages: messages.remove(next(m for m in messages if m["role"] == "tool")),
        "call_unanswered",
    ),
    "arguments become an object": (
        lambda messages: calling(messages)["tool_calls"][0]["function"].update(arguments={"q": None}),
        "not_a_message",
    ),
    "a key is null": (lambda messages: messages[0].update(tool_calls=None), "not_a_message"),
    "a call id is shared": (
        lambda messages: calling(messages)["tool_calls"].append(calling(messages)["tool_calls"][0]),
        "call_id_twice",
    ),
}


@pytest.mark.parametrize("name", DIALOGUES)
def test_a_fault_of_a_dialogue_is_named_with_the_rows_that_have_it(name: str, corpus_project: Project) -> None:
    change, fault = DIALOGUES[name]
    rows = rows_of(corpus_project, "trajectories")
    messages = rows["messages"].to_list()
    messages[-1] = edited(messages[-1], change)
    with pytest.raises(OresmithError, match=f"dialogue: {fault}"):
        checked(rows.with_columns(pl.Series("messages", messages)), "trajectories")


def test_no_recommendation_or_a_second_one_is_refused(corpus_project: Project) -> None:
    rows = rows_of(corpus_project, "sft")
    renamed = rows.with_columns(
        pl.col("messages").list.eval(pl.element().str.replace_all("recommend_product", "recall"))
    )
    with pytest.raises(OresmithError, match="recommends"):
        checked(renamed, "sft")


def test_a_row_beyond_the_limit_is_refused(corpus_project: Project) -> None:
    rows = rows_of(corpus_project, "trajectories")
    with pytest.raises(OresmithError, match="too_long"):
        checked(rows, "trajectories", 1000)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("cluster/problems", "cluster", "x"),
        ("cluster/problems", "pairs", -1),
        ("cluster/attempts", "line", 1),
        ("cluster/attempts", "trajectory_id", None),
        ("split/assignments", "pool", "test"),
        ("split/assignments", "held_out", "2026-05-02"),
        ("split/assignments", "trainable", True),
        ("split/assignments", "problem", None),
    ],
)
def test_tables_of_problems_are_held_to_their_contract(
    name: str, column: str, value: Any, corpus_project: Project
) -> None:
    path = corpus_project.root / "data" / Path(f"{name}.parquet")
    table, model = pl.read_parquet(path), TABLES[name].model
    model.validate(table, lazy=True)
    broken = table.with_columns(pl.lit(value, dtype=table.schema[column]).alias(column))
    with pytest.raises(Exception, match=column if column != "trainable" else "only_open_pools_train"):
        model.validate(broken, lazy=True)
