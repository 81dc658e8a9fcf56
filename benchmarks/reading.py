"""Our reader: lines framed with every byte accounted for, and decoded strictly."""

from __future__ import annotations

from pathlib import Path

from benchmarks.data import trace_files
from benchmarks.measure import SkippedError


def read(home: Path, duplicates: bool) -> int:
    """Frame and decode every line, with or without the check for duplicate keys; returns the number of rows."""
    try:
        from oresmith.lines.decoding import decode
        from oresmith.lines.framing import Line, read_lines
    except ImportError as error:
        raise SkippedError(f"oresmith.blocks is not there ({error})") from error
    rows = 0
    for path in trace_files(home):
        for line in read_lines(path):
            if isinstance(line, Line):
                decode(line.data, duplicate_keys=duplicates)
                rows += 1
    return rows
