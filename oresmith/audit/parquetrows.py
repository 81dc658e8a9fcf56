"""Rows of a Parquet file as the other formats give them: a corpus of ours, or anybody's with `query` or `messages`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.errors import OresmithError
from oresmith.lines.decoding import BadJsonError, decode

MAGIC = b"PAR1"
COLUMNS = ("row_id", "problem_id", "query", "category", "reward", "voucher", "messages", "prompt", "completion")
"""What is read where it is there; `row_id` names the row."""
JSON_TEXT = ("reward", "voucher", "messages", "prompt", "completion")
BATCH = 256


def is_parquet(path: Path) -> bool:
    """Whether a regular file begins as Parquet files do."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def parquet_rows(path: Path) -> Iterator[tuple[int, str | None, dict[str, Any]]]:
    """Yield (row number from 1, row id, row): a problem, or an OpenAI row where there are messages.

    A dialogue split into `prompt` and `completion` (config `kto`) is put together.

    Raises:
        OresmithError: not a Parquet file that can be read, or one without `query` and messages.
    """
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            names = [name for name in COLUMNS if name in file.schema_arrow.names]
            if not {"query", "messages", "prompt"} & set(names):
                raise OresmithError(
                    "no column tells what a row is about",
                    where=str(path),
                    expected="query, messages, or prompt and completion",
                    got=", ".join(file.schema_arrow.names)[:200],
                )
            for batch in file.iter_batches(batch_size=BATCH, columns=names):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row.pop("row_id", None), _row(row)
    except (pa.ArrowException, OSError, BadJsonError) as error:
        raise OresmithError(
            "the Parquet file cannot be read", where=f"{path}: row {number}", got=str(error)[:200]
        ) from error


def _row(row: dict[str, Any]) -> dict[str, Any]:
    values = {key: _value(value) if key in JSON_TEXT else value for key, value in row.items()}
    parts = [values.pop(key, None) or [] for key in ("messages", "prompt", "completion")]
    messages = [message for part in parts if isinstance(part, list) for message in part]
    return values | ({"messages": messages} if messages else {})


def _value(value: Any) -> Any:
    """A column of JSON: text, or a list of texts, or already values."""
    if isinstance(value, str):
        return decode(value.encode())
    if isinstance(value, list):
        return [decode(item.encode()) if isinstance(item, str) else item for item in value]
    return value
