"""Start a server: in the foreground for the command line, in a thread for tests and for runs that play through it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn

from oresmith.arena.documents import Shop
from oresmith.arena.server.app import Arena
from oresmith.arena.server.config import ServeConfig
from oresmith.arena.server.log import RequestLog
from oresmith.arena.server.patience import patient
from oresmith.arena.server.upstream import model_of
from oresmith.errors import OresmithError

HOST = "127.0.0.1"


def serve(shop: Shop, config: ServeConfig, *, ready: Callable[[str], None] | None = None) -> None:
    """Serve until a signal ends it (SIGINT, SIGTERM); requests under way are answered first.

    Args:
        shop: what is searched.
        config: everything else.
        ready: called with the base URL once connections are taken.

    Raises:
        OresmithError: a port in use, a log that cannot be continued, a secret that cannot be read, a model that cannot
            be used. A dead upstream is no reason: it is named in each answer and in /health.
    """
    with _prepared(shop, config) as (server, listening):
        if ready is not None:
            ready(_url(listening))
        with suppress(KeyboardInterrupt):  # uvicorn raises it again once all is answered
            server.run(sockets=[listening])


@contextmanager
def running(shop: Shop, config: ServeConfig) -> Iterator[str]:
    """Serve in a thread for as long as the context lasts; gives the base URL. Errors as in `serve`."""
    with _prepared(shop, config) as (server, listening):
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="arena-server", daemon=True)
        thread.start()
        try:
            yield _url(listening)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _prepared(shop: Shop, config: ServeConfig) -> Iterator[tuple[uvicorn.Server, socket.socket]]:
    """The server and the socket on which it listens; the log is whole on disk at the end."""
    model = model_of(config.model)
    admin_token, inference_key = config.admin_token.read(), config.inference_key.read()
    with _listen(config.port) as listening:
        log = RequestLog(config.log, keep_messages=config.log_messages)
        try:
            arena = Arena(shop, model, log, limits=config.limits, admin_token=admin_token, inference_key=inference_key)
            settings = uvicorn.Config(
                arena.app(),
                http=patient(config.limits.read_s),
                log_level="warning",
                access_log=False,  # a session's URL is its key
                server_header=False,
                lifespan="on",
                limit_concurrency=config.limits.connections,
                timeout_graceful_shutdown=10,
            )
            yield uvicorn.Server(settings), listening
        finally:
            log.close()


def _listen(port: int) -> socket.socket:
    """A socket that already queues connections, so that nobody has to wait for the server to be up."""
    # asyncio turns Nagle's delay (40 ms a call on a kept connection) off only where the protocol is named.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        todo = "stop what listens there, or choose another port (0 takes any free one)"
        got = getattr(error, "strerror", None) or str(error)
        raise OresmithError("the port cannot be used", where=f"{HOST}:{port}", got=got, todo=todo) from None
    return listening


def _url(listening: socket.socket) -> str:
    return f"http://{HOST}:{listening.getsockname()[1]}"
