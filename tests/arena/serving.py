"""A running server over the tiny shop, a client as SN15's agents have one, and an upstream that does as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import httpx

from oresmith.arena.server.config import Secret, ServeConfig
from oresmith.records import ProxyCall

ADMIN, KEY = "admin-token-of-the-test", "inference-key-of-the-test"


def config(home: Path, **changes: Any) -> ServeConfig:
    """A configuration with both secrets in files."""
    for name, secret in (("admin", ADMIN), ("key", KEY)):
        (home / name).write_text(f"{secret}\n", "ascii")
    made = ServeConfig(
        log=home / "log" / "witness.jsonl",
        port=0,
        admin_token=Secret(file=home / "admin"),
        inference_key=Secret(file=home / "key"),
    )
    return replace(made, **changes)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def open_session(url: str, run_id: Any = "run-1", problem_id: Any = "problem-1") -> dict[str, Any]:
    body = {"run_id": run_id, "problem_id": problem_id}
    made = httpx.post(f"{url}/sessions", json=body, headers=bearer(ADMIN))
    assert made.status_code == 201, made.text
    opened: dict[str, Any] = made.json()
    return opened


class Agent:
    """Calls as an agent with SN15's proxy client does: the query quoted twice, tries repeated, a call logged once."""

    def __init__(self, base_url: str, key: str | None = None, tries: int = 3) -> None:
        self.base, self.key, self.tries = base_url, key, tries
        self.log: list[ProxyCall] = []
        self.client = httpx.Client(trust_env=False)

    def find(self, q: str, **filters: Any) -> Any:
        return self.get("/search/find_product", {"q": quote_plus(q), "page": 1, "shop_id": None, **filters})

    def chat(self, text: str, **body: Any) -> Any:
        asked = {"model": "m", "messages": [{"role": "user", "content": text}], **body}
        return self.post("/inference/chat/completions", asked)

    def get(self, path: str, params: dict[str, Any]) -> Any:
        given = {name: value for name, value in params.items() if value is not None}
        return self._call("GET", path, {"params": given}, {"params": given})

    def post(self, path: str, body: dict[str, Any]) -> Any:
        headers = bearer(self.key) if self.key and "/inference/" in path else {}
        kept = {name: value for name, value in body.items() if name != "messages"}
        return self._call("POST", path, {"json": body, "headers": headers}, {"json_data": kept})

    def _call(self, method: str, path: str, sent: dict[str, Any], kept: dict[str, Any]) -> Any:
        began, result, status = time.perf_counter(), None, None
        for _ in range(self.tries):
            answer = self.client.request(method, self.base + path, **sent)
            if answer.status_code == 200:
                result, status = answer.json(), 200
                break
        length = len(json.dumps(result))
        if status and length > 2000:
            kept |= {"response_truncated": True, "response_length": length}
            if path.endswith("find_product"):
                kept["result_product_ids"] = [one["product_id"] for one in result]
        elif status:
            kept["response"] = result
        ended = time.time_ns() // 1_000_000  # before the duration: a pause between the two must not move the start on
        self.log.append(
            ProxyCall(
                kind="summary",
                method=method,
                path=path,
                duration_ms=round((time.perf_counter() - began) * 1000, 1),
                timestamp=ended,
                status_code=status,
                **kept,
            )
        )
        return result


class FakeUpstream:
    """An HTTP server that gives the planned answers in turn, the last one for ever, and keeps what it was asked."""

    def __init__(self, *planned: tuple[int, bytes]) -> None:
        self.planned = list(planned)
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.url = ""


@contextmanager
def upstream(*planned: tuple[int, bytes], wait: threading.Event | None = None) -> Iterator[FakeUpstream]:
    """Run one; with `wait` it answers only once that is set."""
    fake = FakeUpstream(*planned)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            fake.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
            if wait is not None:
                wait.wait(30)
            status, data = fake.planned[min(len(fake.asked), len(fake.planned)) - 1]
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def chat_completion(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}], "usage": None}).encode()
