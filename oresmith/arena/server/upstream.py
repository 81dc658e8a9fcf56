"""Where inference goes: an OpenAI-compatible server, asked patiently and believed in nothing, or a policy in Python."""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

import anyio
import httpx
import orjson
from anyio import to_thread

from oresmith.arena.server.config import Policy, Upstream
from oresmith.arena.server.replies import RefusedError
from oresmith.arena.server.scripted import NAMED, completion
from oresmith.errors import OresmithError

LONGEST_WAIT_S = 10.0
PASSED_ON = frozenset({400, 404, 413, 422})
"""Statuses that tell the agent of its own fault; every other one is the upstream's."""
BUSY = frozenset({429, 503})


class Model(Protocol):
    """Who answers inference."""

    name: str
    """For people: a host or a policy, never a key."""

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """A chat completion. Raises RefusedError, nothing else."""

    async def close(self) -> None:
        """Let connections go."""


def model_of(chosen: Upstream | Policy | str) -> Model:
    """The model that a configuration names.

    Raises:
        OresmithError: an unknown name, or a URL that is none.
    """
    if isinstance(chosen, Upstream):
        return Remote(chosen)
    if not isinstance(chosen, str):
        return Scripted(chosen, getattr(chosen, "__name__", "policy"))
    if chosen not in NAMED:
        raise OresmithError("there is no such policy", got=chosen[:80], expected=f"a URL or one of {', '.join(NAMED)}")
    return Scripted(NAMED[chosen], chosen)


class Scripted:
    """A Python policy, run in a thread."""

    def __init__(self, policy: Policy, name: str) -> None:
        self.policy, self.name = policy, name

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """What the policy says. Raises RefusedError (502) for whatever it raises."""
        try:
            return completion(body, await to_thread.run_sync(self.policy, body))
        except Exception as error:
            raise RefusedError(502, f"the policy {self.name} failed: {type(error).__name__}") from None

    async def close(self) -> None:
        """Nothing to do."""


class Remote:
    """An OpenAI-compatible server.

    Raises:
        OresmithError: the URL is none, or its key cannot be read.
    """

    def __init__(self, upstream: Upstream) -> None:
        parts = _parts(upstream.url)
        if parts is None or parts.hostname is None:
            expected = "http:// or https:// and a host, without user, password, query and fragment"
            raise OresmithError("the upstream's URL cannot be used", where="upstream", expected=expected)
        self.upstream, self.name = upstream, parts.hostname
        self._url = upstream.url.rstrip("/") + "/chat/completions"
        self._key = upstream.key.read()
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        local = parts.hostname in ("127.0.0.1", "::1", "localhost")  # never by way of a proxy
        self._client = httpx.AsyncClient(headers=headers, timeout=upstream.timeout_s, trust_env=not local)

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """The upstream's completion, after at most `retries` further tries.

        Raises:
            RefusedError: 503 where it is busy; 502 where it is dead, too slow, faulty, or talks rubbish; its own 400,
                404, 413, 422.
        """
        asked = {**body, "stream": False} | ({"model": self.upstream.model} if self.upstream.model else {})
        wait = self.upstream.backoff_s
        for tries_left in range(self.upstream.retries, -1, -1):
            fault, asked_wait = await self._try(asked)
            if isinstance(fault, dict):
                return fault
            if fault.status not in (502, 503) or not tries_left:
                raise fault
            await anyio.sleep(min(max(wait, asked_wait), LONGEST_WAIT_S))
            wait *= 2
        raise AssertionError  # the last try returns or raises

    async def _try(self, body: dict[str, Any]) -> tuple[dict[str, Any] | RefusedError, float]:
        """One try: the completion or what is wrong, and the seconds that the upstream asks to wait."""
        try:
            content = orjson.dumps(body)
            with anyio.fail_after(self.upstream.timeout_s):
                status, headers, data = await self._post(content)
        except TimeoutError:
            return self._fault(502, f"did not answer within {self.upstream.timeout_s:g} s"), 0.0
        except TypeError:
            return RefusedError(400, "the body is not JSON that can be passed on"), 0.0
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return self._fault(502, f"cannot be reached ({type(error).__name__})"), 0.0
        return self._judge(status, data), _seconds(headers.get("retry-after"))

    def _judge(self, status: int, data: bytes) -> dict[str, Any] | RefusedError:
        if status in BUSY:
            return self._fault(503, f"is busy ({status})")
        if status in PASSED_ON:
            return self._fault(status, f"refuses the request ({status}): {self._said(data)}")
        if status != 200:
            return self._fault(502, f"answered {status}")
        return _completion(data) or self._fault(502, "answered with no chat completion")

    async def _post(self, content: bytes) -> tuple[int, httpx.Headers, bytes]:
        headers = {"content-type": "application/json"}
        data = bytearray()
        async with self._client.stream("POST", self._url, content=content, headers=headers) as response:
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > self.upstream.reply_bytes:
                    return 502, response.headers, b""
            return response.status_code, response.headers, bytes(data)

    def _fault(self, status: int, what: str) -> RefusedError:
        return RefusedError(status, f"the upstream {self.name} {what}")

    def _said(self, data: bytes) -> str:
        """What the upstream says of a refusal, shortened; it may quote its key."""
        try:
            error = orjson.loads(data)["error"]
            text = str(error["message"] if isinstance(error, dict) else error)
        except (orjson.JSONDecodeError, TypeError, KeyError, IndexError):
            return "no reason given"
        return text.replace(self._key, "[key]")[:300] if self._key else text[:300]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _parts(url: str) -> SplitResult | None:
    """The parts of a URL that can be a base; None for any other."""
    try:
        parts = urlsplit(url)
        httpx.URL(url)
        known = bool(parts.hostname) and parts.port != 0  # a port that is none raises
    except (ValueError, httpx.InvalidURL):
        return None
    rest = parts.username or parts.password or parts.query or parts.fragment
    clean = url.isascii() and url.isprintable() and " " not in url
    return parts if parts.scheme in ("http", "https") and known and clean and not rest else None


def _completion(data: bytes) -> dict[str, Any] | None:
    """The reply if it is a chat completion: an object whose first choice has a message, and that can be sent on."""
    try:
        reply = orjson.loads(data)
        known = isinstance(reply["choices"][0]["message"], dict)
        orjson.dumps(reply)  # nests less deeply than `loads` does
    except (orjson.JSONDecodeError, TypeError, KeyError, IndexError):
        return None
    return reply if known and isinstance(reply, dict) else None


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else 0.0
