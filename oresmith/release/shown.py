"""Plans, differences and lists of releases as a terminal shows them, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oresmith.errors import shown
from oresmith.release.diff import Diff
from oresmith.release.history import Known
from oresmith.release.plan import Plan

_COLOURS = {"passed": "green", "failed": "red", "waived": "yellow"}


def print_plan(found: Plan, rows: int = 10) -> None:
    """Print a plan.

    Args:
        found: what would be released.
        rows: changed rows that are named, of each kind.
    """
    console = _console()
    parts = (("dataset", found.release.dataset), ("model", found.release.model))
    console.print(Text(f"release {found.version}, {found.state or 'planned'}", style="bold"))
    for name, part in parts:
        size = sum(file.bytes for file in part.files) / 1e6
        console.print(Text(shown(f"  {name}: {part.repository}, {len(part.files)} files, {size:,.1f} MB")))
    console.print(Text(f"  content {found.release.content_sha256}"), soft_wrap=True)
    console.print(Text(f"  code {found.release.code_tree}"), soft_wrap=True)
    table = Table("gate", "state")
    table.add_column("what was found", overflow="fold")
    for gate in found.gates:
        table.add_row(Text(gate.name), Text(gate.state, style=_COLOURS.get(gate.state, "")), Text(shown(gate.detail)))
    console.print(table)
    if found.unused_waivers:
        console.print(Text(f"these waivers waive nothing and can go: {', '.join(found.unused_waivers)}"))
    if found.diff is None:
        console.print(Text("the first release: any version may be chosen"))
    else:
        print_diff(found.diff, rows)
    verdict = f"nothing stops it: oresmith release cut {found.version}" if found.allowed else "a gate stops it"
    console.print(Text(verdict, style="bold"))


def print_diff(found: Diff, rows: int = 10) -> None:
    """Print the difference of two releases."""
    console = _console()
    console.print(Text(f"{found.old} -> {found.new}: least version {found.least}", style="bold"))
    counts = ", ".join(f"{count} {name}" for name, count in found.counts.items())
    console.print(Text(f"  rows: {counts}"))
    for change in ("removed", "edited", "moved", "added"):
        of_kind = [row for row in found.rows if row.change == change]
        for reason, number in Counter((row.config, row.reason) for row in of_kind).most_common():
            console.print(Text(shown(f"    {number} {change} in {reason[0]}: {reason[1]}")))
        for row in of_kind[:rows]:
            console.print(Text(shown(f"      {row.config} {row.row_id}: {row.reason}")), soft_wrap=True)
    for name in ("added", "removed", "retyped"):
        columns: tuple[str, ...] = getattr(found.columns, name)
        if columns:
            console.print(Text(shown(f"  columns {name}: {', '.join(columns)}")))
    for key, (old, new) in found.parameters.items():
        console.print(Text(shown(f"  {key}: {_short(old)} -> {_short(new)}")))
    if found.code:
        console.print(Text(f"  code: {found.code[0][:12]} -> {found.code[1][:12]}"))
    for score in found.scores:
        rates = f"{score.old or 'none'} -> {score.new or 'none'}"
        console.print(Text(shown(f"  {score.model}: {rates}: {score.difference}")))
    console.print(Text("  files: " + ", ".join(f"{count} {name}" for name, count in found.files.items())))


def print_list(found: Sequence[Known]) -> None:
    """Print the releases of a project."""
    if not found:
        _console().print(Text("no release was cut yet"))
        return
    table = Table("version", "state")
    for name in ("dataset", "model", "content", ""):
        table.add_column(name, overflow="fold")
    for one in found:
        release = one.release
        told = one.yanked.reason if one.yanked else one.published.endpoint if one.published else ""
        table.add_row(
            *map(
                Text,
                (
                    one.version,
                    one.state,
                    release.dataset.repository,
                    release.model.repository,
                    release.content_sha256[:12],
                    shown(told),
                ),
            )
        )
    _console().print(table)


def plan_json(found: Plan) -> str:
    """A plan as one JSON document."""
    return _json(msgspec.to_builtins(found) | {"allowed": found.allowed})


def diff_json(found: Diff) -> str:
    """A difference as one JSON document."""
    return _json(found)


def list_json(found: Sequence[Known]) -> str:
    """The releases of a project as one JSON document."""
    return _json(
        [
            {
                "version": one.version,
                "state": one.state,
                "content_sha256": one.release.content_sha256,
                "dataset": one.release.dataset.repository,
                "model": one.release.model.repository,
                "published": one.published,
                "yanked": one.yanked,
            }
            for one in found
        ]
    )


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:77] + "..."


def _console() -> Console:
    return Console(soft_wrap=False)
