"""Commands of a release's life: `oresmith release plan | cut | rehearse | list | diff | yank | unyank`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

release = typer.Typer(no_args_is_help=True, help="a release from plan to yank (docs/releasing.md)")
Version = Annotated[str, typer.Argument(help="X.Y.Z")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="name every operation and do none")]
HubFolder = Annotated[Path, typer.Option(help="where the embedded Hub keeps what it holds")]
HubPort = Annotated[int, typer.Option(min=0, max=65535, help="of the embedded Hub")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON document")]
Endpoint = Annotated[str | None, typer.Option(help="the Hub's URL; default: where the release was published")]
BUNDLE_NAME = "bundle"
"""Of what would be released, as `diff` takes and tells it."""
WITHOUT = 1
"""Exit code of a plan that a gate stops."""


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(release, name="release")


@release.command()
def plan(
    as_json: AsJson = False,
    rows: Annotated[int, typer.Option(min=0, help="changed rows that are named, of each kind")] = 10,
) -> None:
    """Show what would be released: the difference to the last release, the least version, every gate.

    Leaves with 1 where a gate stops it.
    """
    from oresmith.release.plan import plan as look
    from oresmith.release.shown import plan_json, print_plan

    found = look()
    if as_json:
        typer.echo(plan_json(found))
    else:
        print_plan(found, rows)
    if not found.allowed:
        raise typer.Exit(WITHOUT)


@release.command()
def cut(version: Version, dry_run: DryRun = False) -> None:
    """Freeze the bundle into git: one commit with its tag, and push of the DVC cache where a remote is set."""
    from oresmith.release.cut import cut as freeze

    found = freeze(version, dry_run=dry_run)
    if found is not None:
        typer.echo(f"release {version}: commit {found.commit[:12]}, tag {found.tag}")


@release.command()
def rehearse(port: HubPort = 8932) -> None:
    """Cut, publish to the embedded Hub and verify in a scratch clone (runs/release); the checkout stays as it is."""
    from oresmith.release.rehearsal import rehearse as run

    run(port=port)


@release.command("list")
def list_releases(as_json: AsJson = False) -> None:
    """List the releases that were cut, with their states."""
    from oresmith.release.history import known_releases
    from oresmith.release.shown import list_json, print_list

    found = known_releases()
    if as_json:
        typer.echo(list_json(found))
    else:
        print_list(found)


@release.command()
def diff(
    old: Annotated[str, typer.Argument(help="X.Y.Z, or `bundle` for what would be released")],
    new: Annotated[str, typer.Argument(help="the same")],
    as_json: AsJson = False,
    rows: Annotated[int, typer.Option(min=0, help="changed rows that are named, of each kind")] = 10,
) -> None:
    """Show what changed between two releases: rows by id and reason, columns, parameters, scores, code."""
    import msgspec

    from oresmith.release.diff import bundle_side, compare, frozen_side
    from oresmith.release.layout import BUNDLE
    from oresmith.release.shown import diff_json, print_diff

    told = (("old", old), ("new", new))
    sides = [bundle_side(BUNDLE) if name == BUNDLE_NAME else frozen_side(name) for _, name in told]
    found = compare(sides[0], sides[1])
    # the bundle may be of the very version that it is compared with
    found = msgspec.structs.replace(found, **{side: name for side, name in told if name == BUNDLE_NAME})
    if as_json:
        typer.echo(diff_json(found))
    else:
        print_diff(found, rows)


@release.command()
def yank(
    version: Version,
    reason: Annotated[str, typer.Option(help="one line: why nobody should use it")],
    *,
    endpoint: Endpoint = None,
    hub: HubFolder = Path("hub"),
    port: HubPort = 8932,
    dry_run: DryRun = False,
) -> None:
    """Take a published release off `main`; its tag still loads, and its card says why."""
    from oresmith.release.life import yank_release

    yank_release(version, reason, endpoint=endpoint, hub=hub, port=port, dry_run=dry_run)


@release.command()
def unyank(
    version: Version,
    *,
    endpoint: Endpoint = None,
    hub: HubFolder = Path("hub"),
    port: HubPort = 8932,
    dry_run: DryRun = False,
) -> None:
    """Undo a yank."""
    from oresmith.release.life import unyank_release

    unyank_release(version, endpoint=endpoint, hub=hub, port=port, dry_run=dry_run)
