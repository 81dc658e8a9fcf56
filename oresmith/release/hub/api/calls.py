"""What every endpoint does alike: read the request in bounds, work in a thread, answer or refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
import orjson
from anyio import to_thread
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oresmith.errors import shown
from oresmith.release.hub import names
from oresmith.release.hub.accounts import Account, may_read, require_write
from oresmith.release.hub.hub import Hub
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.repository import Repository

MAX_BODY = 16 << 20
"""Bytes of a body that is read whole."""
JSON = "application/json"
T = TypeVar("T")


class _Part(Convertor[str]):
    """One part of the raw path, unquoted after it was cut out: revisions carry a quoted `/`."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value, errors="replace")

    def to_string(self, value: str) -> str:
        return value


class _Rest(_Part):
    """The rest of the raw path."""

    regex = ".*"


class _Kind(_Part):
    """What the Hub holds, in addresses of the API."""

    regex = "models|datasets"


class _Datasets(_Part):
    """What stands before the id of a dataset, and of nothing else, in addresses of pages and files."""

    regex = "datasets"


register_url_convertor("hub_kind", _Kind())
register_url_convertor("hub_datasets", _Datasets())
register_url_convertor("hub_part", _Part())
register_url_convertor("hub_rest", _Rest())


@dataclass
class Call:
    """One request."""

    hub: Hub
    request: Request
    body: bytes = b""

    def part(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def query(self, name: str) -> str | None:
        """A parameter of the address."""
        return self.request.query_params.get(name)

    def asked(self, name: str) -> bool:
        """Whether a parameter of the address says yes."""
        return (self.query(name) or "").lower() in ("1", "true")

    def account(self) -> Account | None:
        """Who calls.

        Raises:
            Refusal: 401, a token that nobody has.
        """
        return self.hub.accounts.holder(self.request.headers.get("authorization"))

    def writer(self, owner: str) -> Account:
        """Who calls, where it may write what is the owner's. Raises as `require_write`."""
        return require_write(self.account(), owner)

    def json(self, form: type[T]) -> T:
        """The body.

        Raises:
            Refusal: 400.
        """
        try:
            return msgspec.json.decode(self.body or b"{}", type=form)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Refusal(400, f"Invalid body: {error}") from None

    def kind(self) -> names.Kind:
        """Of the repository that the path names; a path without one means a model."""
        return names.kind_of(self.request.path_params.get("kind", "models"))

    def repository(self, *, write: bool = False) -> Repository:
        """The repository that the path names.

        Raises:
            Refusal: 404 where there is none that this account may see (401 without a token); as `writer` for `write`.
        """
        account = self.account()
        try:
            found = self.hub.store.repository(self.kind(), self.part("owner"), self.part("name"))
        except Refusal:
            found = None
        if found is None or (found.settings.private and not may_read(account, found.owner)):
            if account is None:
                raise Refusal(401, "Invalid username or password.", "RepoNotFound")
            raise Refusal(404, "Repository not found", "RepoNotFound")
        if write:
            require_write(account, found.owner)
        return found


Handler = Callable[[Call], Response]
Streamed = Callable[[Call], Awaitable[Response]]


def route(methods: str, path: str, handler: Handler) -> Route:
    """A route to a handler that works in a thread, with the whole body.

    Args:
        methods: with spaces between.
        path: over the raw path; `{name:hub_part}` and `{path:hub_rest}` are unquoted.
        handler: gives the answer, or raises Refusal.
    """

    async def endpoint(request: Request) -> Response:
        hub: Hub = request.app.state.hub
        call = Call(hub, request, await _body(request.stream()))
        return await to_thread.run_sync(handler, call)

    return Route(path, endpoint, methods=methods.split())


def streamed(methods: str, path: str, handler: Streamed) -> Route:
    """A route to a handler that reads the body itself."""

    async def endpoint(request: Request) -> Response:
        return await handler(Call(request.app.state.hub, request))

    return Route(path, endpoint, methods=methods.split())


async def _body(pieces: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > MAX_BODY:
            raise Refusal(413, f"A body of more than {MAX_BODY} bytes")
    return bytes(body)


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None, media: str = JSON) -> Response:
    """A JSON response."""
    return Response(orjson.dumps(body), status, headers=headers, media_type=media)


def refused(refusal: Refusal) -> Response:
    """A refusal, as the clients read it: the text in body and header, what is missing in `X-Error-Code`."""
    message = shown(refusal.message)
    headers = {"X-Error-Message": message.encode("ascii", "replace").decode()}
    if refusal.code is not None:
        headers["X-Error-Code"] = refusal.code
    if refusal.commit is not None:
        headers["X-Repo-Commit"] = refusal.commit
    return answer({"error": message} | refusal.body, refusal.status, headers)
