"""Make the committed demo snapshot: `python -m tests.make_demo [DIRECTORY]` (default `snapshots/demo`).

The same bytes come out each time. What each line is, and which reasons it must be rejected for, is known beside it
(`demo_truth`), so that tests can hold the whole pipeline against it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import zstandard

from tests.demo_rows import BARE, HOSTILE, PAIRED, RUNS, Rows, demo_rows, demo_world
from tests.worlds import Truth

HOME = Path("snapshots/demo")
JUDGE = ("judge-model-a", "demo-judge/1")

POOR, FAILED, SILENT = 2, 3, 4
"""Lines of each paired file whose judgement is 0.3, has failed (0.0 without a model), and is missing."""

EXPLANATIONS = {
    0.3: "Gate 2 failed: the thinking does not refer to what the tools returned.",
    0.5: "Gate 3 failed: no datum of the results is cited.",
    0.9: "Gate 4 passed: two candidates are weighed and one is chosen for a stated reason.",
}

PROVENANCE = """# What the owner of the snapshot declares and no trace says of itself. Made by tests/make_demo.py.
source: oresmith-demo
licence: CC-BY-4.0
time_range: {from: 2026-05-01T00:00:00Z, to: 2026-05-02T00:00:00Z}
versions: {runtime: sn15-sandbox/old, scorer: none, judge: demo-judge/1}
patterns: ["traces/**"]
problems: problems.jsonl
catalogue: catalogue.jsonl
judgements: judgements.jsonl
files:
"""


def judgements(rows: Rows) -> list[dict[str, Any]]:
    """The judgements file: most 0.9, one 0.5 and one 0.3 a run, one failed; a missing one has no row."""
    out = []
    for file in PAIRED:
        for line in range(1, len(rows[file]) + 1):
            if line == SILENT:
                continue
            quality = {POOR: 0.3, 1: 0.5}.get(line, 0.9)
            model, version = JUDGE
            row = {"file": file, "line": line, "quality": quality, "model": model, "version": version}
            row |= {"judged_at": f"2026-05-02T00:{line:02d}:00Z", "explanation": EXPLANATIONS[quality]}
            if line == FAILED:
                row |= {"quality": 0.0, "model": "", "explanation": ""}
            out.append(row)
    return out


def demo_truth() -> dict[tuple[str, int], Truth]:
    """What is true of each (trace file, line), reasons of the judge included. No reason: it must be accepted."""
    rows = demo_rows(demo_world())
    truth = {(file, n): row[1] for file, content in rows.items() for n, row in enumerate(content, 1)}
    for row in judgements(rows):
        if row["model"] and row["quality"] < 0.5:
            place = row["file"], row["line"]
            truth[place] = replace(truth[place], reasons=(*truth[place].reasons, "reasoning"))
    return truth


def snapshot_files() -> dict[str, bytes]:
    """Every file of the snapshot, by its path relative to the snapshot."""
    world = demo_world()
    rows = demo_rows(world)
    files = {file: _pack(file, [line for line, _ in content]) for file, content in rows.items()}
    files["problems.jsonl"] = _jsonl(list(world.problems.values()))
    files["catalogue.jsonl"] = _jsonl(list(world.products.values()))
    files["judgements.jsonl"] = _jsonl(judgements(rows))
    files["provenance.yaml"] = (PROVENANCE + "".join(_declared(file) for file in RUNS)).encode()
    return dict(sorted(files.items()))


def write_snapshot(home: Path) -> None:
    """Write the snapshot, and remove trace files that are no part of it any more."""
    files = snapshot_files()
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)
    for path in (home / "traces").iterdir():
        if path.relative_to(home).as_posix() not in files:
            path.unlink()


def _declared(file: str) -> str:
    agent, run, validator, runtime = RUNS[file]
    miner = hashlib.sha256(f"demo key of {agent}".encode()).hexdigest()
    fields = f'agent_version: {agent}, run_id: {run}, validator: {validator}, runtime: {runtime}, miner: "{miner}"'
    return f"  {file}: {{{fields}}}\n"


def _jsonl(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def _pack(file: str, lines: list[bytes]) -> bytes:
    """Lines to a file's bytes: the hostile file ends torn, the problem log is one document without a line end."""
    content = b"\n".join(lines) + (b"" if file in (HOSTILE, BARE) else b"\n")
    if file.endswith(".gz"):
        return gzip.compress(content, 9, mtime=0)
    return zstandard.ZstdCompressor(19).compress(content) if file.endswith(".zst") else content


if __name__ == "__main__":
    write_snapshot(Path(sys.argv[1]) if sys.argv[1:] else HOME)
