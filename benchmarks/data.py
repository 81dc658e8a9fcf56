"""The inputs of the benchmarks: generated envelopes of 13 to 17 KB with their problems and catalogue, as a snapshot."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from tests.worlds import big_envelopes, big_world

FILES = 8
"""Trace files of a snapshot; lines go to them in turn."""

SEED = 0
DISTINCT = 600

PROVENANCE = """source: oresmith-bench
licence: CC-BY-4.0
time_range: {from: 2026-05-01T00:00:00Z, to: 2026-05-31T00:00:00Z}
versions: {runtime: sn15-sandbox/old}
patterns: ["traces/**"]
problems: problems.jsonl
catalogue: catalogue.jsonl
files:
"""


def snapshot(home: Path, rows: int, distinct: int | None = None) -> Path:
    """The directory of a snapshot with `rows` envelopes, made once; what is there already is taken as it is.

    `distinct` is the number of different dialogues; the others repeat them at later times.
    """
    distinct = distinct or DISTINCT
    target = home / f"snapshot-{rows}-{distinct}"
    done = target / "provenance.yaml"
    if done.exists():
        return target
    (target / "traces").mkdir(parents=True, exist_ok=True)
    world = big_world(SEED)
    files = [(target / "traces" / f"{n:02d}.jsonl").open("wb") for n in range(FILES)]
    for number, line in enumerate(big_envelopes(rows, SEED, distinct)):
        files[number % FILES].write(line + b"\n")
    for file in files:
        file.close()
    for name, values in (("problems", world.problems), ("catalogue", world.products)):
        (target / f"{name}.jsonl").write_text("".join(json.dumps(v) + "\n" for v in values.values()), "utf-8")
    declared = [
        f"  traces/{n:02d}.jsonl: {{agent_version: agent-{n}, run_id: run-{n}, validator: val-{n % 2}, runtime: old}}\n"
        for n in range(FILES)
    ]
    done.write_text(PROVENANCE + "".join(declared), "utf-8")
    return target


@cache
def trace_files(home: Path) -> tuple[Path, ...]:
    """The trace files of a snapshot, sorted."""
    return tuple(sorted((home / "traces").iterdir()))
