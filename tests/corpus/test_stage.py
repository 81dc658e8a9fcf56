"""The whole stage over a small world: every line in one place, the right rows in the right config, the same bytes."""

from __future__ import annotations

import json

import polars as pl
import pyarrow.parquet as pq
import pytest

from oresmith.blocks.accounts import Accounts
from oresmith.blocks.writers import TrajectoryReader
from oresmith.corpus.guard import gold_key
from oresmith.corpus.rows import row_bytes
from oresmith.reasons import SENTENCES
from oresmith.traces import to_openai
from schemas.corpus import CONFIGS, TRAJECTORIES
from tests.corpus.build import add_world, build_corpus, build_tables, cases, copied, published
from tests.pipeline.project import Project
from tests.worlds import atif_document, honest, make_world

POOLS = ["train", "train", "dev", "heldout", "benchmark:suite", "quarantine"]


def pools(problem, place):
    pool = POOLS[place % len(POOLS)]
    return {"pool": pool, "benchmarks": ["suite"] if pool.startswith("benchmark") else []}


def assign(project, names, chosen=pools):
    """Clusters and pools; `chosen` gives the pool of a problem by its place in the world."""
    places = {}
    return build_tables(
        project.root, names, lambda problem: chosen(problem, places.setdefault(problem.problem_id, len(places)))
    )


@pytest.fixture(scope="module")
def world():
    return make_world(7, problems=12)


@pytest.fixture(scope="module")
def base(tmp_path_factory, world):
    """A project whose stages up to `split` are done."""
    project = Project(tmp_path_factory.mktemp("base"))
    add_world(project, "one", world, cases(world, 1))
    project.write_params(evidence={"tokenizer": "none"})
    project.run("snapshots", "normalize", "evidence", "gate")
    assign(project, ["one"])
    return project


@pytest.fixture(scope="module")
def done(base, tmp_path_factory):
    project = copied(base, tmp_path_factory.mktemp("done") / "project")
    build_corpus(project)
    return project


@pytest.fixture
def fresh(base, tmp_path):
    return copied(base, tmp_path / "project")


def records(project, name="one"):
    folder = project.root / "data/normalize" / name / "trajectories"
    reader = TrajectoryReader(folder, Accounts(project.root / "accounts"))
    found = [d.metadata["trajectory"] for shard in range(reader.shards) for d in reader.run(rank=shard)]
    return {record.trajectory_id: record for record in found}


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


def test_workers_and_a_second_run_change_no_byte(done, fresh):
    fresh.write_params(run={"workers": 2}, normalize={"shard_bytes": 1})
    for stage in ("normalize", "evidence", "gate"):
        fresh.run(stage)
    build_corpus(fresh)
    several = fresh.tree("data/corpus")
    assert len([name for name in several if "/trajectories/" in name]) > 1
    fresh.write_params(run={"workers": 1})
    build_corpus(fresh)
    assert fresh.tree("data/corpus") == several
    for config in CONFIGS:
        assert published(fresh, config) == published(done, config)


def test_a_new_snapshot_adds_files_and_leaves_every_older_one_as_it_is(done, fresh, world):
    add_world(fresh, "two", world, cases(world, 5))
    fresh.write_params()
    for stage in ("snapshots", "normalize", "evidence"):
        assert fresh.stage(stage, *(["--name"] if stage == "snapshots" else []), "two").returncode == 0
    fresh.run("gate")
    assign(fresh, ["one", "two"])
    build_corpus(fresh)
    before, after = done.tree("data/corpus"), fresh.tree("data/corpus")
    old = {name: sha for name, sha in before.items() if name.endswith(".parquet")}
    assert {name: after[name] for name in old} == old
    added = {name for name in after if name.endswith(".parquet")} - old.keys()
    assert added
    assert all("-001-two-" in name for name in added)
    ranks = {(row["problem"], row["rank"]): row["snapshot"] for row in published(fresh, "trajectories")}
    assert {ranks[key] for key in ranks if key[1] == 1} == {"one"}
    assert {ranks[key] for key in ranks if key[1] == 2} == {"two"}


def test_rows_over_a_cap_are_rejects_with_their_rank(fresh):
    assign(fresh, ["one"], lambda problem, place: {"pool": "train", "cluster": "c" * 64})
    fresh.write_params(corpus={"cap_per_cluster": 5})
    report = build_corpus(fresh)
    assert (report.trajectories, report.reasons) == (5, {"over_cluster_cap": 7})
    over = [row for row in published(fresh, "rejects") if row["stage"] == "corpus"]
    ranks = sorted(json.loads(row["evidence"])["cluster_rank"] for row in over)
    assert ranks == list(range(6, 13))
    undesirable = [row for row in published(fresh, "kto") if not row["label"]]
    assert len(undesirable) == 5


def test_a_row_longer_than_the_limit_is_a_counted_reject(fresh):
    assign(fresh, ["one"], lambda problem, place: {"pool": "train"})
    build_corpus(fresh)
    sizes = sorted(row_bytes({name: row[name] for name in TRAJECTORIES}) for row in published(fresh, "trajectories"))
    limit = sizes[7]
    fresh.write_params(corpus={"max_row_bytes": limit})
    assert build_corpus(fresh).reasons == {"row_too_large": 4}
    rejects = [row for row in published(fresh, "rejects") if row["stage"] == "corpus"]
    assert sorted(json.loads(row["evidence"])["row_bytes"] for row in rejects) == sizes[8:]


def guarded(project, key, order=0):
    """All problems are train but the third last, which is held out and has this gold product."""

    def chosen(problem, place):
        return {"pool": "heldout", "gold_keys": [key]} if place == 9 else {"pool": "train"}

    return assign(project, ["one"], chosen)


def test_recommending_the_gold_of_a_heldout_problem_rejects_a_row_from_every_config(fresh, world):
    first = next(iter(world.problems.values()))
    gold = world.golds(first)[0]["product_id"]
    guarded(fresh, gold_key(gold))
    report = build_corpus(fresh)
    assert report.reasons == {"heldout_gold": 1}
    rejects = [row for row in published(fresh, "rejects") if "heldout_gold" in row["reasons"]]
    assert {row["stage"]: row["reasons"] for row in rejects} == {
        "corpus": ["heldout_gold"],
        "gate": ["origin_subtask", "heldout_gold"],
    }
    found = records(fresh)
    for config in ("sft", "kto", "subtask"):
        for row in published(fresh, config):
            calls = [call for message in found[row["row_id"]].messages for call in message.tool_calls]
            assert not [c for c in calls if c.name == "recommend_product" and gold in c.arguments.split('"')]
    fresh.write_params(corpus={"heldout_gold_recommended": "pass"})
    assert build_corpus(fresh).reasons == {}


def test_viewing_the_gold_of_a_heldout_problem_flags_a_row_or_rejects_it_by_parameter(fresh):
    record = next(r for r in records(fresh).values() if "good" in r.source.file and r.source.line == 1)
    calls = [call for message in record.messages for call in message.tool_calls]
    recommended = {
        i for c in calls if c.name == "recommend_product" for i in json.loads(c.arguments)["product_ids"].split(",")
    }
    viewed = [
        product
        for call in calls
        if call.name == "view_product_information"
        for product in json.loads(call.arguments)["product_ids"].split(",")
        if product not in recommended
    ]
    guarded(fresh, gold_key(viewed[0]))
    report = build_corpus(fresh)
    flags = {row["row_id"]: row["viewed_heldout_gold"] for row in published(fresh, "trajectories")}
    assert flags[record.trajectory_id] is True
    assert not all(flags.values())
    fresh.write_params(corpus={"heldout_gold_viewed": "reject"})
    strict = build_corpus(fresh)
    assert strict.reasons["heldout_gold"] - report.reasons.get("heldout_gold", 0) == sum(flags.values())


def test_an_allowed_benchmark_is_published_with_a_flag(fresh):
    def allowed(problem, place):
        return {"pool": "benchmark:suite", "benchmarks": ["suite"], "trainable": True, "flagged": True}

    assign(fresh, ["one"], allowed)
    build_corpus(fresh)
    rows = published(fresh, "trajectories")
    assert len(rows) == 12
    assert {(row["split"], row["pool"], row["benchmark_flag"]) for row in rows} == {("train", "benchmark:suite", True)}
    assert all(row["benchmark_flag"] for row in published(fresh, "grpo"))


def test_a_corpus_without_train_rows_says_why_and_ends_well(fresh):
    assign(fresh, ["one"], lambda problem, place: {"pool": "benchmark:suite", "benchmarks": ["suite"]})
    run = fresh.stage("corpus")
    assert run.returncode == 0, run.stderr
    assert "no train row is left: of 12 accepted rows 12 are of public benchmark problems" in run.stdout
    assert "benchmark:suite 12" in run.stdout
    assert "allow_benchmark" in run.stdout
    readme = (fresh.root / "data/corpus/README.md").read_text()
    assert "rejects/rejected-*.parquet" in readme
    assert "sft" not in readme


def test_steps_that_no_model_made_are_published_but_never_trained_on(tmp_path, world):
    project = Project(tmp_path)
    documents = [atif_document(honest(world, p, 3), copied=True) for p in world.problems.values()]
    lines = [json.dumps(document).encode() for document in documents]
    add_world(project, "one", world, {"a.jsonl": lines})
    loose = {"origin": ["A", "B", "unknown"], "provenance": ["runtime-written", "absent"], "format_min": 0}
    project.write_params(evidence={"tokenizer": "none"}, gate=loose)
    project.run("snapshots", "normalize", "evidence", "gate")
    assign(project, ["one"], lambda problem, place: {"pool": "train"})
    report = build_corpus(project)
    rows = published(project, "trajectories")
    assert len(rows) == report.trajectories > 0
    assert all(row["copied_context"] and row["no_model"] for row in rows)
    assert published(project, "sft") == published(project, "kto") == []
    counts = json.loads((project.root / "data/corpus/corpus.json").read_text())
    assert counts["left_out"]["sft"] == {"untrainable_steps": len(rows)}


@pytest.mark.parametrize("table", ["cluster/problems", "cluster/attempts", "split/assignments"])
def test_a_missing_or_foreign_table_is_refused_with_what_to_run(fresh, table):
    path = fresh.root / f"data/{table}.parquet"
    whole = pq.read_table(path)
    pq.write_table(whole.slice(1), path)
    run = fresh.stage("corpus")
    assert run.returncode == 2, run.stdout
    assert "Traceback" not in run.stderr
    path.unlink()
    run = fresh.stage("corpus")
    assert run.returncode == 2
    assert "dvc repro" in run.stderr
    assert not (fresh.root / "data/corpus").exists()
