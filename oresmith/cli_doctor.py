"""Commands around a run: `oresmith doctor`, `oresmith profile`. Each is a thin door to one module."""

from __future__ import annotations

import json
from typing import Annotated

import typer

ProfileName = typer.Option(
    "--profile", help="profiles/NAME.yaml over params.yaml; params.yaml alone where none is named"
)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(doctor)
    app.command()(profile)


def doctor(
    *,
    profile: Annotated[str | None, ProfileName] = None,
    plan: Annotated[
        bool, typer.Option(help="estimate for a machine that is not this one: its hardware is not asked")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Say what a run needs in memory, time and disk, and what will not fit. Leaves with 2 where something fails."""
    import msgspec

    from oresmith.doctor import diagnose
    from oresmith.doctor.shown import print_diagnosis

    found = diagnose(profile, plan=plan)
    if as_json:
        print(json.dumps(msgspec.to_builtins(found), indent=2))
    else:
        print_diagnosis(found)
    if found.failed:
        raise typer.Exit(2)


def profile(name: Annotated[str, typer.Argument(help="of profiles/NAME.yaml")]) -> None:
    """Make runs/NAME, the project directory that a profile runs in; `dvc repro` there starts it or goes on."""
    from oresmith.profiles import prepare

    print(prepare(name).as_posix())
