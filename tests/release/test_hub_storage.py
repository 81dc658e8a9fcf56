"""Large files are taken only whole and right, given in the ranges asked for, and never held in memory."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.release.hub.hook import Hook, Instead
from oresmith.release.hub.hub import span
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.server import serve
from tests.release.hub_world import WRITER, World, hub_at, large, lfs, page

MB = 1 << 20


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hub_at(tmp_path_factory.mktemp("storage") / "hub") as world:
        yield world


def left(world: World) -> list[Path]:
    """What lies where uploads come in."""
    return [path for path in world.root.glob("repositories/*/*/*/incoming/**/*") if path.is_file()]


def kept(world: World, oid: str) -> list[Path]:
    return list(world.root.glob(f"repositories/*/*/*/objects/*/{oid}"))


def test_a_file_that_came_is_there_and_not_asked_for_again(hub: World) -> None:
    api, data = hub.create("again"), os.urandom(3000)
    oid = hub.put_large(api, data)
    assert hub.upload(api, data) == (oid, None)
    assert hub.post(f"{lfs(api)}/verify", {"oid": oid, "size": 3000}).status == 200
    assert hub.post(f"{lfs(api)}/verify", {"oid": oid, "size": 3001}).status == 404
    assert [path.read_bytes() for path in kept(hub, oid)] == [data]


@pytest.mark.parametrize("sent", [b"other" * 600, b"x" * 2999, b"x" * 3001, b""])
def test_another_file_than_announced_is_refused_and_leaves_nothing(hub: World, sent: bytes) -> None:
    api = hub.create(f"wrong{len(sent)}")
    oid, actions = hub.upload(api, b"x" * 3000)
    answer = hub.ask("PUT", actions["upload"]["href"], by=None, body=sent)
    assert answer.status in (400, 411)
    assert (kept(hub, oid), left(hub)) == ([], [])
    assert hub.commit(api, large("x.bin", oid)).status == 400


def test_an_upload_that_breaks_off_leaves_nothing(hub: World) -> None:
    api = hub.create("broken")
    oid, actions = hub.upload(api, b"x" * 3_000)
    parts = urlsplit(actions["upload"]["href"])
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.putrequest("PUT", f"{parts.path}?{parts.query}")
    connection.putheader("Content-Length", "3000")
    connection.endheaders(b"x" * 1_000)
    assert connection.sock is not None
    connection.sock.shutdown(1)  # the end of what is sent: the server answers, and has nothing
    assert connection.getresponse().status == 400
    connection.close()
    assert (kept(hub, oid), left(hub)) == ([], [])


def in_parts(hub: World, api: str, data: bytes) -> tuple[str, dict[str, Any]]:
    oid, actions = hub.upload(api, data, transfers=("basic", "multipart"))
    upload: dict[str, Any] = actions["upload"]
    return oid, upload


def test_parts_in_any_order_and_repeated_make_the_file(hub: World) -> None:
    api, data = hub.create("parts"), os.urandom(2 * MB + 500)
    oid, upload = in_parts(hub, api, data)
    assert int(upload["header"]["chunk_size"]) == MB
    for number in (3, 1, 2, 1):
        piece = data[(number - 1) * MB : number * MB]
        answer = hub.ask("PUT", upload["header"][str(number)], by=None, body=piece)
        assert answer.headers["etag"] == f'"{hashlib.sha256(piece).hexdigest()}"'
    for _ in range(2):  # the first answer may have been lost
        assert (
            hub.ask("POST", upload["href"], by=None, body=json.dumps({"oid": oid, "parts": []}).encode()).status == 200
        )
    assert [path.read_bytes() == data for path in kept(hub, oid)] == [True]
    assert left(hub) == []


def test_parts_that_do_not_make_the_file_are_refused(hub: World) -> None:
    api, data = hub.create("bad-parts"), os.urandom(2 * MB + 500)
    oid, upload = in_parts(hub, api, data)
    end = json.dumps({"oid": oid, "parts": []}).encode()
    assert hub.ask("POST", upload["href"], by=None, body=end).status == 400
    assert hub.ask("PUT", upload["header"]["3"], by=None, body=b"x" * 499).status == 400
    for number, piece in (("1", data[:MB]), ("2", b"x" * MB), ("3", data[2 * MB :])):
        assert hub.ask("PUT", upload["header"][number], by=None, body=piece).status == 200
    assert hub.ask("POST", upload["href"], by=None, body=end).status == 400
    assert kept(hub, oid) == []
    one = upload["header"]["1"]
    assert hub.ask("PUT", one.replace("/1?", "/2?"), by=None, body=data[:MB]).status == 403
    assert hub.ask("PUT", one.replace("/1?", "/../../x?"), by=None, body=data[:MB]).status == 404


@given(size=st.integers(1, 50), first=st.integers(0, 60) | st.none(), last=st.integers(0, 60) | st.none())
def test_a_range_gives_the_bytes_that_http_says(size: int, first: int | None, last: int | None) -> None:
    data = bytes(range(size))
    asked = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    if first is None:
        expected = data if last is None else data[max(size - last, 0) :] if last else b""
    else:
        expected = data[first : None if last is None else last + 1]
    try:
        start, end = span(asked, size)
    except Refusal as refusal:
        assert refusal.status == 416 and expected == b""
    else:
        assert data[start:end] == expected


def test_files_beside_git_and_in_it_are_given_in_ranges(hub: World) -> None:
    api, data = hub.create("ranges"), os.urandom(5000)
    oid = hub.put_large(api, data)
    from tests.release.hub_world import file

    assert hub.commit(api, large("x.bin", oid), file("y.txt", b"0123456789")).status == 200
    told = hub.ask("GET", f"{page(api)}/resolve/main/x.bin").headers
    assert (told["x-linked-size"], told["x-linked-etag"]) == ("5000", f'"{oid}"')
    some = hub.ask("GET", told["location"], by=None, headers={"Range": "bytes=100-199"})
    assert (some.status, some.headers["content-range"], some.body) == (206, "bytes 100-199/5000", data[100:200])
    text = hub.ask("GET", f"{page(api)}/resolve/main/y.txt", headers={"Range": "bytes=-3"})
    assert (text.status, text.headers["content-range"], text.body) == (206, "bytes 7-9/10", b"789")
    assert hub.ask("GET", told["location"], by=None, headers={"Range": "bytes=5000-"}).status == 416
    head = hub.ask("HEAD", f"{page(api)}/resolve/main/y.txt")
    assert (head.headers["content-length"], head.headers["x-repo-commit"]) == ("10", hub.head(api))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    data = memoryview(bytearray(48 * MB))
    with serve(tmp_path / "hub") as served:
        world = World(served.endpoint, tmp_path / "hub")
        by = type(WRITER)("oresmith", ("oresmith",), token=served.token)
        named = {"name": "m", "organization": "oresmith", "type": "model"}
        assert world.post("/api/repos/create", named, by=by).status == 200
        oid = hashlib.sha256(data).hexdigest()
        asked = {"operation": "upload", "objects": [{"oid": oid, "size": len(data)}]}
        actions = world.post("/oresmith/m.git/info/lfs/objects/batch", asked, by=by).json["objects"][0]["actions"]
        before = _peak(served.pid)
        assert world.ask("PUT", actions["upload"]["href"], by=None, body=data).status == 200  # type: ignore[arg-type]
        line = b'{"key": "header", "value": {"summary": "x"}}\n' + json.dumps(large("x.bin", oid)).encode()
        assert world.ask("POST", "/api/models/oresmith/m/commit/main", by=by, body=line).status == 200
        told = world.ask("GET", "/oresmith/m/resolve/main/x.bin", by=by).headers["location"]
        assert len(world.ask("GET", told, by=None).body) == len(data)
        assert _peak(served.pid) - before < 16 * MB


def _peak(pid: int) -> int:
    """Peak resident bytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


class Once(Hook):
    """Puts something else in the place of one answer."""

    def __init__(self) -> None:
        self.match, self.instead, self.late = "", Instead(), False

    def set(self, match: str, instead: Instead, *, late: bool = False) -> None:
        self.match, self.instead, self.late = match, instead, late

    def before(self, method: str, path: str) -> Instead | None:
        return self._strike(method, path) if not self.late else None

    def after(self, method: str, path: str) -> Instead | None:
        return self._strike(method, path) if self.late else None

    def _strike(self, method: str, path: str) -> Instead | None:
        if not self.match or not f"{method} {path}".startswith(self.match):
            return None
        self.match = ""
        return self.instead


def test_a_hook_can_refuse_before_or_lose_the_answer_after_on_both_servers(tmp_path: Path) -> None:
    hook = Once()
    with hub_at(tmp_path / "hub", hook=hook) as hub:
        api, data = hub.create("disturbed"), b"large" * 1000
        oid, actions = hub.upload(api, data)
        href = actions["upload"]["href"]
        for method, address, body in (("PUT", href, data), ("POST", f"{api}/tag/main", b'{"tag": "t"}')):
            by = None if method == "PUT" else WRITER
            hook.set(method, Instead(503, {"Retry-After": "1"}))
            answer = hub.ask(method, address, by=by, body=body)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert kept(hub, oid) == [] or method == "POST"
            hook.set(method, Instead(), late=True)
            with pytest.raises((http.client.HTTPException, OSError)):
                hub.ask(method, address, by=by, body=body)
        assert len(kept(hub, oid)) == 1
        assert [row["name"] for row in hub.ask("GET", f"{api}/refs").json["tags"]] == ["t"]
