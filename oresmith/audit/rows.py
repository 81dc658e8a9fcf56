"""The rows of a corpus as anyone reads them from its Parquet files, and the hash of each (docs/certificate.md).

A row's hash is the sha256 of its canonical JSON: an object of its columns, those that are null left out, keys sorted,
no blanks, UTF-8 not escaped, real numbers as Python's `repr` writes them. A column that holds JSON is the text that is
stored. So the hash needs nothing of ours, and does not change when a release adds a column that the row leaves null.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.errors import OresmithError

ROW_HASH = "oresmith.row/1"
"""Name and version of the encoding above."""
BATCH = 256
"""Rows that are held as Python objects at once."""
REJECTS = "rejects"
CONFIGS = (
    "trajectories",
    "subtask",
    "sft",
    "kto",
    "grpo",
    "heldout",
    "heldout_gold",
    REJECTS,
)
"""The configs of a corpus, those first whose rows say which problem they are about, then the views of them."""
LATER = ("heldout_rollouts", "scores")
"""Folders of a release that come after the certificate, which knows nothing of models; `release.json` lists them."""


class Shard(NamedTuple):
    """One data file of a corpus."""

    config: str
    split: str
    name: str
    """Path relative to the corpus, `<config>/<split>-<rest>.parquet`."""
    path: Path


class ShardRow(NamedTuple):
    """One row, with its place and its hash."""

    shard: Shard
    number: int
    """Counted from 1."""
    values: dict[str, Any]
    """By column, null ones included."""
    sha256: str


def shards(corpus: Path) -> list[Shard]:
    """All Parquet files of a corpus but those of `LATER`, in the order of `CONFIGS`, then of their names.

    Raises:
        OresmithError: a Parquet file whose place does not name a config and its split.
    """
    found: list[Shard] = []
    for path in sorted(corpus.rglob("*.parquet")):
        name = path.relative_to(corpus).as_posix()
        config, _, file = name.partition("/")
        if config in LATER:
            continue
        split = file.partition("-")[0]
        if config not in CONFIGS or "/" in file or "-" not in file:
            raise OresmithError(
                "a data file stands outside every config", where=str(path), expected="<config>/<split>-<shard>.parquet"
            )
        found.append(Shard(config, split, name, path))
    return sorted(found, key=lambda shard: (CONFIGS.index(shard.config), shard.name))


def shard_rows(shard: Shard) -> Iterator[ShardRow]:
    """The rows of a file, in their order; memory is bounded by its row groups.

    Raises:
        OresmithError: the file cannot be read as Parquet, naming it and the row reached.
    """
    number = 0
    try:
        file = pq.ParquetFile(shard.path)
        real = _has_reals(file.schema_arrow)
        for batch in file.iter_batches(batch_size=BATCH):
            for values in batch.to_pylist():
                number += 1
                yield ShardRow(shard, number, values, _hash(values, real, f"{shard.path}: row {number}"))
    except (pa.ArrowException, OSError) as error:
        raise OresmithError(
            "a data file cannot be read",
            where=f"{shard.path}: row {number + 1}",
            got=str(error).splitlines()[0][:200],
            todo="restore the file, or run the stage that writes it",
        ) from error


def canonical_row(values: Mapping[str, Any]) -> bytes:
    """The canonical JSON of a row. Errors: OresmithError for a value that JSON cannot carry."""
    return _encode(values, True, "row")


def _has_reals(schema: pa.Schema) -> bool:
    waiting = [field.type for field in schema]
    while waiting:
        kind = waiting.pop()
        if pa.types.is_floating(kind):
            return True
        waiting += [kind.field(place).type for place in range(kind.num_fields)]
    return False


def _hash(values: Mapping[str, Any], real: bool, where: str) -> str:
    return hashlib.sha256(_encode(values, real, where)).hexdigest()


def _encode(values: Mapping[str, Any], real: bool, where: str) -> bytes:
    stated = {name: value for name, value in values.items() if value is not None}
    try:
        return orjson.dumps(_plain(stated) if real else stated, option=orjson.OPT_SORT_KEYS | _AS_THEY_ARE)
    except TypeError as error:
        raise OresmithError(
            "a value has no canonical form",
            where=where,
            expected="text, number, truth value or lists and objects",
            got=str(error)[:120],
        ) from error


_AS_THEY_ARE = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


def _plain(value: Any) -> Any:
    """The value with its real numbers as `repr` writes them: JSON writers differ in where exponents begin."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError("a real number that JSON cannot write")
        return orjson.Fragment(repr(value))
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list) else value
