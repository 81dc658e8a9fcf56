"""Datatrove writers of trajectories and tables, one file a shard with deterministic bytes, and the reader back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import IO, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from oresmith.blocks.accounts import Accounts, shard_name
from oresmith.errors import OresmithError
from oresmith.lines.framing import BadLine, Limits, read_lines
from oresmith.records import Trajectory

_BUFFER = 1024 * 1024
_OWN_FILES = Limits(max_line_bytes=512 * 1024 * 1024, max_ratio=1e6)
"""Our own output is not hostile: the limits only have to keep a damaged file from filling memory."""


class TrajectoryWriter(PipelineStep):  # type: ignore[misc]
    """Writes `metadata["trajectory"]` of each document to `folder/<shard>.jsonl`, and passes the document on.

    Args:
        folder: where the files go.
        accounts: counts each row as kept.
        zstd_level: compress to `<shard>.jsonl.zst` with a checksum; None leaves it plain.
    """

    type = "writer"
    name = "trajectories"

    def __init__(self, folder: Path, accounts: Accounts, *, zstd_level: int | None = None) -> None:
        super().__init__()
        self.folder, self.accounts, self.zstd_level = folder, accounts, zstd_level

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Write all trajectories of the task; the file exists even if there are none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        encoder, rows, spent = msgspec.json.Encoder(), bytearray(), 0.0
        with ExitStack() as stack:
            out = self._open(stack, rank)
            for document in data:
                began = perf_counter()
                trajectory: Trajectory = document.metadata["trajectory"]
                encoder.encode_into(trajectory, rows, len(rows))
                rows += b"\n"
                if len(rows) >= _BUFFER:
                    out.write(rows)
                    rows.clear()
                self.accounts.file(rank, trajectory.source).kept += 1
                spent += perf_counter() - began
                yield document
            out.write(rows)
        self.accounts.save(rank)
        self.stats.time_stats.update(spent, "task")

    def _open(self, stack: ExitStack, rank: int) -> IO[bytes]:
        name = f"{shard_name(rank)}.jsonl" + ("" if self.zstd_level is None else ".zst")
        file = stack.enter_context((self.folder / name).open("wb"))
        if self.zstd_level is None:
            return file
        compressor = zstandard.ZstdCompressor(level=self.zstd_level, write_checksum=True)
        return stack.enter_context(compressor.stream_writer(file, closefd=False))


class TrajectoryReader(PipelineStep):  # type: ignore[misc]
    """Reads the files of `TrajectoryWriter` back; documents carry the typed `trajectory` as metadata.

    Args:
        folder: of the files; the number of tasks must be their number (`shards`).
        accounts: counts each row as read and forwarded, under the raw file it came from.
    """

    type = "reader"
    name = "trajectories"

    def __init__(self, folder: Path, accounts: Accounts) -> None:
        super().__init__()
        self.folder, self.accounts = folder, accounts

    @property
    def shards(self) -> int:
        """How many files there are."""
        return len(list(self.folder.glob("*.jsonl*")))

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the trajectories of shard `rank`.

        Raises:
            OresmithError: the shard's file is missing or damaged.
        """
        if data:
            yield from data
        decoder = msgspec.json.Decoder(Trajectory)
        rows, spent, began = 0, 0.0, perf_counter()
        path = self._path(rank)
        for line in read_lines(path, _OWN_FILES):
            if isinstance(line, BadLine):
                raise damaged(path, line.number, f"{line.reason.value} {line.detail}")
            try:
                trajectory = decoder.decode(line.data)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise damaged(path, line.number, str(error)) from error
            account = self.accounts.file(rank, trajectory.source)
            account.read += 1
            account.forwarded += 1
            rows += 1
            spent += perf_counter() - began
            identity = trajectory.trajectory_id
            yield Document(text=identity, id=identity, metadata={"trajectory": trajectory})
            began = perf_counter()
        self.accounts.save(rank)
        self.stats.time_stats.update(spent, "task")
        self.stat_update("read", value=rows, unit="task")

    def _path(self, rank: int) -> Path:
        plain = self.folder / f"{shard_name(rank)}.jsonl"
        return plain if plain.exists() else plain.with_suffix(".jsonl.zst")


class ParquetTableWriter(PipelineStep):  # type: ignore[misc]
    """Writes rows made from documents to `folder/<shard>.parquet`, and passes the documents on.

    Args:
        folder: where the files go.
        schema: of the table; nothing is inferred from rows.
        row: gives a document's row, which must have exactly the schema's columns, or None for no row.
        batch_rows: rows held in memory; also the size of a row group.
        accounts: if given, counts each row with a `trajectory` or `source` as kept.
    """

    type = "writer"
    name = "table"

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        row: Callable[[Document], dict[str, Any] | None],
        *,
        batch_rows: int = 4096,
        accounts: Accounts | None = None,
    ) -> None:
        super().__init__()
        self.folder, self.schema, self.row = folder, schema, row
        self.batch_rows, self.accounts = batch_rows, accounts

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Write all rows of the task; the file exists, with its schema, even if there are none.

        Raises:
            OresmithError: a row has other columns or types than the schema.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        columns, rows, spent = set(self.schema.names), [], 0.0
        path = self.folder / f"{shard_name(rank)}.parquet"
        with path.open("wb") as file, pq.ParquetWriter(file, self.schema, compression="zstd") as table:
            for document in data:
                began = perf_counter()
                row = self.row(document)
                if row is not None:
                    if row.keys() != columns:
                        raise _other_columns(path, document.id, columns ^ row.keys())
                    rows.append(row)
                    if len(rows) >= self.batch_rows:
                        self._flush(table, rows, path)
                    self._keep(document, rank)
                spent += perf_counter() - began
                yield document
            self._flush(table, rows, path)
        if self.accounts:
            self.accounts.save(rank)
        self.stats.time_stats.update(spent, "task")

    def _keep(self, document: Document, rank: int) -> None:
        if self.accounts:
            trajectory = document.metadata.get("trajectory")
            source = trajectory.source if trajectory else document.metadata["source"]
            self.accounts.file(rank, source).kept += 1

    def _flush(self, table: pq.ParquetWriter, rows: list[dict[str, Any]], path: Path) -> None:
        if not rows:
            return
        try:
            batch = pa.RecordBatch.from_pylist(rows, schema=self.schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise OresmithError("a row does not fit the table", where=str(path), got=str(error)[:300]) from error
        table.write_batch(batch)
        rows.clear()


def _other_columns(path: Path, row: str, differing: set[str]) -> OresmithError:
    names = ", ".join(sorted(differing))
    return OresmithError(
        "a row has other columns than the table", where=f"{path}, row {row}", got=f"differing: {names}"
    )


def damaged(path: Path, number: int, detail: str) -> OresmithError:
    """The refusal of a line of an earlier stage's trajectories that cannot be read."""
    return OresmithError(
        "a file of an earlier stage is damaged",
        where=f"{path}:{number}",
        expected="trajectories as this version writes them",
        got=detail[:300],
        todo="run the stage that wrote it again",
    )
