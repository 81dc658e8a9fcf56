"""The judgements file beside a source: reasoning scores of traces that carry none themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from oresmith.arena.textio import decode_row, read_lines, told
from oresmith.errors import SnapshotError
from oresmith.lines.decoding import BadJsonError
from oresmith.records import Judgement


class JudgementRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line: which trace, and what the judge said."""

    file: str
    """The trace file, relative to the source, as the provenance file names it."""
    line: Annotated[int, msgspec.Meta(ge=1)]
    quality: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    model: str | None = None
    """Empty with quality 0.0: every retry failed, which is missing and not bad reasoning."""
    version: str | None = None
    judged_at: str | None = None
    explanation: str | None = None


def read_judgements(path: Path, files: set[str]) -> dict[tuple[str, int], Judgement]:
    """Read a judgements file.

    Args:
        path: JSON lines of `JudgementRow`, plain, gzip or zstd.
        files: the trace files of the snapshot; a row for another one is refused.

    Returns:
        (file, line) -> judgement.

    Raises:
        SnapshotError: a line that is no judgement, names an unknown file, or judges a trace a second time.
    """
    found: dict[tuple[str, int], Judgement] = {}
    for number, text in read_lines(path):
        where = f"{path.name}:{number}"
        try:
            row = msgspec.convert(decode_row(text), JudgementRow)
        except (BadJsonError, msgspec.ValidationError) as error:
            raise SnapshotError(
                "this line is no judgement",
                where=where,
                expected="file, line and, optionally, quality, model, version, judged_at, explanation",
                got=told(error),
            ) from error
        if row.file not in files:
            raise SnapshotError(
                "the judgement is of a file that the snapshot does not hold", where=where, got=row.file[:200]
            )
        if (row.file, row.line) in found:
            raise SnapshotError("the trace is judged twice", where=where, got=f"{row.file}:{row.line}")
        found[row.file, row.line] = Judgement(
            quality=row.quality,
            model=row.model,
            version=row.version,
            judged_at=row.judged_at,
            explanation=row.explanation,
        )
    return found
