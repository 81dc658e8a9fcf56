"""`datasets.load_dataset` reads every config of the corpus offline, whole and streaming, exactly as it was written."""

from __future__ import annotations

import json
import os

import pytest
import yaml

from schemas.corpus import CONFIGS
from tests.corpus.build import add_world, build_corpus, build_tables, cases, published
from tests.pipeline.project import Project
from tests.worlds import make_world

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
JSON_COLUMNS = {"messages", "prompt", "completion", "tools"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two snapshots, so that splits have several files, and each pool has problems."""
    project = Project(tmp_path_factory.mktemp("load"))
    world = make_world(9, problems=12)
    for seed, name in enumerate(("one", "two")):
        add_world(project, name, world, cases(world, 4 * seed))
    project.write_params(evidence={"tokenizer": "none"})
    project.run("snapshots", "normalize", "evidence", "gate")
    places: dict[str, int] = {}

    def pool(problem):
        place = places.setdefault(problem.problem_id, len(places))
        dates = {"held_out": f"2026-05-0{1 + place // 6}"} if place % 4 == 3 else {}
        return {"pool": ("train", "train", "dev", "heldout")[place % 4]} | dates

    build_tables(project.root, ["one", "two"], pool)
    build_corpus(project)
    return project


def configs(project):
    front = (project.root / "data/corpus/README.md").read_text().split("---\n")[1]
    found = yaml.safe_load(front)["configs"]
    return {config["config_name"]: [entry["split"] for entry in config["data_files"]] for config in found}


def load(project, config, cache, **how):
    import datasets

    return datasets.load_dataset(str(project.root / "data/corpus"), config, cache_dir=str(cache), **how)


def expected(project, config, split):
    """Rows as Python objects: JSON columns decoded by the standard library."""
    rows = []
    for row in published(project, config):
        if row.pop("split") == split:
            for name in JSON_COLUMNS & row.keys():
                value = row[name]
                row[name] = [json.loads(text) for text in value] if isinstance(value, list) else json.loads(value)
            rows.append(row)
    return rows


def test_the_front_matter_names_every_config_that_has_rows(corpus):
    assert list(configs(corpus)) == list(CONFIGS)
    assert configs(corpus)["heldout"] == ["heldout_2026_05_01", "heldout_2026_05_02"]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_config_loads_whole_and_streaming_with_equal_rows(corpus, config, tmp_path):
    whole = load(corpus, config, tmp_path)
    streamed = load(corpus, config, tmp_path, streaming=True)
    assert list(whole) == list(streamed) == configs(corpus)[config]
    for split in whole:
        rows = expected(corpus, config, split)
        assert rows
        assert list(whole[split]) == rows
        assert list(streamed[split]) == rows
        assert whole[split].column_names == list(CONFIGS[config])


def test_no_call_has_an_argument_that_its_agent_did_not_write(corpus, tmp_path):
    for row in load(corpus, "sft", tmp_path, split="train"):
        calls = [call["function"] for message in row["messages"] for call in message.get("tool_calls", [])]
        assert {call["name"] for call in calls} >= {"find_product", "recommend_product"}
        for call in calls:
            arguments = json.loads(call["arguments"])
            assert None not in arguments.values()
            assert set(arguments) <= {"q", "page", "shop_id", "price", "sort", "service", "product_ids", "status"}


def test_rewards_come_back_to_the_last_digit(corpus, tmp_path):
    numbers = make_world(9, problems=12).problems
    for row in load(corpus, "grpo", tmp_path, split="train"):
        assert json.loads(row["reward"]) == numbers[row["problem_id"]]["reward"]
        assert json.loads(row["voucher"] or "null") == numbers[row["problem_id"]]["voucher"]


def test_a_slice_can_be_asked_for(corpus, tmp_path):
    first = load(corpus, "trajectories", tmp_path, split="train[:1]")
    assert first.num_rows == 1
