"""Requests that end: a client with time-outs, and bounded repetition of what may pass by itself."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from oresmith.errors import OresmithError
from oresmith.release.publish.target import Patience, PublishError, Target

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfApi

Answer = TypeVar("Answer")
# 409 and 412: somebody else was faster, or an answer was lost; what stands there is looked at before the next try.
_PASSING = frozenset({408, 409, 412, 425, 429, 500, 502, 503, 504})
_ASKING = frozenset({429, 503})
_AGAIN = "run it again: it goes on where it stopped"
_token: ContextVar[str] = ContextVar("_token", default="")
_XET = ("HF_XET_CLIENT_READ_TIMEOUT", "HF_XET_CLIENT_CONNECT_TIMEOUT")


def make_client(patience: Patience) -> httpx2.Client:
    """The client of `huggingface_hub`, which waits for ever by default, with time-outs."""
    import httpx2
    from huggingface_hub.utils._http import hf_request_event_hook

    def refuse_long_waits(response: httpx2.Response) -> None:
        asked = asked_wait(response) if response.status_code in _ASKING else None
        if asked is not None and asked > patience.longest_asked:
            raise PublishError(
                f"the Hub asks for a pause of {asked:.0f} seconds",
                where=f"{response.request.method} {response.request.url.path}",
                expected=f"at most {patience.longest_asked:.0f}",
                todo="run it again later",
            )

    return httpx2.Client(
        event_hooks={"request": [hf_request_event_hook], "response": [refuse_long_waits]},
        follow_redirects=True,
        timeout=httpx2.Timeout(patience.timeout),
    )


@contextmanager
def patient_requests(target: Target) -> Iterator[None]:
    """Within the block all requests of `huggingface_hub` and of Xet have time-outs, and no refusal shows the token.

    Raises:
        PublishError: the client is told to stay offline, and the Hub is not on this machine.
    """
    from huggingface_hub import constants, set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    offline = constants.HF_HUB_OFFLINE
    if offline and not target.local:
        raise PublishError("the Hub's client is told to stay offline", where="HF_HUB_OFFLINE", todo="unset it")
    for name in _XET:  # read by the Rust side when its first session starts
        os.environ.setdefault(name, f"{max(1, round(target.patience.timeout))}s")
    constants.HF_HUB_OFFLINE = False
    set_client_factory(lambda: make_client(target.patience))
    hidden = _token.set(target.token)
    try:
        yield
    finally:
        _token.reset(hidden)
        set_client_factory(default_client_factory)
        constants.HF_HUB_OFFLINE = offline


@contextmanager
def fitting_transport(target: Target, kind: str, name: str) -> Iterator[str]:
    """Within the block large files travel as this Hub takes them: by Xet, or by LFS where it does not know Xet.

    Yields:
        "xet" or "lfs".
    """
    from huggingface_hub import constants
    from huggingface_hub.utils._runtime import is_xet_available

    if not is_xet_available():
        yield "lfs"
    elif _knows_xet(target, kind, name):
        yield "xet"
    else:
        constants.HF_HUB_DISABLE_XET = True
        try:
            yield "lfs"
        finally:
            constants.HF_HUB_DISABLE_XET = False


@contextmanager
def ending_xet(seconds: float) -> Iterator[None]:
    """End Xet's session when the block takes longer: its Rust side waits for ever for some answers (a shard's).

    Raises:
        TimeoutError: it took longer.
    """
    from huggingface_hub.utils import _xet

    ended = threading.Event()

    def end() -> None:
        ended.set()
        _xet.abort_xet_session()  # type: ignore[no-untyped-call]

    watch = threading.Timer(seconds, end)
    watch.daemon = True
    watch.start()
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if not ended.is_set():
            raise
        raise TimeoutError(f"Xet did not end within {seconds:.0f} seconds") from error
    finally:
        watch.cancel()


def open_api(target: Target) -> HfApi:
    """The Hub's API with the target's token."""
    from huggingface_hub import HfApi

    return HfApi(endpoint=target.endpoint, token=target.token)


def patiently(work: Callable[[], Answer], patience: Patience, what: str, todo: str = "") -> Answer:
    """Do something that may be done twice until it works, a bounded number of times.

    Args:
        work: reads, or finds out by itself what an earlier try has done.
        patience: tries and waits.
        what: the step, as an error names it.
        todo: after an error, in place of what a publisher is told.

    Raises:
        PublishError: the fault is not of the passing kind, or did not pass.
    """
    for attempt in range(patience.tries):
        try:
            return work()
        except OresmithError:
            raise
        except Exception as error:
            if not passes(error) or attempt == patience.tries - 1:
                raise refusal(error, what, todo) from error
            rest(patience, attempt, error)
    raise AssertionError("a patience has at least one try")


def rest(patience: Patience, attempt: int, error: Exception | None) -> None:
    """Wait between two tries; somewhat less than is allowed, so that several publishers do not march in step."""
    response = getattr(cause(error), "response", None) if error is not None else None
    asked = asked_wait(response) if response is not None else None
    seconds = patience.wait(attempt, asked)
    time.sleep(seconds if asked is not None else seconds * random.uniform(0.5, 1))  # noqa: S311


def asked_wait(response: httpx2.Response) -> float | None:
    """Seconds that the Hub asks to wait, by `Retry-After`; None where it names none (or a date, which nobody sends)."""
    text = response.headers.get("Retry-After", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def cause(error: BaseException) -> BaseException:
    """The error itself: LFS uploads wrap it in a RuntimeError."""
    while isinstance(error, RuntimeError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def passes(error: BaseException) -> bool:
    """Whether the same request may well work in a moment."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    found = cause(error)
    if isinstance(found, OfflineModeIsEnabled):
        return False
    if isinstance(found, HfHubHTTPError):
        return status_of(found) in _PASSING
    if type(found) in (ConnectionError, RuntimeError):  # Xet: the status stands in the text alone
        return not any(mark in str(found) for mark in ("401", "403", "Unauthorized", "Forbidden"))
    # JSON that is none: what a gateway says in place of the Hub
    return isinstance(found, (httpx2.TransportError, ConnectionError, TimeoutError, json.JSONDecodeError))


def status_of(error: BaseException) -> int | None:
    """HTTP status of an error; None where there is none."""
    response = getattr(cause(error), "response", None)
    return None if response is None else int(response.status_code)


def refusal(error: Exception, what: str, todo: str = "") -> PublishError:
    """The error as users see it, without the token; `todo` takes the place of what a publisher is told."""
    from huggingface_hub.errors import HfHubHTTPError

    found = cause(error)
    if isinstance(found, OresmithError):
        return PublishError(
            found.what, where=found.where, expected=found.expected, got=_hidden(found.got), todo=found.todo
        )
    told = todo or _AGAIN
    if isinstance(found, HfHubHTTPError):
        status = status_of(found)
        said = found.server_message or str(found).partition("\n")[0]
        if status in (401, 403, 404) and not todo:
            told = "give a token that may write there (HF_TOKEN, or `hf auth login`), and check the repository's name"
        return PublishError(f"the Hub refuses, or fails, to {what}", got=f"{status}: {_hidden(said)[:300]}", todo=told)
    return PublishError(
        f"the Hub could not be asked to {what}", got=_hidden(f"{type(found).__name__}: {found}")[:300], todo=told
    )


def _hidden(said: str) -> str:
    """A text without the token, as it is or as Python writes it."""
    token = _token.get()
    for written in {token, repr(token)[1:-1]} - {""}:
        said = said.replace(written, "(the token)")
    return said


def fetch(url: str, target: Target) -> bytes:
    """The answer to one GET with the target's token, as `huggingface_hub` asks; not repeated here.

    Raises:
        HfHubHTTPError: the Hub answers with an error.
        httpx2.TransportError: it does not answer.
    """
    from huggingface_hub.utils._headers import build_hf_headers
    from huggingface_hub.utils._http import get_session, hf_raise_for_status

    response = get_session().get(url, headers=build_hf_headers(token=target.token))
    hf_raise_for_status(response)
    return bytes(response.content)


def _knows_xet(target: Target, kind: str, name: str) -> bool:
    url = f"{target.endpoint}/api/{kind}s/{name}/xet-write-token/main"

    def ask() -> bool:
        try:
            fetch(url, target)
        except Exception as error:
            if status_of(error) in (404, 405, 501):
                return False
            raise
        return True

    return patiently(ask, target.patience, "say whether it knows Xet")
