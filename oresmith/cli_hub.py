"""`oresmith hub serve`: the embedded Hub as a command."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

hub = typer.Typer(no_args_is_help=True, help="the embedded Hub, a development tool on 127.0.0.1")
TOKEN = "HF_TOKEN"  # noqa: S105 (a name)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(hub, name="hub")


@hub.callback()
def group() -> None:
    """Keep `serve` a command of its own while it is the only one."""


@hub.command()
def serve(
    root: Annotated[Path, typer.Argument(help="folder of what it holds; made when absent")] = Path("hub"),
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="on 127.0.0.1; 0 takes a free one")] = 8932,
    owner: Annotated[list[str] | None, typer.Option(help="who may write; may be given again")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="holds the write token; made with mode 0600 when absent, else a new one is printed"),
    ] = None,
) -> None:
    """Serve a Hub on 127.0.0.1, for the clients of the Hugging Face Hub and for a browser, until Ctrl-C."""
    from oresmith.release.hub.server import DEFAULT_OWNERS, account_of, serve_until_signal
    from oresmith.release.hub.tokenfile import token_of

    account = account_of(owner or DEFAULT_OWNERS, None if token_file is None else token_of(token_file))

    def ready(endpoint: str) -> None:
        given = f'"$(cat {shlex.quote(os.fspath(token_file))})"' if token_file else account.token
        print(f"A Hub in {root}, for development: {endpoint} (Ctrl-C ends it). For the clients:")
        print(f"  export HF_ENDPOINT={endpoint} HF_HUB_DISABLE_XET=1")
        print(f"  export {TOKEN}={given}", flush=True)

    serve_until_signal(root, account, port=port, ready=ready)
