"""Publish with one thing going wrong at one request, and say how it ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.code_deps import ROOT
from tests.release.publish.hubs import Mode, Running, any_hub
from tests.release.publish.small import small_bundle


@dataclass
class Publisher:
    """The worker process, and the bundle that it publishes."""

    process: subprocess.Popen[str]
    bundle: Path
    scratch: Path

    def run(self, hub: Running, bundle: Path | None = None, **options: Any) -> str:
        """Carry out one order: `ok`, `killed`, or why not."""
        return str(self.answer(hub, bundle, **options)["said"])

    def answer(self, hub: Running, bundle: Path | None = None, **options: Any) -> dict[str, Any]:
        """The whole answer."""
        pid = os.fspath(self.scratch / "pid")
        order = {"bundle": os.fspath(bundle or self.bundle), "endpoint": hub.endpoint, "token": hub.token, "pid": pid}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({**order, **options}) + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline() or '{"said": "the worker died"}'))


@contextmanager
def publisher(scratch: Path, *, xet: bool) -> Iterator[Publisher]:
    """A worker with its own caches."""
    bundle = scratch / "bundle"
    if not bundle.exists():
        small_bundle(bundle, shards=2)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
        "PYTHONPATH": os.fspath(ROOT),
        "HF_HOME": os.fspath(scratch / "hf"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_XET_CLIENT_RETRY_BASE_DELAY": "20ms",
        "HF_XET_CLIENT_READ_TIMEOUT": "1s",
        "HF_XET_XORB_COMPRESSION_POLICY": "none",  # the reference Hub needs a package more to unpack chunks
        **({} if xet else {"HF_HUB_DISABLE_XET": "1"}),
    }
    command = [sys.executable, "-m", "tests.release.publish.worker"]
    with (scratch / "worker.err").open("w") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=ROOT
        )
        try:
            yield Publisher(process, bundle, scratch)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)


def strike(worker: Publisher, kind: str, root: Path, fault: tuple[Mode | None, int], only: str = "") -> Outcome:
    """Publish to a fresh Hub with one thing going wrong, and once more where the publisher was killed."""
    with any_hub(kind, root) as hub:
        hub.trouble.pid_file = worker.scratch / "pid"
        hub.trouble.reset(*fault, only)
        said = [worker.run(hub)]
        struck, matched = hub.trouble.struck, hub.trouble.matched
        hub.trouble.reset()
        shown = main_is_whole(hub, worker.bundle)
        if said == ["killed"]:
            said.append(worker.run(hub))
        return Outcome(struck, matched, said, shown, stands(hub))


@dataclass
class Outcome:
    """How one publication ended."""

    struck: str
    """The request that it happened to; empty where there were not so many."""
    requests: int
    said: list[str]
    whole: bool
    """After the first run `main` of neither repository showed a part of the release."""
    stands: dict[str, Any]
    """What the Hub shows at the end, without commit ids."""


def main_is_whole(hub: Running, bundle: Path) -> bool:
    """Whether each `main` is empty or the release, nothing between."""
    return all(
        paths in (set(), _paths(bundle / kind)) for kind, paths in ((kind, _tree(hub, kind, "main")) for kind in _NAMES)
    )


_NAMES = {"dataset": "datasets/acme/things", "model": "models/acme/things-model"}


def stands(hub: Running) -> dict[str, Any]:
    """Tags, branches, titles of commits, trees and visibility of both repositories, and what collections hold."""
    found: dict[str, Any] = {}
    for kind, name in _NAMES.items():
        try:
            refs = hub.get(f"/api/{name}/refs")
        except OSError:
            found[kind] = None
            continue
        tags = {tag["name"]: tag["targetCommit"] for tag in refs["tags"]}
        found[kind] = {
            "branches": sorted(branch["name"] for branch in refs["branches"]),
            "tags": {tag: [one["title"] for one in hub.get(f"/api/{name}/commits/{sha}")] for tag, sha in tags.items()},
            "main": [one["title"] for one in hub.get(f"/api/{name}/commits/main")],
            "tree": sorted(_tree(hub, kind, "main")),
            "same": all(_blobs(hub, kind, sha) == _blobs(hub, kind, "main") for sha in tags.values()),
            "private": hub.get(f"/api/{name}")["private"],
        }
    return found


def _blobs(hub: Running, kind: str, revision: str) -> dict[str, str]:
    entries = hub.get(f"/api/{_NAMES[kind]}/tree/{revision}?recursive=true")
    return {entry["path"]: entry["oid"] for entry in entries if entry["type"] == "file"}


def _tree(hub: Running, kind: str, revision: str) -> set[str]:
    try:
        return set(_blobs(hub, kind, revision)) - {".gitattributes"}
    except OSError:
        return set()


def _paths(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
