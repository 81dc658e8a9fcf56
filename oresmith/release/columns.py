"""The columns of every config, from the Parquet footers: what the next release's version is told by."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.errors import OresmithError
from oresmith.release.layout import CONFIGS

COLUMNS_SCHEMA = "oresmith.columns/1"
Columns = dict[str, dict[str, str]]
"""Config -> column -> type, in the order of the files."""


class _Document(msgspec.Struct, kw_only=True):
    schema: Literal["oresmith.columns/1"] = "oresmith.columns/1"
    configs: Columns


def read_columns(dataset: Path) -> Columns:
    """The columns of each config's files.

    Raises:
        OresmithError: a file cannot be read, or two files of one config differ.
    """
    found: Columns = {}
    for config in CONFIGS:
        for path in sorted((dataset / config).glob("*.parquet")):
            try:
                schema = pq.read_schema(path)
            except (pa.ArrowException, OSError) as error:
                raise OresmithError("a Parquet file cannot be read", where=str(path), got=str(error)[:200]) from error
            columns = {field.name: str(field.type) for field in schema}
            if found.setdefault(config, columns) != columns:
                raise OresmithError("two files of one config have different columns", where=str(path))
    return found


def encode_columns(columns: Columns) -> bytes:
    """`columns.json`."""
    return msgspec.json.format(msgspec.json.encode(_Document(configs=columns)), indent=1) + b"\n"


def decode_columns(path: Path) -> Columns:
    """Read `columns.json`.

    Raises:
        OresmithError: it is missing or damaged.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Document).configs
    except (OSError, msgspec.MsgspecError) as error:
        raise OresmithError("the columns of a release cannot be read", where=str(path), got=str(error)[:200]) from error


class ColumnChanges(msgspec.Struct, frozen=True):
    """What happened to the columns: texts such as `sft.tools` or `sft.tools: string -> int64`."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()


def column_changes(old: Columns, new: Columns) -> ColumnChanges:
    """Compare the columns of two releases; a config that appears or goes is all of its columns."""
    before = {f"{config}.{name}": kind for config, columns in old.items() for name, kind in columns.items()}
    after = {f"{config}.{name}": kind for config, columns in new.items() for name, kind in columns.items()}
    return ColumnChanges(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        retyped=tuple(
            f"{name}: {before[name]} -> {after[name]}"
            for name in sorted(before.keys() & after.keys())
            if before[name] != after[name]
        ),
    )
