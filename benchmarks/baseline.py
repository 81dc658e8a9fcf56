"""The bare loops that everything else is compared with: no check, no record, no account of what was read."""

from __future__ import annotations

from pathlib import Path

import orjson

from benchmarks.data import trace_files


def bare_loads(home: Path) -> int:
    """Parse every line; returns their number."""
    rows = 0
    for path in trace_files(home):
        with path.open("rb") as lines:
            for line in lines:
                orjson.loads(line)
                rows += 1
    return rows


def bare_copy(home: Path, out: Path) -> int:
    """Parse every line, encode it again and write it, uncompressed; returns the number of lines."""
    rows = 0
    out.mkdir(parents=True, exist_ok=True)
    for path in trace_files(home):
        with path.open("rb") as lines, (out / path.name).open("wb") as writer:
            for line in lines:
                writer.write(orjson.dumps(orjson.loads(line)) + b"\n")
                rows += 1
    return rows
