"""Commands around the cards of a release, `oresmith cards check` and `oresmith report`: doors to one module each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

WRONG_SHOWN = 50
cards = typer.Typer(no_args_is_help=True, help="The cards of a release.")


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(cards, name="cards")
    app.command()(report)


@cards.callback()
def _cards() -> None:
    """The cards of a release."""


@cards.command()
def check(
    source: Annotated[Path, typer.Argument(help="a project, a bundle, or a folder of one repository")] = Path(),
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Compute every number of the cards again from the file that it names. Leaves with 1 where one is wrong."""
    from oresmith.errors import shown
    from oresmith.release.cards.check import check_cards

    found = check_cards(source)
    if as_json:
        told = [{"card": one.card, "where": one.where, "what": one.what} for one in found.wrong]
        print(json.dumps({"cards": found.cards, "numbers": found.numbers, "wrong": told}, indent=2))
    else:
        for one in found.wrong[:WRONG_SHOWN]:
            print(shown(f"{one.card}: {one.where}: {one.what}"))
        if found.wrong[WRONG_SHOWN:]:
            print(f"and {len(found.wrong) - WRONG_SHOWN} more")
        print(f"{found.numbers} numbers on {len(found.cards)} cards, {len(found.wrong)} faults")
    if found.wrong:
        raise typer.Exit(1)


def report(
    out: Annotated[Path, typer.Option("--out", help="the page to write")] = Path("report.html"),
) -> None:
    """Write one page of the release at hand that needs no network, with what the run took on this machine."""
    from oresmith.params import load_params
    from oresmith.release.cards.make import report as write

    write(load_params(), out)
    print(out.as_posix())
