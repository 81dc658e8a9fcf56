"""`rows.jsonl.zst`: the data manifest of a training step, one line a row, without any text of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from oresmith.blocks.packing import RECORDS, PackedLines
from oresmith.errors import OresmithError
from oresmith.evaluation.engines.model import ids_sha256
from oresmith.lines.framing import BadLine, read_lines
from oresmith.records import Record
from oresmith.training.rowset import TrainingRow, rows_sha256

ROWS_FILE = "rows.jsonl.zst"


class RowLine(Record, frozen=True):
    """One line of the file."""

    row_id: str
    turn: int
    origin: str
    problem: str
    cluster: str
    category: str
    ids_sha256: str
    """Of the token ids, as in `ChatReply.prompt_sha256`."""
    tokens: int
    supervised: int
    """Tokens that the loss covers."""


class RowCounts(Record, frozen=True):
    """What training.json says of the rows."""

    rows: int
    tokens: int
    supervised: int
    problems: int
    """Distinct ones."""
    clusters: int
    origins: dict[str, int]
    """Rows by origin."""
    categories: dict[str, int]
    sha256: str
    """`rows_sha256`: of ids and masks, in the order of the rows."""


def write_rows(rows: Iterable[TrainingRow], directory: Path) -> dict[str, Any]:
    """Write the data manifest.

    Args:
        rows: in the order that the trainer is given them; a row that is seen more often stands there more often.
        directory: exists; takes `ROWS_FILE`.

    Returns:
        `RowCounts`, as training.json holds it.
    """
    found = list(rows)
    lines = [row_line(row) for row in found]
    with PackedLines(directory / ROWS_FILE, RECORDS) as file:
        for line in lines:
            file.add(msgspec.json.encode(line))
    counts = RowCounts(
        rows=len(lines),
        tokens=sum(line.tokens for line in lines),
        supervised=sum(line.supervised for line in lines),
        problems=len({line.problem for line in lines}),
        clusters=len({line.cluster for line in lines}),
        origins=dict(sorted(Counter(line.origin for line in lines).items())),
        categories=dict(sorted(Counter(line.category for line in lines).items())),
        sha256=rows_sha256(found),
    )
    told: dict[str, Any] = msgspec.to_builtins(counts)
    return told


def read_rows(directory: Path) -> Iterator[RowLine]:
    """The lines of a step's data manifest.

    Raises:
        OresmithError: there is none, or a line cannot be read.
    """
    path = directory / ROWS_FILE
    for line in read_lines(path):
        where = f"{path}:{line.number}"
        if isinstance(line, BadLine):
            raise OresmithError("a data manifest cannot be read", where=where, got=line.reason.value)
        try:
            yield msgspec.json.decode(line.data, type=RowLine)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise OresmithError("a data manifest cannot be read", where=where, got=str(error)[:200]) from error


def row_line(row: TrainingRow) -> RowLine:
    """What the manifest says of a row."""
    return RowLine(
        row_id=row.row_id,
        turn=row.turn,
        origin=row.origin,
        problem=row.problem,
        cluster=row.cluster,
        category=row.category,
        ids_sha256=ids_sha256(row.ids),
        tokens=len(row.ids),
        supervised=sum(row.mask),
    )
