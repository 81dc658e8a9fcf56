"""Parquet files of a config: row groups and files bounded by bytes, the same bytes for the same rows.

A file's name is `<split>-<NNN>-<snapshot>-<MMMMM>.parquet`: NNN is the place of the snapshot in the parameters, MMMMM
the number of the file, in the order of the rows. So a new snapshot adds files and touches none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.corpus.rows import Row, row_bytes
from oresmith.errors import OresmithError
from schemas.corpus import MESSAGES, arrow_schema

CHUNKING = {"min_chunk_size": 256 * 1024, "max_chunk_size": 1024 * 1024, "norm_level": 0}
"""Content-defined chunks as `datasets` cuts them, so that the Hub stores only what changed."""
_NO_DICTIONARY = {"messages", "prompt", "completion", "query", "evidence", "reward", "voucher", "score", "row_id"}
"""Columns of values that hardly repeat: a dictionary of them would be built and thrown away."""


class Layout(NamedTuple):
    """Bounds in uncompressed bytes."""

    row_group_bytes: int
    shard_bytes: int


class SplitFiles:
    """Writes the rows of one split of one config that come from one shard of a snapshot: `stem-<PPPPP>.parquet`.

    Args:
        folder: where the files go; nothing is written for no rows.
        config: whose schema the rows must have.
        stem: file name without the part's number.
        layout: bounds. A row group exceeds its bound only by being a single row.
    """

    def __init__(self, folder: Path, config: str, stem: str, layout: Layout) -> None:
        self.folder, self.stem, self.layout = folder, stem, layout
        self.schema = arrow_schema(config)
        self._columns = set(self.schema.names)
        self._rows: list[Row] = []
        self._waiting = self._written = self._parts = 0
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> SplitFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, row: Row) -> None:
        """Add a row.

        Raises:
            OresmithError: it has other columns than the config.
        """
        if row.keys() != self._columns:
            names = ", ".join(sorted(self._columns ^ row.keys()))
            raise OresmithError("a row has other columns than its config", where=self.stem, got=f"differing: {names}")
        size = row_bytes(row)
        if self._written + self._waiting + size > self.layout.shard_bytes:
            self._end_part()
        elif self._waiting + size > self.layout.row_group_bytes:
            self._flush()
        self._rows.append(row)
        self._waiting += size

    def close(self) -> None:
        """Write what is left."""
        self._end_part()

    def _end_part(self) -> None:
        self._flush()
        if self._writer:
            # `datasets` notes the chunking in the same place.
            self._writer.add_key_value_metadata({"content_defined_chunking": json.dumps(CHUNKING)})
            self._writer.close()
        self._writer, self._written = None, 0

    def _flush(self) -> None:
        if not self._rows:
            return
        table = _table(self._rows, self.schema, self.stem)
        self._written += self._waiting
        self._rows, self._waiting = [], 0
        self._writer = self._writer or self._open()
        self._writer.write_table(table, row_group_size=table.num_rows)

    def _open(self) -> pq.ParquetWriter:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.stem}-{self._parts:05d}.parquet"
        self._parts += 1
        return pq.ParquetWriter(
            path,
            self.schema,
            compression="zstd",
            use_dictionary=[leaf for name in self.schema.names for leaf in _leaves(name, self.schema)],
            use_content_defined_chunking=CHUNKING,
            write_page_index=True,
        )


def _leaves(name: str, schema: pa.Schema) -> Iterator[str]:
    if name not in _NO_DICTIONARY:
        yield f"{name}.list.element" if pa.types.is_list(schema.field(name).type) else name


def _table(rows: list[Row], schema: pa.Schema, where: str) -> pa.Table:
    try:
        arrays = [_array([row[field.name] for row in rows], field.type) for field in schema]
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise OresmithError("a row does not fit its config", where=where, got=str(error)[:300]) from error
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == MESSAGES:
        offsets = np.concatenate(([0], np.cumsum([len(value) for value in values]))).astype(np.int32)
        texts = pa.ExtensionArray.from_storage(kind.value_type, _texts(list(chain.from_iterable(values))))
        return pa.ListArray.from_arrays(offsets, texts, type=kind)
    if isinstance(kind, pa.JsonType):
        return pa.ExtensionArray.from_storage(kind, _texts(values))
    return pa.array(values, kind)


def _texts(values: list[bytes]) -> pa.Array:
    """Encoded JSON as strings without a look at each: it is UTF-8 because our encoder wrote it."""
    offsets = np.concatenate(([0], np.cumsum([len(value) for value in values]))).astype(np.int64)
    data = pa.py_buffer(b"".join(values))
    large = pa.LargeStringArray.from_buffers(len(values), pa.py_buffer(offsets), data)
    return large.cast(pa.string())


def place_parts(scratch: Path, target: Path) -> None:
    """Move the files of all shards into the corpus, numbered per split and snapshot in the order of their rows.

    Args:
        scratch: a folder a config, files `<split>-<NNN>-<snapshot>-<shard>-<part>.parquet`.
        target: the corpus; a folder a config.
    """
    for folder in sorted(path for path in scratch.iterdir() if path.is_dir()):
        (target / folder.name).mkdir(parents=True, exist_ok=True)
        for stem, paths in groupby(sorted(folder.iterdir()), key=lambda path: path.name.rsplit("-", 2)[0]):
            for number, path in enumerate(paths):
                path.rename(target / folder.name / f"{stem}-{number:05d}.parquet")


class File(NamedTuple):
    """A published Parquet file."""

    config: str
    split: str
    path: Path
    rows: int


def corpus_files(corpus: Path, configs: Iterable[str]) -> list[File]:
    """The Parquet files of a corpus, by config and split, in the order of their rows."""
    found: list[File] = []
    for config in configs:
        paths = sorted((corpus / config).glob("*.parquet"))
        splits = dict.fromkeys(path.name.split("-", 1)[0] for path in paths)
        first = [split for split in ("train", "dev", "validation") if split in splits]
        for split in [*first, *(split for split in splits if split not in first)]:
            mine = [path for path in paths if path.name.split("-", 1)[0] == split]
            found += [File(config, split, path, pq.read_metadata(path).num_rows) for path in mine]
    return found
