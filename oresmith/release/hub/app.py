"""The API as an application: routes over the raw path, and what every answer goes through."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oresmith.release.hub.api import collections, commits, files, repositories, trees
from oresmith.release.hub.api.calls import answer, refused
from oresmith.release.hub.git import GitError
from oresmith.release.hub.hook import Hook, Instead
from oresmith.release.hub.hub import Hub
from oresmith.release.hub.log import RequestLog
from oresmith.release.hub.pages import views
from oresmith.release.hub.refusal import Refusal

logger = logging.getLogger(__name__)
HOSTS = ["127.0.0.1", "localhost"]
"""Names by which the server may be called: a page in a browser that has another name for it is refused."""


def application(hub: Hub, log: RequestLog, hook: Hook) -> ASGIApp:
    """The ASGI application of a Hub's API and pages.

    Args:
        hub: what it answers from.
        log: takes each request.
        hook: of tests.
    """
    app = Starlette(
        routes=[
            *repositories.ROUTES,
            *trees.ROUTES,
            *commits.ROUTES,
            *collections.ROUTES,
            *files.ROUTES,
            *views.ROUTES,
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
        exception_handlers={
            Refusal: _refused,
            GitError: _failed,
            OSError: _failed,
            HTTPException: _unknown,
            ClientDisconnect: _gone,
        },
    )
    app.router.redirect_slashes = False
    app.state.hub = hub
    return _Outer(app, log, hook)


class _Outer:
    """Gives the routes the raw path, the hook its turns, and the log its line."""

    def __init__(self, app: ASGIApp, log: RequestLog, hook: Hook) -> None:
        self._app, self._log, self._hook = app, log, hook

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, method, path = time.time(), scope["method"], scope["raw_path"].decode("latin-1")
        length = dict(scope["headers"]).get(b"content-length", b"0").decode("latin-1")
        note = partial(self._log.note, "api", began, method, path=path, length=length)
        exchange = _Exchange(self._hook, method, path, send, note)
        try:
            if instead := await to_thread.run_sync(self._hook.before, method, path, abandon_on_cancel=True):
                await exchange.replace(instead)
            else:
                await self._app({**scope, "path": path}, receive, exchange.send)
        finally:
            exchange.end()


class _Exchange:
    """The answer to one request on its way out."""

    def __init__(self, hook: Hook, method: str, path: str, send: Send, note: Callable[..., None]) -> None:
        self._hook, self._method, self._path, self._send, self._note = hook, method, path, send, note
        self._replaced = self._noted = False

    async def send(self, message: Message) -> None:
        """Pass a message on, unless the hook has another answer."""
        if message["type"] == "http.response.start":
            instead = await to_thread.run_sync(self._hook.after, self._method, self._path, abandon_on_cancel=True)
            if instead:
                await self.replace(instead)
            else:
                self.end(message["status"])
        if not self._replaced:
            await self._send(message)

    async def replace(self, instead: Instead) -> None:
        """Answer something else; a status of 0 promises a body and breaks off."""
        self._replaced = True
        self.end(instead.status)
        headers = [(name.lower().encode(), value.encode()) for name, value in instead.headers.items()]
        length = b"0" if instead.status else b"10"
        start = {"type": "http.response.start", "status": instead.status or 200}
        await self._send(start | {"headers": [*headers, (b"content-length", length), (b"connection", b"close")]})
        if instead.status:
            await self._send({"type": "http.response.body", "body": b""})

    def end(self, status: int = 0) -> None:
        """Note the request, once: before the answer goes out, so that whoever has the answer finds it in the log."""
        if not self._noted:
            self._noted = True
            self._note(status=status)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refused(error)


async def _failed(request: Request, error: Exception) -> Response:
    logger.error("%s", error)
    return answer({"error": "the Hub failed"}, 500)


async def _unknown(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return answer({"error": "This Hub has no such address, or not by this method"}, status)


async def _gone(request: Request, error: Exception) -> Response:
    return answer({"error": "the client left"}, 400)
