"""Whether five times the rows cost five times the CPU time, and the same memory: each run in a process of its own.

The CPU time of imports is left out, the memory that they take is not.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Section, Settings, SkippedError, in_fresh_process, verdict
from benchmarks.project import NAME, inside, params, project
from benchmarks.tiled import tiled_evidence

FACTOR = 5
GROWTH = 1.15
"""Most CPU time per row at the larger size, of that at the smaller."""
MEMORY = 600.0
"""Peak resident megabytes at either size."""


def bench(settings: Settings) -> Section:
    """Stages `normalize` and `gate` at the asked number of rows and at five times that number."""
    section = Section(
        f"Scaling: {settings.rows:,} and {FACTOR * settings.rows:,} rows, each in a fresh process, default parameters",
        ("stage", "rows", "us/row", "growth", "target", "peak MB", "target"),
    )
    sizes = (settings.rows, FACTOR * settings.rows)
    made: dict[str, tuple[str, Callable[[Settings, int], tuple[Path, Path]]]] = {
        "normalize": ("benchmarks.scaling:normalise_once", project),
        "gate": ("benchmarks.gate:gate_once", tiled_evidence),
    }
    for stage, (target, make) in made.items():
        try:
            found = [_repeated(stage, target, make(settings, size), settings.repeats) for size in sizes]
        except SkippedError as skip:
            section.notes.append(f"skipped {stage}: {skip}")
            continue
        section.rows += [_row(stage, size, result, found[0]) for size, result in zip(sizes, found, strict=True)]
        section.numbers[stage] = {str(size): result for size, result in zip(sizes, found, strict=True)}
    return section


def normalise_once(project: str, home: str) -> int:
    """Run the stage in a project; for a fresh process. Returns the rows it kept."""
    from stages.normalize import run

    with inside(Path(project)):
        report: Any = run(params(Path(home)), NAME)
    return int(report.kept)


def _repeated(stage: str, target: str, places: tuple[Path, Path], repeats: int) -> dict[str, Any]:
    runs = [in_fresh_process(target, *map(str, places), ready=f"stages.{stage}") for _ in range(repeats)]
    rows = int(runs[0]["result"])
    cpu = statistics.median(run["cpu"] for run in runs)
    return {"rows": rows, "us_per_row": 1e6 * cpu / rows, "peak_mb": max(run["rss"] for run in runs) / 1e6}


def _row(stage: str, size: int, result: dict[str, Any], first: dict[str, Any]) -> tuple[str, ...]:
    growth = result["us_per_row"] / first["us_per_row"]
    small = result is first
    return (
        stage,
        f"{size:,}",
        f"{result['us_per_row']:,.1f}",
        "" if small else f"{growth:.2f}",
        "" if small else verdict(growth, GROWTH, at_least=False),
        f"{result['peak_mb']:,.0f}",
        verdict(result["peak_mb"], MEMORY, at_least=False),
    )
