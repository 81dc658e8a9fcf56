"""The corpus of a small world: every line in one place, the right rows in the right config."""

from __future__ import annotations

import json

import polars as pl

from oresmith.reasons import SENTENCES
from oresmith.traces import to_openai
from schemas.corpus import CONFIGS
from tests.corpus.build import published, records


def report_of(project):
    return json.loads((project.root / "data/corpus/report.json").read_text())


def places(rows):
    return [(row["snapshot"], row["file"], row["line"]) for row in rows]


def test_every_line_read_stands_in_exactly_one_place(done):
    report = report_of(done)
    counted = [place for config in ("trajectories", "subtask", "rejects") for place in places(published(done, config))]
    assert len(counted) == len(set(counted))
    for fate in report["fates"]:
        mine = [place for place in counted if place[:2] == (fate["snapshot"], fate["file"])]
        assert fate["read"] == len(mine) + sum(fate["withheld"].values())
    assert {fate["read"] for fate in report["fates"]} == {12, 3}
    assert len(counted) + sum(report["withheld"].values()) == 39


def test_withheld_rows_are_counted_by_pool_and_published_nowhere(done):
    report = report_of(done)
    assert report["withheld"] == {"benchmark:suite": 2, "heldout@2026-05-02": 2, "quarantine": 2}
    decided = pl.read_parquet(done.root / "data/gate/decisions.parquet").filter("accepted")
    shown = set(places(published(done, "trajectories")))
    hidden = [row for row in decided.iter_rows(named=True) if (row["snapshot"], row["file"], row["line"]) not in shown]
    assert len(hidden) == 6
    texts = "".join(str(published(done, config)) for config in CONFIGS if config != "rejects")
    assert not [row for row in hidden if row["trajectory_id"] in texts]


def test_each_pool_is_in_its_own_split_and_config(done):
    held = {row["problem"] for row in published(done, "heldout")}
    assert len(held) == 2
    assert {row["split"] for row in published(done, "heldout")} == {"heldout_2026_05_02"}
    rows = published(done, "trajectories")
    assert {(row["split"], row["pool"]) for row in rows} == {("train", "train"), ("dev", "dev")}
    trained = {row["problem"] for row in rows if row["split"] == "train"}
    dev = {row["problem"] for row in rows if row["split"] == "dev"}
    asked = {row["problem"] for row in published(done, "grpo")}
    assert trained == asked
    assert not trained & dev
    assert not (trained | dev) & held


def test_heldout_problems_come_without_their_rewards(done, world):
    golds = [product for problem in world.problems.values() for product in world.golds(problem)]
    texts = str(published(done, "heldout"))
    assert not [product for product in golds if product["product_id"] in texts]
    with_gold = published(done, "heldout_gold")
    assert [row["problem"] for row in with_gold] == [row["problem"] for row in published(done, "heldout")]
    for row in with_gold:
        assert json.loads(row["reward"]) == world.problems[row["problem_id"]]["reward"]


def test_messages_are_those_of_the_record_and_arguments_stay_text(done):
    found = records(done)
    rows = published(done, "trajectories") + published(done, "subtask")
    assert rows
    for row in rows:
        expected = to_openai(found[row["row_id"]])
        messages = [json.loads(text) for text in row["messages"]]
        assert messages == expected["messages"]
        calls = [call for message in messages for call in message.get("tool_calls", [])]
        assert calls
        assert all(isinstance(call["function"]["arguments"], str) for call in calls)


def test_rows_without_tools_of_their_own_get_the_schema_of_the_arena(done):
    names = {tool["function"]["name"] for row in published(done, "sft") for tool in json.loads(row["tools"])}
    assert names == {"find_product", "view_product_information", "recommend_product", "terminate"}


def test_sft_and_kto_are_views_that_no_null_content_reaches(done):
    found = {row["row_id"]: row for row in published(done, "trajectories")}
    sft = {row["row_id"]: row for row in published(done, "sft")}
    assert sft.keys() == found.keys()
    for key, row in sft.items():
        own = [json.loads(text) for text in found[key]["messages"]]
        assert [json.loads(t) for t in row["messages"]] == [m | {"content": m["content"] or ""} for m in own]
        assert row["split"] == ("train" if found[key]["split"] == "train" else "validation")
    for row in published(done, "kto"):
        if row["label"]:
            assert row["prompt"] + row["completion"] == sft[row["row_id"]]["messages"]


def test_a_kto_prompt_ends_with_the_query_and_its_completion_begins_with_the_agent(done):
    for row in published(done, "kto"):
        assert json.loads(row["prompt"][-1])["role"] == "user"
        assert json.loads(row["completion"][0])["role"] == "assistant"


def test_undesirable_rows_are_rejects_of_train_for_their_outcome_alone(done):
    found = records(done)
    rejects = {row["trajectory_id"]: row for row in published(done, "rejects")}
    undesirable = [row for row in published(done, "kto") if not row["label"]]
    assert {row["split"] for row in undesirable} == {"train"}
    asked = {row["problem_id"] for row in published(done, "grpo")}
    assert len(undesirable) == len(asked) == 4
    for row in undesirable:
        assert rejects[row["row_id"]]["reasons"] == ["outcome"]
        assert found[row["row_id"]].problem.problem_id in asked


def test_subtask_rows_fail_no_gate_but_origin_and_leave_the_rejects(done):
    rows = published(done, "subtask")
    assert len(rows) == 4
    assert {(row["origin"], row["pool"]) for row in rows} == {("B", "train")}
    gate = [json.loads(line) for line in (done.root / "data/gate/rejects.jsonl").open()]
    reasons = {row["trajectory_id"]: row["reasons"] for row in gate}
    assert all(reasons[row["row_id"]] == ["origin_subtask"] for row in rows)
    assert not {row["row_id"] for row in rows} & {row["trajectory_id"] for row in published(done, "rejects")}


def test_rejects_of_all_stages_come_in_the_order_of_their_rows(done):
    rows = published(done, "rejects")
    assert places(rows) == sorted(places(rows))
    assert {row["stage"] for row in rows} == {"normalize", "gate"}
    assert all(row["reason"] == row["reasons"][0] and row["reason"] in SENTENCES for row in rows)


def test_counts_of_rows_problems_and_clusters_stand_side_by_side(done):
    counts = json.loads((done.root / "data/corpus/corpus.json").read_text())["configs"]
    train = counts["trajectories"]["train"]
    assert (train["rows"], train["problems"], train["clusters"]) == (4, 4, 4)
    assert (counts["kto"]["train"]["desirable"], counts["kto"]["train"]["undesirable"]) == (4, 4)
    assert counts["rejects"]["rejected"]["problems"] is None
    for config, splits in counts.items():
        assert sum(split["rows"] for split in splits.values()) == len(published(done, config))
