"""The truth of a snapshot (schema oresmith.truth/1): what an arena planted, for the audit alone.

One JSON object a line, of kind `trajectory` or `problem`. No stage but `truth` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import polars as pl

from oresmith.arena.textio import decode_row, read_lines, told
from oresmith.errors import OresmithError
from oresmith.lines.decoding import BadJsonError

_Text = Annotated[str, msgspec.Meta(max_length=4096)]
_Word = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class PlantedTrajectory(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="trajectory"):
    """What is true of one trajectory."""

    file: _Text
    """Path of the trace file relative to the source, as evidence rows carry it."""
    line: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    family: _Word
    """Of the miner that played it."""
    origin: Literal["A", "B"]
    full_text: bool
    """The text of every model reply stands in the log."""
    forged: bool
    secrets: list[_Word]
    """Types of what was planted, by the names of the evidence."""
    injection: bool
    success: bool | None
    run_id: _Text | None = None
    problem_id: _Text | None = None
    agent_version: _Text | None = None


class PlantedProblem(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="problem"):
    """What is true of one problem."""

    problem_id: _Text
    cluster: _Text
    """Names the true cluster, over all snapshots: the problem_id of its base problem."""
    variant: _Word
    """base, or how it differs from the base: paraphrase, order, voucher_wording, gold, same_specification."""
    level: _Text | None = None
    suite: _Text | None = None
    pool: _Text | None = None


class Planted(NamedTuple):
    """The truth of one snapshot."""

    trajectories: pl.DataFrame
    """Columns of `FRAME`."""
    problems: list[PlantedProblem]


FRAME: dict[str, pl.DataType] = {
    "file": pl.String(),
    "line": pl.Int64(),
    "family": pl.String(),
    "true_origin": pl.String(),
    "true_full_text": pl.Boolean(),
    "forged": pl.Boolean(),
    "planted": pl.List(pl.String()),
    "injected": pl.Boolean(),
    "success": pl.Boolean(),
    "true_problem": pl.String(),
}
_CHUNK = 1 << 14


def read_truth(path: Path) -> Planted:
    """Read a truth file line by line.

    Errors: OresmithError naming file and line for a line that is of neither kind or of wrong types, and for a place or
    a problem of which two things are said.
    """
    problems: dict[str, PlantedProblem] = {}
    frames, chunk = [_frame([])], list[PlantedTrajectory]()
    for number, line in read_lines(path):
        entry = _entry(line, f"{path}:{number}")
        if isinstance(entry, PlantedTrajectory):
            chunk.append(entry)
            if len(chunk) == _CHUNK:
                frames.append(_frame(chunk))
                chunk = []
        elif problems.setdefault(entry.problem_id, entry) != entry:
            raise OresmithError(
                "the truth says two things of one problem", where=f"{path}:{number}", got=entry.problem_id[:80]
            )
    rows = pl.concat([*frames, _frame(chunk)])
    _refuse_twice(rows, path)
    return Planted(rows, list(problems.values()))


def _entry(line: bytes, where: str) -> PlantedTrajectory | PlantedProblem:
    try:
        return msgspec.convert(decode_row(line), PlantedTrajectory | PlantedProblem)
    except (BadJsonError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise OresmithError(
            "not a line of the truth",
            where=where,
            expected="an object of kind trajectory or problem (docs/arena.md)",
            got=told(error),
            todo="make the snapshot again",
        ) from error


def _frame(entries: Iterable[PlantedTrajectory]) -> pl.DataFrame:
    rows = [
        (
            one.file,
            one.line,
            one.family,
            one.origin,
            one.full_text,
            one.forged,
            one.secrets,
            one.injection,
            one.success,
            one.problem_id,
        )
        for one in entries
    ]
    return pl.DataFrame(rows, schema=FRAME, orient="row")


def _refuse_twice(rows: pl.DataFrame, path: Path) -> None:
    twice = rows.filter(pl.struct("file", "line").is_duplicated())
    if twice.height:
        file, line = twice.select("file", "line").row(0)
        raise OresmithError("the truth says two things of one trajectory", where=str(path), got=f"{file[:200]}:{line}")
