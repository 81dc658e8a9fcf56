"""The data manifest says of each row what it is, and nothing of its text."""

from __future__ import annotations

import pytest
import zstandard

from oresmith.errors import OresmithError
from oresmith.evaluation.engines.model import ids_sha256
from oresmith.training.manifest import ROWS_FILE, read_rows, row_line, write_rows
from oresmith.training.rows import TrainingRow, rows_sha256


def row(number, **more):
    own = {"row_id": f"r{number}", "turn": 2, "origin": "corpus", "problem": f"p{number % 2}", "cluster": "c"}
    own |= {"category": "shop", "ids": [1, 2, 3 + number], "mask": [0, 1, 1]}
    return TrainingRow(**(own | more))


def test_rows_come_back_as_they_were_written_in_their_order(tmp_path):
    rows = [row(2), row(0), row(1, origin="teacher", category="voucher"), row(0)]
    told = write_rows(rows, tmp_path)
    assert list(read_rows(tmp_path)) == [row_line(one) for one in rows]
    assert told == {
        "rows": 4,
        "tokens": 12,
        "supervised": 8,
        "problems": 2,
        "clusters": 1,
        "origins": {"corpus": 3, "teacher": 1},
        "categories": {"shop": 3, "voucher": 1},
        "sha256": rows_sha256(rows),
    }


def test_a_line_names_the_ids_by_their_hash_and_holds_none(tmp_path):
    write_rows([row(7)], tmp_path)
    (line,) = read_rows(tmp_path)
    assert line.ids_sha256 == ids_sha256([1, 2, 10])
    assert (line.tokens, line.supervised) == (3, 2)
    assert "ids" not in line.__struct_fields__


def test_the_same_rows_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_rows([row(n) for n in range(3)], tmp_path / name)
    assert (tmp_path / "a" / ROWS_FILE).read_bytes() == (tmp_path / "b" / ROWS_FILE).read_bytes()


@pytest.mark.parametrize("content", [b"{}\n", b'{"row_id": 1}\n', b"[\n", b"\xff\n"])
def test_a_file_that_is_no_manifest_is_refused_by_its_line(tmp_path, content):
    (tmp_path / ROWS_FILE).write_bytes(zstandard.compress(content))
    with pytest.raises(OresmithError, match=rf"{ROWS_FILE}:1: a data manifest cannot be read"):
        list(read_rows(tmp_path))


def test_a_manifest_that_is_cut_off_is_refused(tmp_path):
    write_rows([row(n) for n in range(50)], tmp_path)
    path = tmp_path / ROWS_FILE
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(OresmithError, match=r"cannot be read"):
        list(read_rows(tmp_path))
