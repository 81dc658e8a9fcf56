"""Run the benchmarks: `python -m benchmarks.run [--rows 20000] [--only NAME] [--dir DIRECTORY]`.

Prints a table for each, and writes the numbers of the run to benchmarks/results.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Section, Settings, SkippedError

NAMES = (
    "throughput",
    "evidence",
    "gate",
    "scaling",
    "corpus_build",
    "leak_recall",
    "noop",
    "arena_http",
    "arena_world",
    "arena_search",
    "rescoring",
    "batching",
    "sft",
    "hub",
)
RESULTS = Path(__file__).resolve().parent / "results.json"


def main() -> None:
    """Parse the command line, run what was asked for, print and store."""
    parser = argparse.ArgumentParser(prog="benchmarks.run", description="CPU time, median of several rounds.")
    parser.add_argument("--rows", type=int, default=20_000, help="envelopes of the small data set")
    parser.add_argument("--repeats", type=int, default=5, help="rounds, of which the median counts")
    parser.add_argument("--only", choices=NAMES, action="append", help="may be given several times")
    parser.add_argument(
        "--dir", type=Path, help="keeps bench data, about 6 GB at 20,000 rows, between runs (default: a temporary one)"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oresmith-bench-") as scratch:
        home = (asked.dir or Path(scratch)).resolve()
        home.mkdir(parents=True, exist_ok=True)
        run(Settings(home, asked.rows, asked.repeats), tuple(asked.only or NAMES))


def run(settings: Settings, names: tuple[str, ...]) -> None:
    """Run the named benchmarks in order; what cannot run here is skipped with a line that says why."""
    console = Console(width=140)
    results: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine()}
    results |= {"rows": settings.rows, "repeats": settings.repeats, "skipped": {}}
    for name in names:
        bench: Callable[[Settings], Section] = import_module(f"benchmarks.{name}").bench
        try:
            section = bench(settings)
        except SkippedError as skip:
            console.print(f"[yellow]skipped {name}[/yellow]: {skip}")
            results["skipped"][name] = str(skip)
            continue
        _print(console, section)
        results[name] = {"title": section.title, "numbers": section.numbers, "notes": section.notes}
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    console.print(f"numbers: {RESULTS.relative_to(RESULTS.parent.parent)}")


def _print(console: Console, section: Section) -> None:
    table = Table(title=section.title, title_justify="left")
    for number, column in enumerate(section.columns):
        table.add_column(column, justify="right" if number else "left")
    for row in section.rows:
        table.add_row(*row)
    console.print(table)
    for note in section.notes:
        console.print(f"  {note}")


if __name__ == "__main__":
    main()
