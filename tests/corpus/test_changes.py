"""The same bytes whatever the workers, older files untouched by new snapshots, and what parameters and pools change."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from oresmith.corpus.guard import gold_key
from oresmith.corpus.rows import row_bytes
from schemas.corpus import CONFIGS, TRAJECTORIES
from tests.corpus.build import add_world, assign, build_corpus, cases, published, records
from tests.pipeline.project import Project
from tests.worlds import atif_document, honest


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
    assign(fresh, ["one"], lambda place: {"pool": "train", "cluster": "c" * 64})
    fresh.write_params(corpus={"cap_per_cluster": 5})
    report = build_corpus(fresh)
    assert (report.trajectories, report.reasons) == (5, {"over_cluster_cap": 7})
    over = [row for row in published(fresh, "rejects") if row["stage"] == "corpus"]
    ranks = sorted(json.loads(row["evidence"])["cluster_rank"] for row in over)
    assert ranks == list(range(6, 13))
    undesirable = [row for row in published(fresh, "kto") if not row["label"]]
    assert len(undesirable) == 5


def test_a_row_longer_than_the_limit_is_a_counted_reject(fresh):
    assign(fresh, ["one"], lambda place: {"pool": "train"})
    build_corpus(fresh)
    sizes = sorted(row_bytes({name: row[name] for name in TRAJECTORIES}) for row in published(fresh, "trajectories"))
    limit = sizes[7]
    fresh.write_params(corpus={"max_row_bytes": limit})
    assert build_corpus(fresh).reasons == {"row_too_large": 4}
    rejects = [row for row in published(fresh, "rejects") if row["stage"] == "corpus"]
    assert sorted(json.loads(row["evidence"])["row_bytes"] for row in rejects) == sizes[8:]


def hold_out(project, key):
    """All problems are train but one, which is held out and has this gold product."""

    def chosen(place):
        return {"pool": "heldout", "gold_keys": [key]} if place == 9 else {"pool": "train"}

    assign(project, ["one"], chosen)


def test_recommending_the_gold_of_a_heldout_problem_rejects_a_row_from_every_config(fresh, world):
    first = next(iter(world.problems.values()))
    gold = world.golds(first)[0]["product_id"]
    hold_out(fresh, gold_key(gold))
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
    hold_out(fresh, gold_key(viewed[0]))
    report = build_corpus(fresh)
    flags = {row["row_id"]: row["viewed_heldout_gold"] for row in published(fresh, "trajectories")}
    assert flags[record.trajectory_id] is True
    assert not all(flags.values())
    fresh.write_params(corpus={"heldout_gold_viewed": "reject"})
    strict = build_corpus(fresh)
    assert strict.reasons["heldout_gold"] - report.reasons.get("heldout_gold", 0) == sum(flags.values())


def test_an_allowed_benchmark_is_published_with_a_flag(fresh):
    def allowed(place):
        return {"pool": "benchmark:suite", "benchmarks": ["suite"], "trainable": True, "flagged": True}

    assign(fresh, ["one"], allowed)
    build_corpus(fresh)
    rows = published(fresh, "trajectories")
    assert len(rows) == 12
    assert {(row["split"], row["pool"], row["benchmark_flag"]) for row in rows} == {("train", "benchmark:suite", True)}
    assert all(row["benchmark_flag"] for row in published(fresh, "grpo"))


def test_a_corpus_without_train_rows_says_why_and_ends_well(fresh):
    assign(fresh, ["one"], lambda place: {"pool": "benchmark:suite", "benchmarks": ["suite"]})
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
    assign(project, ["one"], lambda place: {"pool": "train"})
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
