"""Parquet files: bounded by bytes, the same bytes for the same rows, readable by everyone, JSON exactly as written."""

from __future__ import annotations

import hashlib
import json
import random

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.corpus.rows import row_bytes
from oresmith.corpus.shards import Layout, SplitFiles, corpus_files, place_parts
from oresmith.errors import OresmithError
from oresmith.lines.streams import ZSTD_MAGIC
from schemas.corpus import CONFIGS, arrow_schema

WIDE = Layout(100_000_000, 500_000_000)


def sft(number, size=100):
    messages = [
        {"role": "user", "content": f"{number}"},
        {"role": "assistant", "content": "x" * size, "tool_calls": [{"function": {"arguments": '{"q":"a"}'}}]},
    ]
    return {
        "row_id": f"{number:064x}",
        "messages": [msgspec.json.encode(message) for message in messages],
        "tools": b'[{"type":"function","function":{"name":"t","parameters":{}}}]',
    }


def write(folder, rows, layout=WIDE, stem="train-000-s-00000"):
    with SplitFiles(folder, "sft", stem, layout) as files:
        for row in rows:
            files.add(row)
    return sorted(folder.glob("*.parquet")) if folder.exists() else []


def test_row_groups_and_files_are_bounded_by_bytes(tmp_path):
    rows = [sft(number, size=1000) for number in range(100)]
    size = row_bytes(rows[0])
    paths = write(tmp_path, rows, Layout(row_group_bytes=10 * size, shard_bytes=35 * size))
    groups = [[m.row_group(g).num_rows for g in range(m.num_row_groups)] for m in map(pq.read_metadata, paths)]
    assert sum(map(sum, groups)) == 100
    assert all(max(found) <= 10 and sum(found) <= 35 for found in groups)
    assert len(paths) == 3
    read = [row["row_id"] for path in paths for row in pq.read_table(path).to_pylist()]
    assert read == [row["row_id"] for row in rows]


def test_a_row_larger_than_a_row_group_stands_in_one_of_its_own(tmp_path):
    rows = [sft(0), sft(1, size=50_000), sft(2)]
    (path,) = write(tmp_path, rows, Layout(row_group_bytes=10_000, shard_bytes=1_000_000))
    found = pq.read_metadata(path)
    assert [found.row_group(group).num_rows for group in range(found.num_row_groups)] == [1, 1, 1]


def test_files_are_zstd_with_page_index_and_noted_chunking(tmp_path):
    (path,) = write(tmp_path, [sft(number) for number in range(10)])
    metadata = pq.read_metadata(path)
    columns = [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
    assert {column.compression for column in columns} == {"ZSTD"}
    assert all(column.has_offset_index and column.has_column_index for column in columns)
    assert json.loads(metadata.metadata[b"content_defined_chunking"])["min_chunk_size"] == 256 * 1024
    assert metadata.metadata[b"schema"] == b"oresmith.corpus/1"


def test_inserting_a_row_leaves_most_pages_as_they_were(tmp_path):
    rows = [sft(number, size=20_000 + number) for number in range(400)]
    rows = [row | {"messages": [*row["messages"][:1], noise(number)]} for number, row in enumerate(rows)]
    (before,) = write(tmp_path / "a", rows)
    (after,) = write(tmp_path / "b", [*rows[:200], sft(999), *rows[200:]])
    assert len(chunks(before) - chunks(after)) < len(chunks(before)) / 4


def noise(number):
    return json.dumps({"role": "assistant", "content": random.Random(number).randbytes(10_000).hex()}).encode()


def chunks(path):
    """Hashes of the pages of the messages: each page is a zstd frame of its own."""
    column = pq.read_metadata(path).row_group(0).column(1)
    raw = path.read_bytes()[column.data_page_offset : column.data_page_offset + column.total_compressed_size]
    return {hashlib.sha256(page).hexdigest() for page in raw.split(ZSTD_MAGIC) if len(page) > 1000}


def test_no_rows_make_no_file(tmp_path):
    assert write(tmp_path / "none", []) == []


def test_a_row_of_other_columns_is_refused(tmp_path):
    with pytest.raises(OresmithError, match="tools"), SplitFiles(tmp_path, "sft", "train-000-s-00000", WIDE) as files:
        files.add({"row_id": "a", "messages": []})


def test_parts_are_numbered_in_the_order_of_their_shards_for_each_snapshot(tmp_path):
    for stem, number in (("train-001-b-00000", 3), ("train-000-a-00001", 2), ("train-000-a-00000", 1)):
        write(tmp_path / "parts" / "sft", [sft(number)], stem=stem)
    (tmp_path / "corpus").mkdir()
    place_parts(tmp_path / "parts", tmp_path / "corpus")
    files = corpus_files(tmp_path / "corpus", CONFIGS)
    assert [file.path.name for file in files] == [
        "train-000-a-00000.parquet",
        "train-000-a-00001.parquet",
        "train-001-b-00000.parquet",
    ]
    numbers = [int(row["row_id"], 16) for file in files for row in pq.read_table(file.path).to_pylist()]
    assert numbers == [1, 2, 3]


def test_other_readers_see_json_as_text(tmp_path):
    rows = [sft(number) for number in range(3)]
    (path,) = write(tmp_path, rows)
    expected = [text.decode() for text in rows[1]["messages"]]
    assert pl.read_parquet(path)["messages"].to_list()[1] == expected
    found = duckdb.sql(f"select messages, tools from read_parquet('{path}')").fetchall()
    assert [str(text) for text in found[1][0]] == expected


texts = st.text(st.characters(codec="utf-8"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.dictionaries(texts, values, max_size=4), max_size=4), min_size=1, max_size=6))
def test_any_dialogue_comes_back_as_it_was_written(tmp_path_factory, dialogues):
    folder = tmp_path_factory.mktemp("any")
    rows = [
        {"row_id": str(n), "messages": [msgspec.json.encode(m) for m in messages], "tools": b"[]"}
        for n, messages in enumerate(dialogues)
    ]
    (path,) = write(folder, rows)
    read = pq.read_table(path).to_pylist()
    assert [[json.loads(text) for text in row["messages"]] for row in read] == dialogues


@pytest.mark.parametrize("config", CONFIGS)
def test_the_schema_names_the_features_that_datasets_would_write_itself(config):
    import datasets

    schema = arrow_schema(config)
    features = datasets.Features.from_arrow_schema(schema)
    assert features.arrow_schema.metadata[b"huggingface"] == schema.metadata[b"huggingface"]
    assert features.arrow_schema.remove_metadata() == schema.remove_metadata()
    assert not any(isinstance(field.type, pa.StructType) for field in schema)
