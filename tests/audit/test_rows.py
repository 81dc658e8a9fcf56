"""A row's hash can be made again by anyone, from the Parquet file alone, however that file was written."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.audit import tsv
from oresmith.audit.rows import Shard, canonical_row, shard_rows, shards
from oresmith.audit.verify_certificate import WrongError, parquet_rows
from oresmith.errors import OresmithError

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
reals = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | reals | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


def documented(row: dict[str, Any]) -> bytes:
    """The encoding as docs/certificate.md gives it."""
    stated = {name: value for name, value in row.items() if value is not None}
    return json.dumps(stated, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


@given(st.dictionaries(texts, values, max_size=5))
def test_the_canonical_form_is_what_the_standard_library_writes(row: dict[str, Any]) -> None:
    assert canonical_row(row) == documented(row)


def test_numbers_at_which_json_writers_differ_are_written_one_way() -> None:
    row = {"a": 1e16, "b": 1e-7, "c": [1e22, 0.1], "d": -0.0, "e": 5e-324, "f": 1.0}
    assert canonical_row(row) == documented(row)


def test_a_column_that_is_null_is_as_good_as_one_that_is_not_there() -> None:
    assert canonical_row({"a": 1, "b": None}) == canonical_row({"a": 1})
    assert canonical_row({"a": [None]}) != canonical_row({"a": []})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1: 2}])
def test_what_json_cannot_carry_is_refused(value: Any) -> None:
    with pytest.raises(OresmithError, match="canonical form"):
        canonical_row({"a": value})


def write(folder: Path, table: pa.Table, **options: Any) -> Shard:
    path = folder / "sft" / "train-000-s-00000.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return Shard("sft", "train", "sft/train-000-s-00000.parquet", path)


def table() -> pa.Table:
    messages = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": [1.0]}', '{"b":"é"}', "null"]))
    columns = {"row_id": ["a", "b", "c"], "real": [0.1, None, 1e22], "texts": [["x"], [], None]}
    arrays = {name: pa.array(column) for name, column in columns.items()}
    return pa.table(arrays | {"messages": pa.ListArray.from_arrays([0, 2, 2, 3], messages)})


def test_a_rows_hash_follows_from_its_stored_values_and_json_is_the_stored_text(tmp_path: Path) -> None:
    rows = list(shard_rows(write(tmp_path, table())))
    expected = {"row_id": "a", "real": 0.1, "texts": ["x"], "messages": ['{"a": [1.0]}', '{"b":"é"}']}
    assert rows[0].sha256 == hashlib.sha256(documented(expected)).hexdigest()
    assert rows[1].sha256 == hashlib.sha256(b'{"messages":[],"row_id":"b","texts":[]}').hexdigest()
    assert [row.number for row in rows] == [1, 2, 3]


def test_the_hashes_outlive_another_serialisation(tmp_path: Path) -> None:
    hashes = [row.sha256 for row in shard_rows(write(tmp_path, table()))]
    again = table().select(["texts", "messages", "row_id", "real"])
    shard = write(tmp_path, again, compression="gzip", row_group_size=1, use_dictionary=False, version="1.0")
    assert [row.sha256 for row in shard_rows(shard)] == hashes


def test_a_damaged_file_is_refused_with_its_name(tmp_path: Path) -> None:
    shard = write(tmp_path, table())
    shard.path.write_bytes(shard.path.read_bytes()[:-9])
    with pytest.raises(OresmithError, match=r"train-000-s-00000\.parquet"):
        list(shard_rows(shard))


@pytest.mark.parametrize("name", ["x.parquet", "other/train-0.parquet", "sft/a/train-0.parquet", "sft/train.parquet"])
def test_a_data_file_outside_every_config_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(OresmithError, match="outside every config"):
        shards(tmp_path)


@settings(max_examples=25, deadline=None)
@given(count=st.integers(0, 40), columns=st.integers(1, 20), group=st.integers(1, 20), wide=st.booleans())
def test_the_verifier_reads_the_number_of_rows_from_any_footer(
    tmp_path_factory: pytest.TempPathFactory, count: int, columns: int, group: int, wide: bool
) -> None:
    kinds = [pa.bool_(), pa.decimal128(9, 2), pa.timestamp("us"), pa.list_(pa.json_()), pa.string()]
    schema = pa.schema([(f"c{place}", kinds[place % len(kinds)] if wide else pa.int64()) for place in range(columns)])
    path = tmp_path_factory.mktemp("footer") / "a.parquet"
    nulls = pa.Table.from_arrays([pa.nulls(count, field.type) for field in schema], schema=schema)
    pq.write_table(nulls, path, row_group_size=group, write_page_index=True)
    assert parquet_rows(path) == count


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_no_footer_makes_the_verifier_raise_anything_but_its_own_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "footer.parquet"
    for footer in (content, content + b"\x19" + b"\xf3\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x1c" * 5000 + content):
        path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
        with contextlib.suppress(WrongError):
            assert isinstance(parquet_rows(path), int)


@given(st.lists(st.text(alphabet=st.characters(), max_size=30), min_size=1, max_size=5))
def test_no_value_can_break_a_table(cells: list[str]) -> None:
    line = tsv.line(cells).decode()
    assert line.count("\n") == 1
    assert len(line.splitlines()) == 1
    assert [tsv.uncell(cell) for cell in line[:-1].split("\t")] == cells
