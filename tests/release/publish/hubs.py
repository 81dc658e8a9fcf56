"""Hubs that misbehave on demand: a layer over the ASGI application of either Hub, and the Hubs it is laid over."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest

from tests.shared import SHARED

HUBD = SHARED.parent / "tools" / "hubd.py"
needs_hubd = pytest.mark.skipif(not HUBD.is_file(), reason="the reference Hub (../shared/tools/hubd.py) is not here")
Mode = Literal["503", "429", "412", "409", "lost", "hang", "kill_before", "kill_after", "meanwhile"]
FAULTS: tuple[Mode, ...] = ("503", "429", "412", "409", "lost", "hang")
KILLS: tuple[Mode, ...] = ("kill_before", "kill_after")
_HANG_S = 5
"""Well beyond the publisher's time-out; then the connection ends."""


@dataclass
class Trouble:
    """What goes wrong, and when."""

    mode: Mode | None = None
    at: int = -1
    """Which of the requests that `only` matches, from 0."""
    only: str = ""
    """Pattern of `METHOD /path`."""
    pid_file: Path | None = None
    """Names whom to kill."""
    seen: list[str] = field(default_factory=list)
    """Requests since `reset`."""
    struck: str = ""
    """The request that it happened to."""
    matched: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    """Of a refusal (embedded Hub only)."""
    meanwhile: Callable[[], object] = lambda: None
    """What somebody else does while the request waits (embedded Hub only)."""
    owed: str = ""
    """The request whose answer is to be lost."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reset(self, mode: Mode | None = None, at: int = -1, only: str = "") -> None:
        self.mode, self.at, self.only, self.seen, self.struck, self.matched = mode, at, only, [], "", 0

    def strikes(self, key: str) -> bool:
        with self.lock:
            self.seen.append(key)
            if not re.search(self.only, key):
                return False
            self.matched += 1
            if self.mode is None or self.matched - 1 != self.at:
                return False
            self.struck = key
            return True

    def wrap(self, app: Any) -> Any:
        """The application, with this trouble before it."""

        async def troubled(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            key = f"{scope['method']} {scope.get('raw_path', b'').decode()}"
            if not self.strikes(key):
                await app(scope, receive, send)
            elif self.mode in ("lost", "kill_after"):
                await app(scope, receive, _swallow)
                await self._drop(send)
            elif self.mode == "kill_before":
                await self._drop(send)
            elif self.mode == "hang":
                while (await receive())["type"] != "http.disconnect":
                    pass
            else:
                await _refuse(send, int(self.mode or 0))

        return troubled

    def kill(self) -> None:
        """End the publisher, where that is the trouble."""
        if self.mode in KILLS and self.pid_file is not None:
            with suppress(ProcessLookupError):
                os.kill(int(self.pid_file.read_text()), signal.SIGKILL)

    async def _drop(self, send: Any) -> None:
        """Announce a body and send none: the server closes the connection, and the answer is lost."""
        self.kill()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})


async def _swallow(_: Any) -> None:
    return


async def _refuse(send: Any, status: int) -> None:
    body = json.dumps({"error": "injected"}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@dataclass
class Running:
    """A Hub for tests."""

    endpoint: str
    token: str
    owner: str
    """Whose repositories the token may write."""
    trouble: Trouble
    tokens: dict[str, str]
    """Other tokens: `read` of the same owner, `other` of somebody else."""

    def get(self, path: str) -> Any:
        """The JSON answer of the API, asked without any of its clients."""
        request = urllib.request.Request(self.endpoint + path, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@contextmanager
def hubd_hub(root: Path, *, xet: bool = True) -> Iterator[Running]:
    """The reference Hub."""
    module, trouble, port = _hubd(), Trouble(), free_port()
    hub = module.Hub(root, f"http://127.0.0.1:{port}", f"http://localhost:{port}", xet)
    tokens = {"read": "hf_read", "other": "hf_other"}
    with _thread(trouble.wrap(module.make_app(hub)), port):
        yield Running(f"http://127.0.0.1:{port}", "hf_write", "acme", trouble, tokens)


@contextmanager
def embedded_hub(root: Path) -> Iterator[Running]:
    """Our own Hub."""
    from oresmith.release.hub.accounts import Account
    from oresmith.release.hub.server import serve_here

    accounts = [
        Account("alice", ("alice", "acme")),
        Account("alice", ("alice", "acme"), role="read"),
        Account("bob", ("bob",)),
    ]
    trouble = Trouble()
    with serve_here(root, accounts, hook=_hook(trouble)) as served:
        tokens = {"read": accounts[1].token, "other": accounts[2].token}
        yield Running(served.endpoint, served.token, "acme", trouble, tokens)


def _hook(trouble: Trouble) -> Any:
    """The same trouble as a hook of the embedded Hub, whose large files come to a server of their own."""
    from oresmith.release.hub.hook import Hook, Instead

    class Troubled(Hook):
        """Strikes before or after the work is done."""

        def before(self, method: str, path: str) -> Instead | None:
            key = f"{method} {path}"
            if not trouble.strikes(key):
                return None
            if trouble.mode in ("lost", "kill_after"):
                trouble.owed = key
                return None
            if trouble.mode == "meanwhile":
                trouble.meanwhile()
                return None
            if trouble.mode == "hang":
                threading.Event().wait(_HANG_S)
            trouble.kill()
            status = int(trouble.mode) if trouble.mode and trouble.mode.isdigit() else 0
            return Instead(status, trouble.headers)

        def after(self, method: str, path: str) -> Instead | None:
            if trouble.owed != f"{method} {path}":
                return None
            trouble.owed = ""
            trouble.kill()
            return Instead(0)

    return Troubled()


@contextmanager
def any_hub(kind: str, root: Path) -> Iterator[Running]:
    """`hubd` or `embedded`."""
    root.mkdir(parents=True, exist_ok=True)
    with hubd_hub(root) if kind == "hubd" else embedded_hub(root) as running:
        yield running


@cache
def _hubd() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_hubd", HUBD)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _thread(app: Any, port: int) -> Iterator[None]:
    import uvicorn

    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(128)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(10)
