"""Reading a corpus back in bounded pieces, JSON columns as the text they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.errors import OresmithError

PIECE_BYTES = 32 * 2**20
PIECE_ROWS = 4096


def pieces(path: Path, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
    """The rows of a Parquet file, a few thousand or about 32 MiB (as stored before compression) at a time.

    Args:
        path: the file.
        columns: read only these; all by default.

    Raises:
        OresmithError: the file is no Parquet or damaged.
    """
    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
            stored = sum(group.total_byte_size for group in groups)
            rows = min(PIECE_ROWS, max(1, PIECE_BYTES * file.metadata.num_rows // max(1, stored)))
            for batch in file.iter_batches(batch_size=rows, columns=columns):
                table = pa.Table.from_batches([batch])
                frame = pl.from_arrow(table.cast(text_schema(table.schema)))
                assert isinstance(frame, pl.DataFrame)  # of a table, never a series
                yield frame
    except (pa.ArrowException, OSError) as error:
        raise OresmithError("a Parquet file cannot be read", where=str(path), got=str(error)[:300]) from error


def text_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with every JSON type as the string that it is stored as."""
    return pa.schema([pa.field(field.name, _text(field.type)) for field in schema])


def _text(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.JsonType):
        return kind.storage_type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_text(kind.value_type))
    return kind
