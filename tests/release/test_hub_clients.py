"""The real clients find in the embedded Hub what they expect of the Hub."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.release.hub_world import READER, STRANGER, World, hub_at, run_client


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hub_at(tmp_path_factory.mktemp("clients") / "hub") as world:
        yield world


def test_a_repository_lives_its_whole_life_through_huggingface_hub(hub: World, tmp_path: Path) -> None:
    files = ["data/train-0.parquet", "data/train-1.parquet", "data/train-2.parquet", 'notes é "x".txt', "small.json"]
    assert run_client(hub, tmp_path, "life") == {
        "who": "alice",
        "orgs": ["acme"],
        "again": True,
        "tree": sorted([".gitattributes", "README.md", *files]),
        "lfs": files[:3],
        "titles": ["Release", "initial commit"],
        "stale": 412,
        "tag again": 409,
        "tag": [True],
        "branches": ["main", "staging/1.0.0"],
        "info": [True, True, "mit", ["agents"]],
        "sizes": True,
        "paths": ["small.json"],
        "history": ["Release", "initial commit"],
        "same": True,
        "ranged": True,
    }
    assert run_client(hub, tmp_path, "end") == {
        "public": True,
        "after": [".gitattributes", "README.md", 'notes é "x".txt', "small.json"],
        "kept": 7,
        "untagged": 404,
        "main": 403,
        "gone": 404,
    }


def test_a_collection_lives_its_whole_life_through_huggingface_hub(hub: World, tmp_path: Path) -> None:
    assert run_client(hub, tmp_path, "collection") == {
        "same": True,
        "items": [["acme/member", "dataset", "the data"]],
        "note": "new",
        "listed": [True],
        "title": "Other",
        "empty": True,
        "gone": 404,
    }


def test_a_token_that_reads_only_and_one_of_somebody_else_are_refused_as_on_the_hub(hub: World, tmp_path: Path) -> None:
    hub.create("hidden", private=True)
    hub.create("open")
    refused = {"check": 403, "create": 403, "commit": 403, "tag": 403, "show": 403}
    assert run_client(hub, tmp_path, "rights", by=READER) == {"see": None, **refused}
    assert run_client(hub, tmp_path, "rights", by=STRANGER) == refused | {"see": 404, "check": 404, "show": 404}


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="the extra `data` is not installed")
def test_load_dataset_gives_each_config_by_tag_also_streamed(hub: World, tmp_path: Path) -> None:
    said = run_client(hub, tmp_path, "rows")
    assert said == {"sft": [1, 2, 3], "kto": [4, 5], "streamed": [1, 2, 3], "main": [9]}


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "transformers"))), reason="the extra `train` is not installed"
)
def test_from_pretrained_gives_the_same_weights_and_tokenizer_by_tag(hub: World, tmp_path: Path) -> None:
    assert run_client(hub, tmp_path, "weights") == {"same": True, "ids": [1, 2, 0]}


def test_a_tree_of_several_pages_arrives_whole(hub: World, tmp_path: Path) -> None:
    assert run_client(hub, tmp_path, "many") == {"entries": 2102, "commits": 2}


def test_a_file_that_comes_in_parts_is_the_same_file(hub: World, tmp_path: Path) -> None:
    assert run_client(hub, tmp_path, "parts") == {"same": True}
    assert "/parts/" in hub.log()
