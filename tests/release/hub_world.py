"""A Hub for tests: three accounts, a way to ask it anything, and the real clients in processes of their own."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from oresmith.release.hub.accounts import Account
from oresmith.release.hub.hook import Hook
from oresmith.release.hub.server import serve_here
from tests.code_deps import ROOT

WRITER = Account("alice", ("alice", "acme"))
READER = Account("alice", ("alice", "acme"), role="read")
STRANGER = Account("bob", ("bob",))


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class World:
    """A Hub that runs."""

    endpoint: str
    root: Path

    def ask(
        self,
        method: str,
        path: str,
        *,
        by: Account | None = WRITER,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Ask the way no client of the Hub would: `path` goes out as it is, or to the server that a URL names."""
        parts = urlsplit(path if path.startswith("http") else self.endpoint)
        target = path if not path.startswith("http") else f"{parts.path}?{parts.query}"
        connection = http.client.HTTPConnection(parts.netloc, timeout=30)
        sent = {} if by is None else {"Authorization": f"Bearer {by.token}"}
        try:
            connection.request(method, target, body=body or None, headers=sent | (headers or {}))
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def post(self, path: str, value: Any, *, by: Account | None = WRITER, method: str = "POST") -> Answer:
        return self.ask(method, path, by=by, body=json.dumps(value).encode())

    def create(self, name: str, *, kind: str = "dataset", private: bool = False, owner: str = "acme") -> str:
        """A new repository; gives its address in the API."""
        visibility = "private" if private else "public"
        asked = {"name": name, "organization": owner, "type": kind, "visibility": visibility}
        answer = self.post("/api/repos/create", asked)
        assert answer.status == 200, answer.text
        return f"/api/{kind}s/{owner}/{name}"

    def head(self, api: str, revision: str = "main") -> str:
        answer = self.ask("GET", f"{api}/revision/{quote(revision, safe='')}")
        assert answer.status == 200, answer.text
        return str(answer.json["sha"])

    def commit(self, api: str, *lines: dict[str, Any], parent: str | None = None, branch: str = "main") -> Answer:
        header = {"summary": "a change", "description": "", **({"parentCommit": parent} if parent else {})}
        body = "\n".join(json.dumps(line) for line in ({"key": "header", "value": header}, *lines))
        return self.ask("POST", f"{api}/commit/{quote(branch, safe='')}", body=body.encode())

    def paths(self, api: str, revision: str = "main") -> list[str]:
        answer = self.ask("GET", f"{api}/tree/{quote(revision, safe='')}?recursive=true")
        assert answer.status == 200, answer.text
        return [row["path"] for row in answer.json if row["type"] == "file"]

    def upload(self, api: str, data: bytes, *, transfers: tuple[str, ...] = ("basic",)) -> tuple[str, Any]:
        """Announce a large file: its oid, and what the Hub says to do."""
        oid = hashlib.sha256(data).hexdigest()
        asked = {"operation": "upload", "transfers": transfers, "objects": [{"oid": oid, "size": len(data)}]}
        answer = self.post(f"{lfs(api)}/objects/batch", asked)
        assert answer.status == 200, answer.text
        return oid, answer.json["objects"][0].get("actions")

    def put_large(self, api: str, data: bytes) -> str:
        """Upload a large file; gives its oid."""
        oid, actions = self.upload(api, data)
        if actions:
            assert self.ask("PUT", actions["upload"]["href"], by=None, body=data).status == 200
        return oid

    def log(self) -> str:
        return (self.root / "requests.jsonl").read_text()


def lfs(api: str) -> str:
    """Address of a repository's LFS."""
    return f"{api.removeprefix('/api').removeprefix('/models')}.git/info/lfs"


def page(api: str) -> str:
    """Address of a repository's page."""
    return api.removeprefix("/api").removeprefix("/models")


def file(path: str, data: bytes) -> dict[str, Any]:
    return {"key": "file", "value": {"path": path, "content": base64.b64encode(data).decode(), "encoding": "base64"}}


def large(path: str, oid: str) -> dict[str, Any]:
    return {"key": "lfsFile", "value": {"path": path, "algo": "sha256", "oid": oid, "size": 1}}


@contextmanager
def hub_at(root: Path, *, hook: Hook | None = None, part_bytes: int = 1 << 20) -> Iterator[World]:
    """A Hub in this process; files beyond `part_bytes` come in parts."""
    with serve_here(root, [WRITER, READER, STRANGER], hook=hook, part_bytes=part_bytes) as served:
        yield World(served.endpoint, root)


def run_client(world: World, home: Path, script: str, *, by: Account = WRITER) -> Any:
    """Run a script of `hub_scripts`, with the clients told of this Hub; gives the JSON that it prints."""
    environment = os.environ | {
        "HF_ENDPOINT": world.endpoint,
        "HF_TOKEN": by.token,
        "HF_HOME": str(home / "hf"),
        "HF_HUB_OFFLINE": "0",
        "HF_DATASETS_OFFLINE": "0",
        "TRANSFORMERS_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "NO_PROXY": "*",
    }
    command = [sys.executable, "-m", "tests.release.hub_scripts", script]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
