"""The commands of the arena: what they are given is used or refused, and what they write can be read."""

import json

import pytest
from typer.testing import CliRunner

from oresmith.arena.documents import read_documents
from oresmith.arena.server.scripted import read_script
from oresmith.arena.world import documents
from oresmith.cli import app
from oresmith.errors import OresmithError


def arena(*words):
    return CliRunner().invoke(app, ["arena", *map(str, words)])


def test_the_worlds_catalogue_can_be_had_as_a_file_and_indexed(tmp_path):
    done = arena("catalogue", "--out", tmp_path / "p.jsonl", "--seed", 3, "--products", 40)
    assert done.exit_code == 0, done.output
    assert list(read_documents(tmp_path / "p.jsonl")) == list(documents(3, 40))
    done = arena("index", "--out", tmp_path / "index", "--catalogue", tmp_path / "p.jsonl")
    assert done.exit_code == 0, done.output
    assert "40 products" in done.output


@pytest.mark.parametrize("more", [["--seed", 3], ["--products", 10], ["--catalogue", "p.jsonl"]])
def test_an_index_with_another_world_beside_it_is_refused(tmp_path, more):
    done = arena("serve", "--log", tmp_path / "w.jsonl", "--index", tmp_path, *more)
    assert isinstance(done.exception, OresmithError)
    assert "--index" in done.exception.where


def test_a_catalogue_has_the_products_that_it_has(tmp_path):
    done = arena("index", "--out", tmp_path / "index", "--catalogue", tmp_path / "p.jsonl", "--products", 10)
    assert isinstance(done.exception, OresmithError)
    assert "--products" in done.exception.where


def test_a_script_answers_in_turn_and_one_that_is_none_is_refused(tmp_path):
    (tmp_path / "script.json").write_text(json.dumps(["first", "second"]))
    policy = read_script(tmp_path / "script.json")
    spoken = [{"role": "assistant", "content": "first"}]
    assert [policy({"messages": said}) for said in ([], spoken, spoken * 2)] == ["first", "second", "second"]
    for text in ("[]", "[1]", "{}", "no json"):
        (tmp_path / "script.json").write_text(text)
        with pytest.raises(OresmithError, match="script"):
            read_script(tmp_path / "script.json")
    with pytest.raises(OresmithError, match=r"none\.json"):
        read_script(tmp_path / "none.json")
