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
from oresmith.arena.server.loopback import listen, url_of
from oresmith.arena.server.patience import patient
from oresmith.arena.server.upstream import model_of


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
            ready(url_of(listening))
        with suppress(KeyboardInterrupt):  # uvicorn raises it again once all is answered
            server.run(sockets=[listening])


@contextmanager
def running(shop: Shop, config: ServeConfig) -> Iterator[str]:
    """Serve in a thread for as long as the context lasts; gives the base URL. Errors as in `serve`."""
    with _prepared(shop, config) as (server, listening):
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="arena-server", daemon=True)
        thread.start()
        try:
            yield url_of(listening)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _prepared(shop: Shop, config: ServeConfig) -> Iterator[tuple[uvicorn.Server, socket.socket]]:
    """The server and the socket on which it listens; the log is whole on disk at the end."""
    model = model_of(config.model)
    admin_token, inference_key = config.admin_token.read(), config.inference_key.read()
    with listen(config.port) as listening:
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
