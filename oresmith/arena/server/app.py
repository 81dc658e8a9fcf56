"""The application: SN15's proxy paths, for the default session and below `/s/<token>` for every other one."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

import anyio
import orjson
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from oresmith.arena import tools
from oresmith.arena.documents import Shop
from oresmith.arena.server.config import Limits
from oresmith.arena.server.log import RequestLog
from oresmith.arena.server.replies import RefusedError
from oresmith.arena.server.sessions import Session, Sessions, bearer, same_token
from oresmith.arena.server.upstream import Model

logger = logging.getLogger(__name__)
JSON = "application/json"
HOSTS = ["127.0.0.1", "localhost"]
"""Names by which the server may be called: a page in a browser that has another name for it is refused."""


@dataclass
class Exchange:
    """One request, as its handler understands it, for the answer and for the log."""

    request: Request
    session: Session
    params: dict[str, list[str]] = field(default_factory=dict)
    json_data: Any = None


Handler = Callable[[Exchange], Awaitable[Any]]
"""Gives the body of the answer, or raises RefusedError."""


class Arena:
    """The handlers, over one shop, one model and one log."""

    def __init__(
        self,
        shop: Shop,
        model: Model,
        log: RequestLog,
        *,
        limits: Limits,
        admin_token: str | None,
        inference_key: str | None,
    ) -> None:
        self.shop, self.model, self.log, self.limits, self.admin_token = shop, model, log, limits, admin_token
        self.toolbox = tools.Toolbox(shop)
        self.sessions = Sessions(limits, inference_key)
        self.threads = CapacityLimiter(limits.searches)
        self.refused_by_model = ""
        self._now = 0

    def app(self) -> Starlette:
        """The ASGI application."""
        scoped: list[tuple[str, str, Handler]] = [
            ("GET", "/search/find_product", self.find_product),
            ("GET", "/search/view_product_information", self.view_product_information),
            ("POST", "/inference/chat/completions", self.infer),
            ("POST", "/tools/{name}", self.tool),
        ]
        routes = [
            Route(prefix + path, self.exchange(handler), methods=[method])
            for prefix in ("", "/s/{token}")
            for method, path, handler in scoped
        ]
        routes += [
            Route("/health", self.health, methods=["GET"]),
            Route("/sessions", self.open_session, methods=["POST"]),
            Route("/s/{token}", self.close_session, methods=["DELETE"]),
        ]
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
        handlers = {404: _refused, 405: _refused}
        return Starlette(routes=routes, middleware=[hosts], lifespan=self._lifespan, exception_handlers=handlers)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await self.model.close()
        self.log.close()  # here: after it, uvicorn lets a SIGTERM end the process

    def exchange(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint that counts, times, answers and logs what the handler does."""

        async def endpoint(request: Request) -> Response:
            session = self.sessions.find(request.path_params.get("token"))
            if session is None:
                return answer(404, RefusedError(404, "there is no such session").body())
            began = time.perf_counter()
            exchange = Exchange(request, session, _params(request))
            try:
                status, body = 200, await self._within(exchange, handler)
                data = orjson.dumps(body)
            except RefusedError as refused:
                status, body = refused.status, refused.body()
                data = orjson.dumps(body)
                if not refused.logged:
                    return Response(data, status, media_type=JSON)
            except ClientDisconnect:
                status, body, data = 400, None, b""
            except Exception as error:
                logger.error("%s: %s", request.scope["route"].path, type(error).__name__)
                status, body = 500, RefusedError(500, "the server failed").body()
                data = orjson.dumps(body)
            try:
                self._log(exchange, began, status, body)
            except OSError as error:  # what the log does not hold must not have happened for the client either
                logger.error("the request log cannot be written: %s", error.strerror)
                return answer(500, RefusedError(500, "the request log cannot be written").body())
            return Response(data, status, media_type=JSON)

        return endpoint

    async def _within(self, exchange: Exchange, handler: Handler) -> Any:
        """What the handler answers, counted in and out of the session."""
        exchange.session.enter(self.limits)
        try:
            return await handler(exchange)
        finally:
            exchange.session.leave()

    def _log(self, exchange: Exchange, began: float, status: int, body: Any) -> None:
        request, token = exchange.request, exchange.request.path_params.get("token")
        # Measured before the clock is read: a pause between the two must not put the start before the client's.
        duration = round((time.perf_counter() - began) * 1000, 1)
        self._now = max(self._now, time.time_ns() // 1_000_000)  # a clock that is set back would disorder the log
        self.log.record(
            exchange.session.name,
            request.method,
            request.scope["path"][len(f"/s/{token}") if token else 0 :],  # the URL is of the client's `Host`
            timestamp=self._now,
            duration_ms=duration,
            status=status,
            params=exchange.params or None,
            json_data=exchange.json_data,
            response=body,
        )

    async def find_product(self, exchange: Exchange) -> Any:
        """A page of products. Agents quote `q` before their client quotes it again, so it is unquoted once more."""
        arguments = _first(exchange.params)
        if "q" in arguments:
            arguments["q"] = unquote_plus(arguments["q"])
        return await to_thread.run_sync(tools.search, self.shop, arguments, limiter=self.threads)

    async def view_product_information(self, exchange: Exchange) -> Any:
        """Details of products."""
        return await to_thread.run_sync(tools.view, self.shop, _first(exchange.params), limiter=self.threads)

    async def tool(self, exchange: Exchange) -> Any:
        """Any of the four tools; the body holds its parameters."""
        exchange.json_data = await self._body(exchange.request)
        name = exchange.request.path_params["name"]
        result = await to_thread.run_sync(self.toolbox.call, name, exchange.json_data, limiter=self.threads)
        return {"result": result}

    async def infer(self, exchange: Exchange) -> Any:
        """A chat completion, never streamed."""
        body = exchange.json_data = await self._body(exchange.request)  # first, for the log
        if not exchange.session.may_infer(exchange.request.headers.get("authorization")):
            raise RefusedError(401, "inference needs the session's key as bearer token")
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            raise RefusedError(400, "the body must be an object with a list of messages")
        if body.get("stream"):
            raise RefusedError(400, "streaming is not offered: leave `stream` out or set it to false")
        try:
            return await self.model.complete(body)
        except RefusedError as refusal:
            self.refused_by_model = refusal.message
            raise

    async def health(self, request: Request) -> Response:
        """What runs here, and the last fault of the model."""
        state = {"status": "ok", "model": self.model.name, "sessions": len(self.sessions)}
        return answer(200, state | ({"model_fault": self.refused_by_model} if self.refused_by_model else {}))

    async def open_session(self, request: Request) -> Response:
        """Open the session of a run and a problem: its base URL, for `SANDBOX_PROXY_URL`, and its inference key."""
        try:
            self._admin(request)
            body = await self._body(request)
            run_id, problem_id = (body.get(key) if isinstance(body, dict) else None for key in ("run_id", "problem_id"))
            if self.log.known(f"{run_id}/{problem_id}"):
                raise RefusedError(409, "the log holds a session of this run and problem")
            token, session = self.sessions.open(run_id, problem_id)
        except RefusedError as refusal:
            return answer(refusal.status, refusal.body())
        base = f"{request.base_url}s/{token}"
        return answer(201, {"session": session.name, "base_url": base, "inference_key": session.inference_key})

    async def close_session(self, request: Request) -> Response:
        """Close a session: its URL answers 404 from now on."""
        try:
            self._admin(request)
            session = self.sessions.close(request.path_params["token"])
            if session is None:
                raise RefusedError(404, "there is no such session")
        except RefusedError as refusal:
            return answer(refusal.status, refusal.body())
        return answer(200, {"session": session.name, "requests": session.requests})

    def _admin(self, request: Request) -> None:
        if self.admin_token is None:
            raise RefusedError(403, "this server was started without an admin token: no session can be opened")
        if not same_token(bearer(request.headers.get("authorization")), self.admin_token):
            raise RefusedError(401, "this needs the admin token as bearer token")

    async def _body(self, request: Request) -> Any:
        data = bytearray()
        try:
            with anyio.fail_after(self.limits.read_s):
                async for piece in request.stream():
                    data += piece
                    if len(data) > self.limits.body_bytes:
                        raise RefusedError(413, f"the body is larger than {self.limits.body_bytes} bytes")
        except TimeoutError:
            raise RefusedError(408, "the body did not arrive in time") from None
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            raise RefusedError(400, "the body is not JSON") from None


async def _refused(request: Request, error: Exception) -> Response:
    """No such path, or not by this method: JSON as every refusal, with the paths that there are."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    message = "no such path or method: GET /search/find_product, GET /search/view_product_information, " + (
        "POST /inference/chat/completions, POST /tools/{name}, POST /sessions, GET /health"
    )
    return answer(status, {"error": {"message": message, "type": "invalid_request_error", "code": "not_found"}})


def answer(status: int, body: Any) -> Response:
    """A JSON response."""
    return Response(orjson.dumps(body), status, media_type=JSON)


def _params(request: Request) -> dict[str, list[str]]:
    params: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        params.setdefault(name, []).append(value)
    return params


def _first(params: dict[str, list[str]]) -> dict[str, str]:
    return {name: values[0] for name, values in params.items()}
