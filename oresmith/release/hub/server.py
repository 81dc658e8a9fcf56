"""Start a Hub: in a process of its own for `publish`, in the foreground for the command, in threads for tests."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from oresmith.arena.server.loopback import listen, url_of
from oresmith.errors import OresmithError
from oresmith.release.hub.accounts import Account, Accounts
from oresmith.release.hub.hook import Hook
from oresmith.release.hub.hub import PART_BYTES, Hub
from oresmith.release.hub.log import RequestLog
from oresmith.release.hub.names import repository
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.store import opened

if TYPE_CHECKING:
    import uvicorn

DEFAULT_OWNERS = ("oresmith",)
_END_S = 15


@dataclass(frozen=True)
class Served:
    """A Hub that runs."""

    endpoint: str
    """For `HF_ENDPOINT` and `HfApi(endpoint=...)`: `http://127.0.0.1:PORT`."""
    token: str = field(repr=False)
    """A write token."""
    pid: int
    """Of the process that serves."""


def account_of(owners: Sequence[str] = DEFAULT_OWNERS, token: str | None = None) -> Account:
    """The account that may write what the owners have; its name is the first of them.

    Raises:
        OresmithError: a name that no owner can have; a token that cannot stand in a header.
    """
    try:
        for owner in owners:
            repository(owner, "any")
    except Refusal as refusal:
        raise OresmithError(refusal.message, where="owner", got=owner) from None
    if not owners:
        raise OresmithError("a Hub needs an owner", where="owner")
    if token is None:
        return Account(owners[0], tuple(owners))
    if not (token.isascii() and token.isprintable() and 8 <= len(token) <= 200 and " " not in token):
        raise OresmithError("not a token", where="token", expected="8 to 200 visible ASCII characters")
    return Account(owners[0], tuple(owners), token=token)


@contextmanager
def serve(
    root: Path, *, port: int = 0, token: str | None = None, owners: Sequence[str] = DEFAULT_OWNERS
) -> Iterator[Served]:
    """Serve the Hub that lies in `root` from a process of its own, for as long as the context lasts.

    The process ends with the context, and with this process however that dies. What it holds outlives it: serving the
    same root again goes on.

    Args:
        root: a folder; made when absent.
        port: 0 takes any free one.
        token: the write token; a random one where none is given.
        owners: the account's name, then organisations that it may write too.

    Raises:
        OresmithError: the port is taken, the root is no Hub's, another server has it, a bad name or token.
    """
    account = account_of(owners, token)
    order = {"root": str(root.absolute()), "port": port, "token": account.token, "owners": list(owners)}
    command = [sys.executable, "-m", "oresmith.release.hub"]
    quiet = {name: value for name, value in os.environ.items() if name != "HF_TOKEN"}
    pipe = subprocess.PIPE
    # a group of its own: Ctrl-C is for who publishes, and that one ends this
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=quiet, process_group=0) as process:  # noqa: S603
        assert process.stdin is not None and process.stdout is not None
        try:
            # by a pipe: a command line and an environment are read by others; its end is the order to stop
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(order).encode() + b"\n")
                process.stdin.flush()
            told = json.loads(process.stdout.readline() or b"{}")
            if "endpoint" not in told:
                raise OresmithError(**told) if "what" in told else OresmithError("the Hub did not start")
            yield Served(told["endpoint"], account.token, process.pid)
        finally:
            with suppress(OSError):
                process.stdin.close()
            process.terminate()  # where a fork of this process still holds the pipe
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def serve_here(
    root: Path,
    accounts: Sequence[Account],
    *,
    port: int = 0,
    hook: Hook | None = None,
    part_bytes: int = PART_BYTES,
) -> Iterator[Served]:
    """Serve in threads of this process: for tests, which give several accounts, or a hook that makes faults.

    Args:
        root: as for `serve`.
        accounts: the first one's token is in the result.
        port: as for `serve`.
        hook: called before and after each request.
        part_bytes: large files beyond it are uploaded in parts.

    Raises:
        OresmithError: as for `serve`.
    """
    with _prepared(root, accounts, port, hook, part_bytes) as (server, listening):
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="hub", daemon=True)
        thread.start()
        try:
            yield Served(url_of(listening), accounts[0].token, os.getpid())
        finally:
            server.should_exit = True
            thread.join()


def serve_until_signal(root: Path, account: Account, *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it (SIGINT, SIGTERM); requests under way are answered first.

    Args:
        root: as for `serve`.
        account: who may write.
        port: as for `serve`.
        ready: called with the endpoint once connections are taken.

    Raises:
        OresmithError: as for `serve`.
    """
    with _prepared(root, [account], port) as (server, listening):
        ready(url_of(listening))
        with suppress(KeyboardInterrupt):  # uvicorn raises it again once all is answered
            server.run(sockets=[listening])


def serve_parent() -> None:
    """Serve the process that started this one, which gives the order by standard input, until that is closed."""
    order = json.loads(sys.stdin.buffer.readline() or b"{}")
    if not order:
        return
    account = Account(order["owners"][0], tuple(order["owners"]), token=order["token"])
    try:
        with _prepared(Path(order["root"]), [account], order["port"]) as (server, listening):
            print(json.dumps({"endpoint": url_of(listening)}), flush=True)
            threading.Thread(target=_stop_at_end, args=[server], daemon=True).start()
            server.run(sockets=[listening])
    except OresmithError as error:
        print(json.dumps({name: getattr(error, name) for name in ("what", "where", "expected", "got", "todo")}))


def _stop_at_end(server: uvicorn.Server) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    server.should_exit = True


@contextmanager
def _prepared(
    root: Path,
    accounts: Sequence[Account],
    port: int,
    hook: Hook | None = None,
    part_bytes: int = PART_BYTES,
) -> Iterator[tuple[uvicorn.Server, socket.socket]]:
    """The server of the API and the socket on which it listens; the one of large files runs already."""
    try:
        import uvicorn

        from oresmith.arena.server.patience import patient
        from oresmith.release.hub.app import application
        from oresmith.release.hub.storage import storing
    except ModuleNotFoundError as error:
        todo = "pip install 'oresmith[arena]'"
        raise OresmithError("the embedded Hub needs the extra `arena`", got=str(error), todo=todo) from None
    hook = hook or Hook()
    with opened(root) as store, listen(port) as listening, listen(0) as beside:
        hub = Hub(store, Accounts(accounts), url_of(listening), url_of(beside), part_bytes)
        log = RequestLog(root / "requests.jsonl")
        settings = uvicorn.Config(
            application(hub, log, hook),
            log_level="warning",
            access_log=False,  # its lines would hold signatures
            server_header=False,
            lifespan="off",
            limit_concurrency=256,
            timeout_keep_alive=75,  # longer than clients keep a connection: they send nothing into a closed one
            http=patient(60),
            timeout_graceful_shutdown=5,
        )
        with storing(beside, hub, log, hook):
            yield uvicorn.Server(settings), listening
