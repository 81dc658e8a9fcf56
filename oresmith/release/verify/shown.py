"""The table of checks as a terminal shows it, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from oresmith.errors import shown
from oresmith.release.verify.found import Report

COLOURS = {"ok": "green", "failed": "red", "not computed": "yellow"}


def print_report(report: Report, console: Console | None = None) -> None:
    """Print a line a check, then each finding with its item, file and row."""
    out = console or Console()
    title = f"{report.kind} {shown(report.source)}, version {shown(report.version or 'none')}"
    table = Table("check", "state", "what was looked at", title=Text(title), title_justify="left")
    for result in report.results:
        said = shown(result.said) if result.said or result.state == "failed" else result.proves
        table.add_row(Text(result.name), Text(result.state, COLOURS[result.state]), Text(said[:400]))
    out.print(table)
    for result in report.results:
        for finding in result.findings:
            out.print(Text(f"FAIL {result.name}: {shown(finding.sentence())}"), soft_wrap=True)
        if result.more:
            out.print(Text(f"FAIL {result.name}: and {result.more:,} more"))
    if report.yanked is not None:
        out.print(Text(f"YANKED: this release was withdrawn: {shown(report.yanked)}", "yellow"), soft_wrap=True)
    undone = [result.name for result in report.results if result.state == "not computed"]
    out.print(
        Text(
            f"the release {'holds' if report.held else 'does NOT hold'}"
            + (f"; not computed: {', '.join(undone)}" if undone else "")
        )
    )


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "source": report.source,
        "kind": report.kind,
        "version": report.version,
        "yanked": report.yanked,
        "held": report.held,
        "checks": [
            {**result._asdict(), "findings": [finding._asdict() for finding in result.findings]}
            for result in report.results
        ],
    }
