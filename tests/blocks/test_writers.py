from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datatrove.data import Document

from oresmith.blocks.accounts import Accounts, check_accounts
from oresmith.blocks.execute import run_pipeline
from oresmith.blocks.writers import ParquetTableWriter, TrajectoryReader, TrajectoryWriter
from oresmith.errors import OresmithError
from oresmith.records import Format, Message, Source, ToolCall, Trajectory
from tests.blocks.files import inputs, row, tree, write
from tests.blocks.steps import OddProblems, normaliser

SCHEMA = pa.schema([("id", pa.string()), ("line", pa.int32()), ("notes", pa.list_(pa.string()))])


def trajectory(number: int) -> Trajectory:
    source = Source(snapshot="s", file="f", file_sha256="0", line=number, offset=7, length=9)
    call = ToolCall(id="call_0", name="find_product", arguments='{"q": "\\u00e9"}')
    return Trajectory(
        trajectory_id=f"t{number}",
        identity="i",
        content="c",
        source=source,
        format=Format.ATIF,
        messages=[Message(role="assistant", content="é\u2028\x7f", tool_calls=[call])],
        extra={"z": 1, "a": [1.5, None, {"y": 2**64 - 1}]},
    )


def documents(count: int) -> list[Document]:
    return [Document(text="t", id=str(n), metadata={"trajectory": trajectory(n)}) for n in range(count)]


def table_row(document: Any) -> dict[str, Any]:
    source = document.metadata["trajectory"].source
    return {"id": document.id, "line": source.line, "notes": ["x"] * (source.line % 3)}


@pytest.mark.parametrize("level", [None, 3])
def test_trajectories_come_back_as_they_were_written(tmp_path: Path, level: int | None) -> None:
    out = tmp_path / "trajectories"
    writer = TrajectoryWriter(out, Accounts(tmp_path / "a"), zstd_level=level)
    given = documents(300)
    assert list(writer.run(given, 2)) == given
    assert [path.name for path in out.iterdir()] == ["00002.jsonl" + (".zst" if level else "")]
    found = list(TrajectoryReader(out, Accounts(tmp_path / "b")).run(None, 2))
    assert [doc.metadata["trajectory"] for doc in found] == [trajectory(n) for n in range(300)]
    assert list(found[0].metadata["trajectory"].extra) == ["z", "a"]
    first = tree(out)
    list(TrajectoryWriter(out, Accounts(tmp_path / "a"), zstd_level=level).run(given, 2))
    assert tree(out) == first


@pytest.mark.parametrize("level", [None, 3])
def test_a_shard_without_rows_has_an_empty_file(tmp_path: Path, level: int | None) -> None:
    list(TrajectoryWriter(tmp_path, Accounts(tmp_path / "a"), zstd_level=level).run([], 0))
    reader = TrajectoryReader(tmp_path, Accounts(tmp_path / "b"))
    assert reader.shards == 1 and list(reader.run(None, 0)) == []
    assert list(ParquetTableWriter(tmp_path, SCHEMA, table_row).run([], 0)) == []
    assert pq.read_schema(tmp_path / "00000.parquet").equals(SCHEMA)


@pytest.mark.parametrize("level", [None, 3])
def test_a_damaged_file_of_an_earlier_stage_stops_the_next_one(tmp_path: Path, level: int | None) -> None:
    list(TrajectoryWriter(tmp_path, Accounts(tmp_path / "a"), zstd_level=level).run(documents(50), 0))
    (path,) = tmp_path.glob("00000.jsonl*")
    whole = path.read_bytes()
    reader = TrajectoryReader(tmp_path, Accounts(tmp_path / "b"))
    for damaged in (whole[:-20], whole.replace(b'"format"', b'"formal"', 1) if level is None else whole + b"!"):
        path.write_bytes(damaged)
        with pytest.raises(OresmithError, match=r"00000\.jsonl.*damaged"):
            list(reader.run(None, 0))
    path.unlink()
    with pytest.raises(OresmithError, match="cannot be read"):
        list(reader.run(None, 0))


def test_a_stage_over_trajectories_accounts_by_raw_file(tmp_path: Path) -> None:
    files = [write(tmp_path / name, b"\n".join(row(number) for number in range(10))) for name in "ab"]
    first, second = tmp_path / "first", tmp_path / "second"
    run_pipeline(normaliser(first, [inputs(*files)]), 1, scratch=tmp_path / "scratch")
    steps = normaliser(second, [], OddProblems)
    accounts = steps[-1].accounts
    chain = [TrajectoryReader(first / "trajectories", accounts), *steps[2:]]
    run_pipeline(chain, 1, scratch=tmp_path / "scratch")
    found = check_accounts(second / "accounts", 1)
    assert [(a.file, a.read, a.kept, a.rejected) for a in found] == [
        ("a", 10, 5, {"outcome": 5}),
        ("b", 10, 5, {"outcome": 5}),
    ]


def test_a_table_holds_every_row_in_order_whatever_the_batches(tmp_path: Path) -> None:
    given = documents(1000)
    for name, rows in (("small", 64), ("same", 64), ("large", 4096)):
        accounts = Accounts(tmp_path / name)
        table = ParquetTableWriter(tmp_path / name, SCHEMA, table_row, batch_rows=rows, accounts=accounts)
        assert list(table.run(given, 0)) == given
        assert accounts.file(0, given[0].metadata["trajectory"].source).kept == 1000
        assert pq.read_table(tmp_path / name / "00000.parquet").to_pylist() == [table_row(doc) for doc in given]
    assert tree(tmp_path / "small") == tree(tmp_path / "same")


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"more": 1}, "other columns.*more"), ({"line": "text"}, "does not fit"), ({"line": 2**40}, "does not fit")],
)
def test_a_row_that_is_not_of_the_schema_is_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    table = ParquetTableWriter(tmp_path, SCHEMA, lambda document: table_row(document) | changed)
    with pytest.raises(OresmithError, match=f"(?s){message}"):
        list(table.run(documents(1), 0))
