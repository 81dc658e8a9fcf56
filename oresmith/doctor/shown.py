"""A diagnosis on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from oresmith.doctor import Diagnosis
from oresmith.errors import shown

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "later": "cyan"}


def print_diagnosis(found: Diagnosis, console: Console | None = None) -> None:
    """Print findings, needs, and in one last line whether the run can start."""
    out = console or Console()
    table = Table("topic", "status", "found", title=f"Doctor: {found.profile}", title_justify="left")
    for one in found.findings:
        text = shown(one.what) + (f"\nto do: {shown(one.todo)}" if one.todo else "")
        table.add_row(one.topic, Text(one.status, STYLES[one.status]), Text(text))
    out.print(table)
    if found.needs:
        title = f"Estimates for {found.reckoned_on}; rows {found.facts.basis}"
        table = Table("stage", "work", "time", "memory", "GPU", "disk", title=title, title_justify="left")
        for need in found.needs:
            gpu = "" if need.device_gib is None else f"{need.device_gib:.1f} GiB"
            table.add_row(
                Text(need.stage),
                Text(need.what),
                told(need.seconds),
                f"{need.memory_gib:.1f} GiB",
                gpu,
                f"{need.disk_gib:.2f} GiB",
            )
        known = sum(need.seconds or 0.0 for need in found.needs)
        disk = sum(need.disk_gib for need in found.needs)
        table.add_row("all", "", told(known), "", "", f"{disk:.2f} GiB", style="bold")
        out.print(table)
        out.print(Text("Times and sizes are estimates; what they rest on stands in oresmith/doctor/rates.py."))
    out.print(Text(verdict(found), STYLES["fail" if found.failed else "ok"]))


def verdict(found: Diagnosis) -> str:
    """The last line."""
    failed = sum(one.status == "fail" for one in found.findings)
    later = sum(one.status == "later" for one in found.findings)
    if failed:
        return f"{failed} things must be changed before this can run"
    if found.plan:
        return f"the plan holds; {later} things are the matter of the machine that will run it"
    return "this can run here"


def told(seconds: float | None) -> str:
    """A time in the unit that fits; what depends on others is unknown."""
    if seconds is None:
        return "unknown"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
