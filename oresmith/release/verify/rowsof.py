"""Reading the configs of a dataset: its files in order, and columns of their rows with their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from oresmith.errors import OresmithError
from oresmith.release.layout import CONFIGS, ROLLOUTS

BATCH = 1024
"""Rows that are Python objects at once."""
SIDES = {"train": "train", "dev": "dev", "validation": "dev"}
"""Split -> side; every other split is held out."""
WHOLE, DATED = ("trajectories", "subtask"), ("heldout", "heldout_gold", ROLLOUTS)
"""Configs that hold trajectories, and those of the held-out pools."""


class DataFile(NamedTuple):
    """A Parquet file of a config."""

    config: str
    split: str
    name: str
    """Path in the dataset."""
    path: Path


def data_files(dataset: Path, configs: Sequence[str] = CONFIGS) -> list[DataFile]:
    """The files of some configs, in the order of configs and names."""
    return [
        DataFile(config, path.name.partition("-")[0], f"{config}/{path.name}", path)
        for config in configs
        for path in sorted((dataset / config).glob("*.parquet"))
        if path.is_file() and not path.is_symlink()
    ]


def rows(file: DataFile, columns: Sequence[str], holding: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """(number from 1, values by column) of each row.

    Args:
        file: the file.
        columns: those that are read.
        holding: of a list of texts (messages) give the first one and those that hold this; most of a dialogue is
            results of tools, and to make Python's texts of them takes the most time.

    Raises:
        OresmithError: the file is damaged, or lacks a column.
    """
    number = 0
    try:
        with pq.ParquetFile(file.path) as opened:
            missing = [name for name in columns if name not in opened.schema_arrow.names]
            if missing:
                raise OresmithError("a file lacks columns", where=file.name, got=", ".join(missing))
            for batch in opened.iter_batches(batch_size=BATCH, columns=list(columns)):
                for values in _values(batch, holding):
                    number += 1
                    yield number, values
    except (pa.ArrowException, OSError) as error:
        raise OresmithError(
            "a data file cannot be read", where=f"{file.name}, row {number + 1}", got=str(error)[:200]
        ) from error


def _values(batch: pa.RecordBatch, holding: str) -> Iterator[dict[str, Any]]:
    lists = [field.name for field in batch.schema if holding and pa.types.is_list(field.type)]
    sparse = {name: _sparse(batch.column(name), holding) for name in lists}
    for place, values in enumerate(batch.drop_columns(lists).to_pylist()):
        yield values | {name: found[place] for name, found in sparse.items()}


def _sparse(column: pa.ListArray, holding: str) -> list[list[str | None]]:
    parents = pc.list_parent_indices(column).to_numpy()
    texts = column.flatten()
    stored = texts.storage if isinstance(texts, pa.ExtensionArray) else texts
    held = pc.match_substring(stored, holding).fill_null(True).to_numpy(zero_copy_only=False)
    kept = held | (np.diff(parents, prepend=-1) != 0)
    found: list[list[str | None]] = [[] for _ in range(len(column))]
    for parent, text in zip(parents[kept].tolist(), stored.filter(pa.array(kept)).to_pylist(), strict=True):
        found[parent].append(text)
    return found
