"""Source `arena`: same entry, same bytes; what cannot be played is refused before anything is."""

import hashlib
import json

import msgspec
import pytest
import yaml
import zstandard

from oresmith.declaration import read_declaration
from oresmith.errors import OresmithError
from oresmith.param_data import Snapshot
from oresmith.recording import plan, record
from oresmith.sources import freeze, open_source
from tests.pipeline.project import Project

SUITE = {
    "schema": "oresmith.suite/1",
    "suite": "small",
    "version": 1,
    "counts": {
        "product": {"L1": 3, "L2": 2, "L3": 0, "L4": 0, "L5": 0},
        "shop": {"L1": 1, "L2": 0, "L3": 0, "L4": 0, "L5": 0},
        "voucher": {"L1": 2, "L2": 0, "L3": 0, "L4": 0, "L5": 0},
    },
    "variants": {"paraphrase": 1, "gold": 1},
}
MINERS = {"expert": 1, "quick": 1, "searcher": 1, "forger": 1, "leaker": 2}


def arena(folder, **changes):
    """The directory of an arena, and an entry that plays in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.yaml").write_text(yaml.safe_dump(SUITE))
    hidden = SUITE | {"suite": "hidden", "pool": "heldout", "variants_of": "small.yaml", "variants": {"order": 2}}
    (folder / "hidden.yaml").write_text(yaml.safe_dump(hidden))
    (folder / "provenance.yaml").write_text(yaml.safe_dump({"source": "test-arena", "licence": "Apache-2.0"}))
    entry = {
        "name": "day-1",
        "source": "arena",
        "path": str(folder),
        "provenance": str(folder / "provenance.yaml"),
        "suite": "small",
        "seed": 7,
        "products": 2500,
        "day": "2026-06-01",
        "days": 1,
        "miners": MINERS,
    }
    return Snapshot(**(entry | changes))


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def packed(path):
    with path.open("rb") as raw:
        return zstandard.ZstdDecompressor().stream_reader(raw).read().splitlines()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return tmp_path_factory.mktemp("arena")


@pytest.fixture(scope="module")
def made(world):
    entry = arena(world / "a", witness=True)
    return record(entry, world / "made", workers=1, scratch=world / "scratch")


def test_the_same_entry_gives_the_same_bytes_whatever_the_workers_and_the_place(world, made):
    again = record(arena(world / "b", witness=True), world / "again", workers=2, scratch=world / "other")
    assert tree(again) == tree(made)


def test_what_is_recorded_is_a_source_like_any_other_with_every_line_in_the_truth(made, tmp_path):
    declared = read_declaration(made / "provenance.yaml")
    assert (declared.problems, declared.truth) == ("problems.jsonl", "truth.jsonl")
    assert declared.witness == "witness.jsonl.zst"
    truth = [json.loads(line) for line in (made / "truth.jsonl").read_text().splitlines()]
    places = {(row["file"], row["line"]) for row in truth if row["kind"] == "trajectory"}
    lines = {
        (f"traces/{path.name}", number)
        for path in (made / "traces").iterdir()
        for number in range(1, len(packed(path)) + 1)
    }
    assert places == lines
    assert {name for name, _ in lines} == set(declared.files)
    problems = {json.loads(line)["problem_id"] for line in (made / "problems.jsonl").read_text().splitlines()}
    assert {row["problem_id"] for row in truth if row["kind"] == "problem"} == problems
    entry = Snapshot(name="x", path=str(made), provenance=str(made / "provenance.yaml"))
    (tmp_path / "frozen").mkdir()
    frozen = freeze(entry, open_source(entry, tmp_path), tmp_path / "frozen")
    assert frozen.truth is not None
    assert frozen.witness is not None
    assert {file.file for file in frozen.files} == set(declared.files)


def test_no_gold_product_and_no_family_stands_in_what_the_pipeline_reads(made):
    for path in (made / "traces").iterdir():
        for line in packed(path):
            assert b'"reward"' not in line
    text = (made / "provenance.yaml").read_text() + (made / "problems.jsonl").read_text()
    for family in MINERS:
        assert f'"{family}' not in text
        assert f" {family}-" not in text


def test_another_seed_shares_no_gold_product_and_no_query(world, made):
    other = record(arena(world / "c", seed=8), world / "seed", workers=1, scratch=world / "scratch-8")

    def stated(folder):
        rows = [json.loads(line) for line in (folder / "problems.jsonl").read_text().splitlines()]
        several = [row["reward"] if isinstance(row["reward"], list) else [row["reward"]] for row in rows]
        rewards = [one for rewards in several for one in rewards]
        return {one["product_id"] for one in rewards}, {row["query"] for row in rows}

    for ours, theirs in zip(stated(made), stated(other), strict=True):
        assert not ours & theirs


def test_a_later_day_is_another_race_of_the_same_agents(world):
    entry = arena(world / "d", days=2)
    runs = plan(entry, "here")
    first, second = runs[: len(runs) // 2], runs[len(runs) // 2 :]
    assert [run.agent for run in first] == [run.agent for run in second]
    assert not {run.run_id for run in first} & {run.run_id for run in second}
    assert not {run.file for run in first} & {run.file for run in second}
    assert {run.race_id for run in second} == {"race-2026-06-02"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"miners": {"wizard": 1}}, ["miners", "wizard", "expert"]),
        ({"suite": "none"}, ["none.yaml"]),
        ({"catalogue": "none.jsonl", "products": None}, ["none.jsonl"]),
        ({"products": 30}, ["catalogue"]),
        ({"catalogue": "../outside.jsonl", "products": None}, ["snapshot day-1", "outside.jsonl"]),
        ({"catalogue": "/dev/null", "products": None}, ["snapshot day-1", "/dev/null"]),
        ({"catalogue": "link.jsonl", "products": None}, ["snapshot day-1", "link.jsonl"]),
        ({"suite": "link"}, ["snapshot day-1", "link.yaml"]),
        ({"suite": "leads-out"}, ["snapshot day-1", "link.yaml"]),
        ({"day": "9999-12-31"}, ["snapshot day-1: day", "calendar"]),
        ({"day": "9999-12-30", "days": 3}, ["snapshot day-1: day", "calendar"]),
        ({"suite": "dated", "day": "2026-05-31"}, ["snapshot day-1: day", "from 2026-06-01 and before 2026-06-03"]),
        ({"suite": "dated", "day": "2026-06-02", "days": 2}, ["snapshot day-1: day", "2026-06-02 to 2026-06-03"]),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(tmp_path, changes, words):
    entry = arena(tmp_path / "arena", **changes)
    (tmp_path / "outside.jsonl").write_bytes(b"{}\n")
    (tmp_path / "outside.yaml").write_text(yaml.safe_dump(SUITE))
    for end in ("jsonl", "yaml"):
        (tmp_path / "arena" / f"link.{end}").symlink_to(tmp_path / f"outside.{end}")
    for name, more in (
        ("leads-out", {"variants_of": "link.yaml"}),
        ("dated", {"opens": "2026-06-01", "rotates": "2026-06-03"}),
    ):
        (tmp_path / "arena" / f"{name}.yaml").write_text(yaml.safe_dump(SUITE | {"suite": name} | more))
    with pytest.raises(OresmithError) as refused:
        record(entry, tmp_path / "made", workers=1, scratch=tmp_path / "scratch")
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("declared", [{"source": ""}, {"source": "a\x00b"}, {"licence": "x" * 5000}])
def test_a_provenance_file_that_cannot_be_handed_on_is_refused_by_its_own_name(tmp_path, declared):
    entry = arena(tmp_path / "arena")
    path = tmp_path / "arena" / "provenance.yaml"
    path.write_text(yaml.safe_dump({"source": "test-arena", "licence": "Apache-2.0"} | declared))
    with pytest.raises(OresmithError, match=r"arena/provenance\.yaml"):
        record(entry, tmp_path / "made", workers=1, scratch=tmp_path / "scratch")
    assert not (tmp_path / "made").exists()


def test_a_catalogue_from_outside_is_played_on_and_its_bad_lines_are_counted(world, made, tmp_path, capsys):
    entry = arena(tmp_path / "arena", products=None, catalogue="given.jsonl", miners={"expert": 1})
    entry = msgspec.structs.replace(entry, catalogue="gi\x1bven.jsonl")
    lines = [*packed(made / "catalogue.jsonl.zst"), b"{}", b"no json"]
    (tmp_path / "arena" / "gi\x1bven.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    record(entry, tmp_path / "made", workers=1, scratch=tmp_path / "scratch")
    assert packed(tmp_path / "made" / "catalogue.jsonl.zst") == lines[:-2]
    said = capsys.readouterr().out
    assert "2 lines rejected: not_a_product" in said
    assert "\x1b" not in said


def test_a_hidden_suite_wishes_its_pool_and_plants_variants(world):
    entry = arena(world / "e", suite="hidden", miners={"expert": 1})
    made = record(entry, world / "hidden", workers=1, scratch=world / "scratch-h")
    assert read_declaration(made / "provenance.yaml").pool == "heldout"
    rows = [json.loads(line) for line in (made / "truth.jsonl").read_text().splitlines()]
    planted = [row for row in rows if row.get("variant") == "order"]
    own = {row["problem_id"] for row in rows if row["kind"] == "problem"}
    assert len(planted) == 2
    assert not {row["cluster"] for row in planted} & own


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": None}, "snapshots[0].seed"),
        ({"products": None}, "snapshots[0].products"),
        ({"miners": {"expert": 0}}, "snapshots[0].miners"),
        ({"miners": {"expert": 1000}, "days": 30}, "snapshots[0].miners"),
        ({"day": "2026-13-01"}, "snapshots[0].day"),
        ({"pattern": "*"}, "snapshots[0].pattern"),
        ({"source": "files"}, "snapshots[0].suite"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused_by_its_key(tmp_path, change, words):
    project = Project(tmp_path)
    entry = msgspec.to_builtins(arena(tmp_path / "arena")) | change
    project.params["snapshots"] = [{key: value for key, value in entry.items() if value is not None}]
    project.write_params()
    done = project.stage("snapshots", "--name", "day-1")
    assert done.returncode == 2
    assert words in done.stderr
