"""The engine `openai`: any OpenAI-compatible server, asked for many replies at once and believed in nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import Any

import anyio
import httpx
import orjson
from anyio.from_thread import start_blocking_portal
from msgspec.structs import replace

from oresmith.arena.server.config import Secret, Upstream
from oresmith.arena.server.replies import RefusedError
from oresmith.arena.server.upstream import LONGEST_WAIT_S, Remote
from oresmith.errors import OresmithError
from oresmith.evaluation.engines.model import ids_sha256, messages_of
from oresmith.evaluation.records import ChatReply, ChatRequest, Finish, Sampling
from oresmith.models.tokenizer import ChatTokenizer

TIMEOUT_S = 600.0
RETRIES = 6
"""After the first try; with the waits of `Upstream` about 35 s in all."""
BACKOFF_S = 1.0
_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size)|max_model_len|maximum context|too many tokens|too long", re.I
)
"""How servers say, with status 400, that prompt and answer do not fit."""
_FINISH: dict[object, Finish] = {"length": "length", "stop": "stop", "tool_calls": "stop", "function_call": "stop"}
_CONTEXT = ("max_model_len", "context_length", "max_context_length")
"""Names of a model's context in the lists of vLLM and SGLang, OpenRouter, and others."""
_FINISH |= {None: "stop", "eos_token": "stop", "stop_sequence": "stop"}


class RawTokens:
    """How the tokens that a server gives beside its reply are read.

    Args:
        tokenizer: of the model served.
        ends: tokens that end a reply.
    """

    def __init__(self, tokenizer: ChatTokenizer, ends: Sequence[int]) -> None:
        self._tokenizer, self._ends = tokenizer, frozenset(ends)
        self.asked = {"return_token_ids": True, "skip_special_tokens": False, "stop_token_ids": sorted(ends)}
        """What a request must ask for beyond OpenAI's own keys."""

    def text(self, ids: list[int]) -> str:
        """All that the model wrote, its end token aside."""
        return self._tokenizer.decode(ids[:-1] if ids and ids[-1] in self._ends else ids)


class OpenAIEngine:
    """Asks a server. A request that comes to nothing is answered `error`, and the others go on.

    Args:
        url: the server's base, as in "https://host/v1".
        model: the name that the server knows the model by.
        key: of the server.
        batch: requests at the same time.
        max_context: tokens of prompt and answer together; None asks the server.
        raw: reads the tokens of a server that gives them.
        timeout_s: of one try.
        retries: further tries.
        backoff_s: wait before the first of them; doubled each time, at most 10 s.

    Raises:
        OresmithError: an address that is none, a server that cannot be reached, refuses the key, lacks the model, or
            does not say how much it reads where `max_context` does not either.
    """

    name = "openai"

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: Secret,
        batch: int = 16,
        max_context: int | None = None,
        raw: RawTokens | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        upstream = Upstream(url=url, key=key, model=model, timeout_s=timeout_s, retries=retries, backoff_s=backoff_s)
        self._model, self._raw = model, raw
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            self._server = self._portal.call(_Server, upstream)
            stack.callback(self._portal.call, self._server.close)
            self._limit = self._portal.call(anyio.CapacityLimiter, batch)
            self.reads = self._portal.call(self._server.context)
            """Tokens that the server says it reads; None where it does not."""
            if self.reads is None and max_context is None:
                raise OresmithError(
                    "the server does not say how many tokens it reads",
                    where=self._server.name,
                    todo="set rollout.max_context",
                )
            self._stack = stack.pop_all()
        self.context = min(known for known in (self.reads, max_context) if known is not None)

    def identity(self) -> dict[str, Any]:
        """The server's name of the model: nothing more is known of one that is only served."""
        return {"engine": self.name, "served_model": self._model}

    def close(self) -> None:
        """Let the connections go."""
        self._stack.close()

    def chat(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[ChatReply]:
        """One reply a request, in their order."""
        waiting = self._portal.start_task_soon(self._all, requests, sampling)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()
            raise

    async def _all(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[ChatReply]:
        replies: dict[int, ChatReply] = {}

        async def one(place: int, request: ChatRequest) -> None:
            async with self._limit:
                began = perf_counter()
                reply = await self._one(request, sampling)
                replies[place] = replace(reply, seconds=perf_counter() - began)

        async with anyio.create_task_group() as group:
            for place, request in enumerate(requests):
                group.start_soon(one, place, request)
        return [replies[place] for place in range(len(requests))]

    async def _one(self, request: ChatRequest, sampling: Sampling) -> ChatReply:
        try:
            answer = await self._server.complete(self._body(request, sampling))
        except RefusedError as refused:
            if refused.status == 400 and _TOO_LONG.search(refused.message):
                return ChatReply(key=request.key, text="", finish="context")
            return _failed(request, refused.message)
        return self._read(request, answer)

    def _body(self, request: ChatRequest, sampling: Sampling) -> dict[str, Any]:
        body: dict[str, Any] = {
            "messages": messages_of(request.messages),
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": request.seed,
        }
        return body | ({"tools": request.tools} if request.tools else {}) | (self._raw.asked if self._raw else {})

    def _read(self, request: ChatRequest, answer: dict[str, Any]) -> ChatReply:
        choice = answer["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        finish = _FINISH.get(reason) if isinstance(reason, str | None) else None
        content = message.get("content")
        if finish is None:
            return _failed(request, f"the server ended the reply in another way: {str(reason)[:80]}")
        if content is not None and not isinstance(content, str):
            return _failed(request, f"the server's message is no text but {type(content).__name__}")
        usage = answer.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        prompt = _ids(answer.get("prompt_token_ids"))
        said = _ids(choice.get("token_ids")) if self._raw else None
        raw = self._raw.text(said) if self._raw and said is not None else None
        return ChatReply(
            key=request.key,
            text=_text(message) if raw is None else raw,
            finish=finish,
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            prompt_sha256=ids_sha256(prompt) if prompt else None,
            tool_calls=_calls(message.get("tool_calls")) if raw is None else None,
        )


class _Server(Remote):
    """A server that is asked for its list of models, too."""

    async def context(self) -> int | None:
        """Tokens that the model reads; None where the server does not say.

        Raises:
            OresmithError: it cannot be reached, keeps failing, or refuses the key.
        """
        wait = self.upstream.backoff_s
        for tries_left in range(self.upstream.retries, -1, -1):
            status, data = await self._models()
            if status in (401, 403):
                raise OresmithError(
                    "the server refuses the key",
                    where=self.name,
                    got=str(status),
                    todo="set rollout.key_env to the variable that holds it",
                )
            if status and status < 500 and status != 429:
                return _reads(data, self.upstream.model) if status == 200 else None
            if tries_left:
                await anyio.sleep(min(wait, LONGEST_WAIT_S))
                wait *= 2
        raise OresmithError(
            "the server does not answer",
            where=self.name,
            got=str(status) if status else "no connection",
            todo="start it, or mend rollout.url",
        )

    async def _models(self) -> tuple[int, bytes]:
        """Status and body of the list; status 0 where nothing came."""
        url = self.upstream.url.rstrip("/") + "/models"
        data = bytearray()
        try:
            with anyio.fail_after(self.upstream.timeout_s):
                async with self._client.stream("GET", url) as response:
                    async for piece in response.aiter_bytes():
                        data += piece
                        if len(data) > self.upstream.reply_bytes:
                            return response.status_code, b""
                    return response.status_code, bytes(data)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, OSError):
            return 0, b""


def _reads(data: bytes, model: str | None) -> int | None:
    """The context of a model in a list of models, by the name that this kind of server has for it."""
    try:
        listed = orjson.loads(data)["data"]
        entry = next(one for one in listed if one["id"] == model)
        return next((known for key in _CONTEXT if (known := _count(entry.get(key)))), None)
    except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError, StopIteration):
        return None


def _failed(request: ChatRequest, why: str) -> ChatReply:
    return ChatReply(key=request.key, text="", finish="error", error=why)


def _text(message: dict[str, Any]) -> str:
    """What the model wrote, with the thinking that the server has parted from it."""
    said = message.get("content") or message.get("refusal")
    said = said if isinstance(said, str) else ""
    for key in ("reasoning_content", "reasoning"):
        thought = message.get(key)
        if isinstance(thought, str) and thought.strip():
            return f"<think>\n{thought.strip()}\n</think>\n\n{said}"
    return said


def _calls(calls: object) -> list[dict[str, Any]] | None:
    """Native calls as they came; what is none is wrapped, so that it is kept and counted as malformed."""
    if not calls:
        return None
    return [
        call if isinstance(call, dict) else {"malformed": call}
        for call in (calls if isinstance(calls, list) else [calls])
    ]


def _ids(value: object) -> list[int] | None:
    known = isinstance(value, list) and all(type(one) is int and 0 <= one < 2**32 for one in value)
    return value if known else None  # type: ignore[return-value]


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None
