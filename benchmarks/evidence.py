"""Rows per second of the stage `evidence`, and what each signal of it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.measure import Section, Settings, SkippedError, rounds, verdict
from benchmarks.normalising import normalise
from benchmarks.project import NAME, inside, params, project

TARGET = 200.0
"""Rows per second and core, reading and writing included."""
ROWS = 1_000
"""All of different dialogues. The first round pays for loading the tokenizer, and the median leaves it out."""
STAGE = "whole stage"


def bench(settings: Settings) -> Section:
    """The stage as it runs, then each signal alone over the same trajectories in memory."""
    try:
        from oresmith.evidence.signals import build_signals
        from stages import evidence as stage
    except ImportError as error:
        raise SkippedError(f"the stage `evidence` is not there ({error})") from error
    rows = min(settings.rows, ROWS)
    where, home = project(settings, rows, distinct=rows)
    normalise(where, home, True, "zstd")
    chosen = params(home)
    with inside(where):
        world = stage.world_of(NAME, Path("data") / "normalize" / NAME)
        signals = build_signals(chosen.evidence, world)
        trajectories = _trajectories(where)
        work: dict[str, Any] = {STAGE: lambda: stage.run(chosen, NAME)}
        work |= {signal.name: lambda s=signal: [s.facts(t) for t in trajectories] for signal in signals}
        spent = rounds(work, settings.repeats)
    return _section(spent, len(trajectories))


def _trajectories(where: Path) -> list[Any]:
    from oresmith.blocks.accounts import Accounts
    from oresmith.blocks.writers import TrajectoryReader

    reader = TrajectoryReader(where / "data" / "normalize" / NAME / "trajectories", Accounts(where / "accounts"))
    return [document.metadata["trajectory"] for document in reader.run()]


def _section(spent: dict[str, float], rows: int) -> Section:
    whole = spent[STAGE]
    section = Section(
        f"Evidence: {rows:,} trajectories of different dialogues, one core",
        ("work", "rows/s", "us/row", "share of the stage", "target"),
        notes=["the stage's own share is reading, typed decoding, writing and the contract check."],
    )
    signals = {name: seconds for name, seconds in spent.items() if name != STAGE}
    rest = {"reading, writing, checking": max(0.0, whole - sum(signals.values()))}
    for name, seconds in {STAGE: whole, **dict(sorted(signals.items(), key=lambda s: -s[1])), **rest}.items():
        rate = rows / seconds if seconds else float("inf")
        target = verdict(rate, TARGET) if name == STAGE else ""
        section.rows.append((name, f"{rate:,.0f}", f"{1e6 / rate:,.0f}", f"{seconds / whole:.1%}", target))
        section.numbers[name] = {"rows_per_second": rate, "share": seconds / whole}
    return section
