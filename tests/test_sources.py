"""A source is frozen whole, by names of ours, with hashes; its declaration is checked before any file is read."""

import os

import pytest
import yaml

from oresmith.declaration import read_declaration
from oresmith.errors import SnapshotError
from oresmith.param_data import Snapshot
from oresmith.sources import freeze, open_source

DECLARED = {
    "source": "s",
    "licence": "CC-BY-4.0",
    "time_range": {"from": "2026-05-01T00:00:00Z", "to": "2026-05-02T00:00:00Z"},
    "patterns": ["traces/**"],
}


@pytest.fixture
def source(tmp_path):
    root = tmp_path / "source"
    (root / "traces" / "deep").mkdir(parents=True)
    (root / "traces" / "b.jsonl").write_text("{}\n")
    (root / "traces" / "deep" / "a.jsonl.gz").write_bytes(b"x")
    (root / "provenance.yaml").write_text(yaml.safe_dump(DECLARED))
    return root


def frozen(source, target, **entry):
    target.mkdir()
    made = Snapshot(name="s", path=str(source), provenance=str(source / "provenance.yaml"), **entry)
    return freeze(made, open_source(made, target), target)


def test_files_keep_their_names_as_data_and_get_names_of_ours(source, tmp_path):
    (source / "traces" / "x\n$(x).jsonl").write_text("{}\n")
    found = frozen(source, tmp_path / "out")
    assert [file.file for file in found.files] == ["traces/b.jsonl", "traces/deep/a.jsonl.gz", "traces/x\n$(x).jsonl"]
    assert [file.stored for file in found.files] == ["files/00000.jsonl", "files/00001.jsonl.gz", "files/00002.jsonl"]


def test_the_pin_is_of_content_and_declaration_alone(source, tmp_path):
    first = frozen(source, tmp_path / "one")
    os.utime(source / "traces" / "b.jsonl", (1, 1))
    assert frozen(source, tmp_path / "two", sha256=first.tree_sha256) == first
    (source / "traces" / "b.jsonl").write_text("{} \n")
    with pytest.raises(SnapshotError, match="pinned"):
        frozen(source, tmp_path / "three", sha256=first.tree_sha256)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"licence": None}, "wrong"),
        ({"licens": "x"}, "licens"),
        ({"files": {"traces/b.jsonl": {"agent": "x"}}}, "agent"),
        ({"files": {"traces/b.jsonl": {"miner": "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty"}}}, "keyed hash"),
        ({"files": {"traces/none.jsonl": {}}}, "not there"),
        ({"problems": "none.jsonl"}, "does not exist"),
        ({"patterns": ["*.parquet"]}, "empty"),
    ],
)
def test_a_wrong_declaration_is_refused(source, tmp_path, changes, words):
    (source / "provenance.yaml").write_text(yaml.safe_dump(DECLARED | changes))
    with pytest.raises(SnapshotError) as refused:
        frozen(source, tmp_path / "out")
    assert words in str(refused.value)


def test_a_time_stays_the_text_that_was_written(source):
    (source / "provenance.yaml").write_text(
        "source: s\nlicence: x\ntime_range: {from: 2026-05-01T00:00:00Z, to: 2026-05-02}\n"
    )
    declared = read_declaration(source / "provenance.yaml")
    assert (declared.time_range.start, declared.time_range.end) == ("2026-05-01T00:00:00Z", "2026-05-02")
