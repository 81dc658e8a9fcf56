"""`oresmith verify`: a thin door to `oresmith.release.verify`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from oresmith.errors import OresmithError


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(verify)


def verify(
    source: Annotated[
        str, typer.Argument(help="a folder (a bundle, a downloaded repository, data/audit), or org/name@tag")
    ],
    *,
    corpus: Annotated[Path | None, typer.Option(help="the certificate alone, against the data files here")] = None,
    endpoint: Annotated[str | None, typer.Option(help="URL of the Hub; default: HF_ENDPOINT")] = None,
    public_key: Annotated[Path | None, typer.Option(help="whoever holds its private key must have signed")] = None,
    identity: Annotated[str | None, typer.Option(help="who must have signed, as a certificate names it")] = None,
    issuer: Annotated[str | None, typer.Option(help="OIDC provider of --identity")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Check a release: files, rows, funnel, certificate, cards, model and scores. Leaves with 1 where one fails."""
    folder = Path(source)
    if corpus is not None or _certificate_alone(folder):
        _certificate(folder, corpus)
        return
    from oresmith.release.verify.checks import verify as run
    from oresmith.release.verify.opened import Keys
    from oresmith.release.verify.shown import as_json as listed
    from oresmith.release.verify.shown import print_report
    from oresmith.release.verify.source import open_source

    if (identity is None) != (issuer is None):
        raise OresmithError("an identity and its provider belong together", where="--identity, --issuer")

    def tell(line: str) -> None:
        typer.echo(line, err=True)

    keys = Keys(public_key, identity, issuer)
    with open_source(source, endpoint=endpoint, keys=keys, tell=tell) as opened:
        report = run(opened, lambda result: tell(f"{result.name}: {result.state}"))
    if as_json:
        print(json.dumps(listed(report), indent=2))
    else:
        print_report(report)
    if not report.held:
        raise typer.Exit(1)


def _certificate_alone(folder: Path) -> bool:
    """A project's data/audit, or a corpus with its certificate: no release was made of it yet."""
    ours = ("release.json", "scores", "funnel.json")
    return (folder / "certificate").is_dir() and not any((folder / name).exists() for name in ours)


def _certificate(folder: Path, corpus: Path | None) -> None:
    from oresmith.audit.verify import verify_folder

    beside = folder.parent / "corpus"
    if corpus is None and not (folder / "README.md").exists() and beside.is_dir():
        corpus = beside  # a project's data/audit: its data files lie in data/corpus
        print(f"data files: {beside}")
    if not verify_folder(folder, corpus):
        raise typer.Exit(1)
