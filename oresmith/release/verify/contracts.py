"""Every row keeps the contract of its config: the columns of `schemas/corpus.py`, the values of `corpus_checks.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.errors import OresmithError
from oresmith.release.layout import ROLLOUTS
from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.rowsof import DataFile, data_files
from oresmith.validation.facts import derive
from oresmith.validation.reading import pieces
from schemas import corpus, rollouts
from schemas.corpus_checks import check_rows

MOST_BYTES = 10_000_000
"""Largest bound of a row that `corpus.max_row_bytes` allows."""
NEEDED = ("trajectories", "rejects")
"""Configs that no release is without: what was accepted, and what was rejected and why."""


def check(opened: Opened) -> Findings:
    """See the module."""
    files = data_files(opened.dataset)
    held = {file.config for file in files}
    for config in NEEDED:
        if config not in held:
            yield Finding("the release has no such config", f"{config}/")
    count = 0
    for file in files:
        faults = list(_columns(file))
        yield from faults
        if faults:
            continue
        count += pq.read_metadata(file.path).num_rows
        if file.config != ROLLOUTS:
            yield from _values(file)
    return f"{count:,} rows of {len(held)} configs in {len(files)} files"


def _columns(file: DataFile) -> Iterator[Finding]:
    wanted = rollouts.ARROW if file.config == ROLLOUTS else corpus.arrow_schema(file.config)
    try:
        found = pq.read_schema(file.path)
    except (pa.ArrowException, OSError) as error:
        yield Finding(f"is no Parquet file: {error}"[:300], file.name)
        return
    if found.remove_metadata().equals(wanted.remove_metadata()):
        return
    missing = [name for name in wanted.names if name not in found.names]
    unknown = [name for name in found.names if name not in wanted.names]
    retyped = [
        name for name in wanted.names if name in found.names and found.field(name).type != wanted.field(name).type
    ]
    told = {"lacks": missing, "does not know": unknown, "has of another type": retyped}
    parts = [f"{what} {', '.join(names)}" for what, names in told.items() if names]
    yield Finding(
        f"breaks the contract of its columns: {'; '.join(parts) or 'their order is another'}"[:600], file.name
    )


def _values(file: DataFile) -> Iterator[Finding]:
    first = 0
    for piece in pieces(file.path):
        where = f"{file.name}, rows {first + 1} to {first + piece.height}"
        try:
            check_rows(derive(piece, file.config, MOST_BYTES), where, file.config)
        except OresmithError as error:
            # Numbers of rows in a broken check are counted from 0 within its piece.
            yield Finding(f"{error.what}: {error.got} (counted from row {first + 1})", where)
        first += piece.height
