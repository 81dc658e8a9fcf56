"""Croissant's rule: what happened to the rows decides the least version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.validation.versions import (
    RowChanges,
    RowKey,
    VersionStep,
    least_version,
    newest_release,
    parse_version,
    read_keys,
    row_changes,
    version_step,
)

ROWS = [RowKey("sft", name, pool, f"hash-{name}", "a.parquet") for name, pool in (("1", "train"), ("2", "dev"))]
HEADER = "row_id\tconfig\tshard\trow_sha256\tproblem\tcluster\tpool\n"

rows = st.dictionaries(
    st.tuples(st.sampled_from(["sft", "kto"]), st.text("abc", min_size=1, max_size=2)),
    st.tuples(st.sampled_from(["train", "dev"]), st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"])),
    max_size=6,
).map(lambda found: [RowKey(*name, *value) for name, value in found.items()])


def changed(**new: str) -> RowChanges:
    return row_changes(ROWS, [ROWS[0]._replace(**new), ROWS[1]])


def test_each_change_is_called_by_its_name() -> None:
    assert row_changes(ROWS, ROWS) == RowChanges()
    assert row_changes(ROWS[:1], ROWS).added == (("sft", "2"),)
    assert row_changes(ROWS, ROWS[:1]).removed == (("sft", "2"),)
    assert changed(row_sha256="other").edited == (("sft", "1"),)
    assert changed(pool="heldout@2026-05-02").moved == (("sft", "1"),)


def test_a_row_in_another_file_is_the_same_row() -> None:
    assert changed(shard="b.parquet") == RowChanges()


def test_a_row_moved_and_edited_is_moved_once() -> None:
    changes = changed(pool="dev", row_sha256="other")
    assert changes.counts() == {"added": 0, "removed": 0, "edited": 0, "moved": 1}


def test_a_row_that_changes_its_config_is_removed_from_the_first() -> None:
    changes = changed(config="rejects")
    assert (changes.removed, changes.added) == ((("sft", "1"),), (("rejects", "1"),))


@pytest.mark.parametrize(
    ("changes", "reserialised", "least"),
    [
        (RowChanges(), False, "1.2.3"),
        (RowChanges(), True, "1.2.4"),
        (RowChanges(added=(("sft", "1"),)), True, "1.3.0"),
        (RowChanges(added=(("sft", "1"),), edited=(("sft", "2"),)), True, "2.0.0"),
        (RowChanges(removed=(("sft", "1"),)), False, "2.0.0"),
        (RowChanges(moved=(("sft", "1"),)), False, "2.0.0"),
    ],
)
def test_the_least_version_follows_the_gravest_change(changes: RowChanges, reserialised: bool, least: str) -> None:
    assert least_version("1.2.3", changes, reserialised) == least


@given(rows, rows, st.booleans())
def test_earlier_rows_are_all_found_again_unless_the_version_is_major(
    old: list[RowKey], new: list[RowKey], reserialised: bool
) -> None:
    least = least_version("0.4.1", row_changes(old, new), reserialised)
    content = {(row.config, row.row_id, row.pool, row.row_sha256) for row in new}
    kept = all((row.config, row.row_id, row.pool, row.row_sha256) in content for row in old)
    grown = len(new) > len(old)
    assert least == ("1.0.0" if not kept else "0.5.0" if grown else "0.4.2" if reserialised else "0.4.1")


@given(rows)
def test_the_order_of_rows_changes_nothing(found: list[RowKey]) -> None:
    assert row_changes(found, found[::-1]) == RowChanges()


def test_a_row_that_stands_twice_is_refused() -> None:
    with pytest.raises(OresmithError, match="stands twice"):
        row_changes(ROWS, [*ROWS, ROWS[0]])


@pytest.mark.parametrize(
    "text", ["1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-rc1", "1.2.3+b", " 1.2.3", "1.2.٣", "1.2.3\n"]
)
def test_what_is_no_plain_version_is_refused(text: str) -> None:
    with pytest.raises(OresmithError, match="not a release version"):
        parse_version(text)


def release(root: Path, version: str, place: str = "keys.tsv") -> Path:
    path = root / version / place
    path.parent.mkdir(parents=True)
    path.write_text(HEADER)
    return path


def test_the_newest_release_is_newest_by_number_and_may_be_bounded(tmp_path: Path) -> None:
    release(tmp_path, "0.9.0")
    newest = release(tmp_path, "0.10.0", "certificate/keys.tsv")
    (tmp_path / "notes").mkdir()
    found = newest_release(tmp_path)
    assert found is not None
    assert found == ("0.10.0", newest)
    bounded = newest_release(tmp_path, before="0.10.0")
    assert bounded is not None
    assert bounded.version == "0.9.0"


def test_without_an_earlier_release_there_is_nothing_to_compare(tmp_path: Path) -> None:
    assert newest_release(tmp_path / "releases") is None
    release(tmp_path, "0.1.0")
    assert newest_release(tmp_path, before="0.1.0") is None


def test_a_release_without_its_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0.1.0").mkdir()
    with pytest.raises(OresmithError, match="no list of its rows"):
        newest_release(tmp_path)


def test_columns_are_read_by_name(tmp_path: Path) -> None:
    path = tmp_path / "keys.tsv"
    path.write_text(HEADER + "1\tsft\ta.parquet\tff\tp\tc\ttrain\n")
    assert list(read_keys(path)) == [RowKey("sft", "1", "train", "ff", "a.parquet")]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "columns are missing"),
        ("row_id\tconfig\n", "columns are missing"),
        (HEADER + "1\tsft\n", "keys.tsv:2: a line is damaged"),
        (HEADER + "1\tsft\ta\tff\tp\tc\ttrain", "without its end"),
        (HEADER + "1\tsft\ta\tff\tp\tc\ttrain\x85dev\tx\n", "keys.tsv:2: a line is damaged"),
    ],
)
def test_a_damaged_list_is_refused_with_its_line(tmp_path: Path, content: str, fault: str) -> None:
    path = tmp_path / "keys.tsv"
    path.write_text(content)
    with pytest.raises(OresmithError, match=fault):
        list(read_keys(path))


def test_a_list_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.tsv"
    path.write_bytes(HEADER.encode() + b"\xff\xfe\n")
    with pytest.raises(OresmithError, match="cannot be read"):
        list(read_keys(path))


def certified(folder: Path, version: str, files: dict[str, str], rows: list[str]) -> Path:
    folder.mkdir(parents=True)
    entries = [{"path": path, "sha256": sha256, "rows": 1} for path, sha256 in files.items()]
    (folder / "certificate.json").write_text(json.dumps({"release": version, "files": entries}))
    (folder / "keys.tsv").write_text(HEADER + "".join(f"{row}\tsft\ta.parquet\tff\tp\tc\ttrain\n" for row in rows))
    return folder


def test_a_corpus_is_compared_with_the_newest_release_before_its_own(tmp_path: Path) -> None:
    releases = tmp_path / "releases"
    certified(releases / "0.1.0" / "certificate", "0.1.0", {"a.parquet": "1"}, ["r1"])
    certified(releases / "0.2.0" / "certificate", "0.2.0", {"a.parquet": "1"}, ["r1", "r2", "r3"])
    new = certified(tmp_path / "new", "0.2.0", {"a.parquet": "1", "b.parquet": "2"}, ["r1", "r2"])
    counts = {"added": 1, "removed": 0, "edited": 0, "moved": 0}
    assert version_step(releases, new) == VersionStep("0.1.0", counts, True, "0.2.0")


def test_the_same_rows_in_other_bytes_are_a_patch(tmp_path: Path) -> None:
    releases = tmp_path / "releases"
    certified(releases / "0.1.0", "0.1.0", {"a.parquet": "1"}, ["r1"])
    same = certified(tmp_path / "same", "0.2.0", {"a.parquet": "1"}, ["r1"])
    other = certified(tmp_path / "other", "0.2.0", {"a.parquet": "2"}, ["r1"])
    assert version_step(releases, same).least == "0.1.0"
    assert version_step(releases, other).least == "0.1.1"


def test_before_the_first_release_any_version_may_be_chosen(tmp_path: Path) -> None:
    new = certified(tmp_path / "new", "0.1.0", {}, [])
    assert version_step(tmp_path / "releases", new) == VersionStep(None, {}, False, None)


def test_a_damaged_certificate_is_refused(tmp_path: Path) -> None:
    new = certified(tmp_path / "new", "0.1.0", {}, [])
    (new / "certificate.json").write_text("[]")
    with pytest.raises(OresmithError, match="certificate cannot be read"):
        version_step(tmp_path, new)
