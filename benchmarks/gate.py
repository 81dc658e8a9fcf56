"""Rows per second of the stage `gate` over stored evidence: reading, contract checks, all gates, rejects, writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.measure import Section, Settings, SkippedError, rounds, verdict
from benchmarks.project import inside, params
from benchmarks.tiled import SOURCE_ROWS, tiled_evidence

TARGET = 20_000.0
"""Rows per second."""


def bench(settings: Settings) -> Section:
    """The whole stage, and the gates alone over the table in memory."""
    try:
        from oresmith.gates import decide
        from stages import gate as stage
    except ImportError as error:
        raise SkippedError(f"the stage `gate` is not there ({error})") from error
    where, home = tiled_evidence(settings, settings.rows)
    chosen = params(home)
    with inside(where):
        table = stage.read_evidence(chosen.snapshots[0].name)
        work: dict[str, Any] = {
            "stage gate": lambda: stage.run(chosen),
            "gates alone, table in memory": lambda: decide([table], chosen.gate),
        }
        for warm in work.values():
            warm()
        spent = rounds(work, settings.repeats)
    section = Section(
        f"Gate: {table.height:,} rows of stored evidence, one core",
        ("work", "rows/s", "us/row", "target"),
        notes=[f"the evidence of {SOURCE_ROWS:,} trajectories, repeated under other identities."],
    )
    for name, seconds in spent.items():
        rate = table.height / seconds
        target = verdict(rate, TARGET) if name == "stage gate" else ""
        section.rows.append((name, f"{rate:,.0f}", f"{1e6 / rate:,.1f}", target))
        section.numbers[name] = {"rows_per_second": rate}
    return section


def gate_once(project: str, home: str) -> int:
    """Run the stage in a project that `tiled_evidence` made; for a fresh process. Returns the rows it decided."""
    from stages import gate as stage

    with inside(Path(project)):
        report: Any = stage.run(params(Path(home)))
    return int(report.read)
