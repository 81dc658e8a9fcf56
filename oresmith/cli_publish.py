"""`oresmith publish`: a thin door to `oresmith.release.publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(publish)


def publish(
    version: Annotated[str, typer.Argument(help="X.Y.Z, which was cut")],
    *,
    endpoint: Annotated[
        str | None, typer.Option(help="a Hub's URL; default: HF_ENDPOINT, else the embedded Hub, started and stopped")
    ] = None,
    hub: Annotated[Path, typer.Option(help="where the embedded Hub keeps what it holds")] = Path("hub"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="of the embedded Hub; 0 takes a free one")] = 8932,
    private: Annotated[bool, typer.Option("--private", help="leave the repositories private")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="name every operation and do none")] = False,
) -> None:
    """Put a release on a Hub: staged, tagged, loaded back, then shown and put on `main`. Run again, it goes on.

    The token comes from HF_TOKEN or `hf auth login`.
    """
    from oresmith.release.publish.released import publish_release

    publish_release(version, endpoint=endpoint, hub=hub, port=port, private=private, dry_run=dry_run)
