"""Any trace file as trajectories and rejects, outside every pipeline: what `inspect` and `rescore` read with."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.lines.decoding import BadJsonError, decode
from oresmith.lines.framing import BadLine, Limits, read_lines
from oresmith.reasons import Reason
from oresmith.records import Reject, Source, Trajectory
from oresmith.traces import CodecError, Context
from oresmith.traces import decode as decode_trace
from oresmith.traces.detect import KNOWN

STAGE = "normalize"
"""Rejects of reading carry the name of the stage that reads in the pipeline."""


def trace_files(path: Path) -> list[tuple[Path, str]]:
    """The file itself, or every file below a directory, sorted; each with the name that its rows carry.

    Raises:
        OresmithError: nothing there.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if not file.is_dir())
        named = [(file, os.fsencode(file.relative_to(path)).decode("utf-8", "backslashreplace")) for file in files]
    elif path.exists():
        named = [(path, os.fsencode(path.name).decode("utf-8", "backslashreplace"))]
    else:
        raise OresmithError("the path does not exist", where=str(path), todo="give a trace file or a directory of them")
    if not named:
        raise OresmithError("the directory holds no file", where=str(path))
    return named


def read_any(path: Path, limits: Limits | None = None, *, name: str | None = None) -> Iterator[Trajectory | Reject]:
    """Read one file, line by line; memory is bounded by the limits, not by the file.

    The file is the user's own and nothing is decided by it, so what its rows say of themselves is read.

    Args:
        path: JSONL, plain, gzip or zstd (known by its bytes), or one JSON document.
        limits: as the reader's; defaults fit any honest file.
        name: what the rows carry as their file; the path's own name if None.

    Yields:
        A trajectory for each readable row, a reject with place and reason for each other line.

    Raises:
        OresmithError: the file cannot be opened.
    """
    file = name or os.fsencode(path.name).decode("utf-8", "backslashreplace")
    ctx = Context(source=_source(file, 1, 0, 0), source_name=file, trust_rows=True)
    for line in read_lines(path, limits):
        if isinstance(line, BadLine):
            source = _source(file, line.number, line.offset, line.length)
            yield Reject(stage=STAGE, source=source, reasons=[line.reason.value], evidence=_evidence(line.detail))
            continue
        source = _source(file, line.number, line.offset, len(line.data))
        try:
            yield decode_trace(decode(line.data), ctx, source)
        except (BadJsonError, CodecError) as error:
            yield Reject(stage=STAGE, source=source, reasons=[error.reason.value], evidence=_evidence(str(error)))


def refuse_unreadable(path: Path, reasons: Counter[str]) -> OresmithError:
    """The refusal of a file or directory in which no row is a trajectory."""
    unknown = set(reasons) <= {Reason.UNKNOWN_FORMAT.value, Reason.AMBIGUOUS_FORMAT.value}
    counted = ", ".join(f"{code} {count}" for code, count in sorted(reasons.items()))
    return OresmithError(
        "the format is not known" if unknown and reasons else "no row can be read as a trajectory",
        where=str(path),
        expected=f"rows of one of: {KNOWN}",
        got=counted or "no line at all",
    )


def _source(file: str, line: int, offset: int, length: int) -> Source:
    return Source(snapshot="", file=file, file_sha256="", line=line, offset=offset, length=length)


def _evidence(detail: str) -> dict[str, str]:
    return {"detail": detail.splitlines()[0][:200]} if detail else {}
