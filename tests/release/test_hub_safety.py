"""What comes over the network does nothing that it may not: no path, no token, no other owner's repository."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.release.hub import names
from oresmith.release.hub.refusal import Refusal
from tests.release.hub_world import READER, STRANGER, WRITER, World, file, hub_at, large, lfs, page


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hub_at(tmp_path_factory.mktemp("safety") / "hub") as world:
        yield world


def everything(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "hub" not in path.relative_to(folder).parts[:1]}


BAD_NAMES = ["..", ".", "a/../..", "%2e%2e", "-x", "a..b", "a.git", "a" * 97, "", "é", "a\0b", "a b", "x.lock", "a\n"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_of_a_repository_makes_nothing(hub: World, name: str) -> None:
    before = everything(hub.root.parent)
    for kind in ("dataset", "model"):
        answer = hub.post("/api/repos/create", {"name": name, "organization": "acme", "type": kind})
        assert answer.status in (400, 403)
    assert hub.ask("GET", f"/api/datasets/acme/{quote(name, safe='')}").status in (404, 405)
    assert everything(hub.root.parent) == before


@pytest.mark.parametrize("name", ["../x", "/x", "a/b/x", "acme/../x", "alice/x", "./x", "acme//x"])
def test_nothing_of_a_name_is_left_out(hub: World, name: str) -> None:
    body = {"name": name, "organization": "acme", "type": "dataset"}
    assert hub.post("/api/repos/create", body).status == 400
    assert hub.ask("DELETE", "/api/repos/delete", body=json.dumps(body).encode()).status == 400
    assert hub.ask("GET", "/api/datasets/acme/x").status in (401, 404)


@pytest.mark.parametrize("owner", ["..", "api", "datasets", "a--b", "-a", "a_b", "a" * 43, "objects"])
def test_an_owner_that_would_hide_an_address_or_leave_the_folder_is_no_owner(owner: str) -> None:
    with pytest.raises(Refusal):
        names.repository(owner, "data")


BAD_PATHS = [
    "../x",
    "/etc/x",
    "a/../../x",
    "a//b",
    "./x",
    ".git/config",
    "a/.GIT/hooks/x",
    ".g\u200cit/config",
    ".git./x",
    "a\\b",
    "a\nb",
    "a\x00b",
    "",
    "x" * 300,
    "a/" * 600 + "b",
    "\ud800",
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_bad_path_is_in_no_commit(hub: World, path: str) -> None:
    api = hub.create(f"p{BAD_PATHS.index(path)}")
    head, oid = hub.head(api), hub.put_large(api, b"large")
    for line in (file(path, b"x"), large(path, oid), {"key": "deletedFile", "value": {"path": path}}):
        assert hub.commit(api, line).status == 400
    candidate = {"path": path, "size": 1, "sample": ""}
    assert hub.post(f"{api}/preupload/main", {"files": [candidate]}).status == 400
    assert hub.head(api) == head


@given(st.text(max_size=60))
def test_a_path_that_is_taken_stays_below_the_repository(path: str) -> None:
    try:
        taken = names.file_path(path)
    except Refusal:
        return
    whole = os.path.normpath(os.path.join("/repository", taken))  # noqa: PTH118 (without links)
    assert whole == f"/repository/{taken}" and ".git" not in whole.lower().split("/")


@given(st.text(max_size=60))
def test_a_revision_that_is_taken_is_no_option_and_no_range_of_git(name: str) -> None:
    try:
        taken = names.ref_name(name)
    except Refusal:
        return
    assert not taken.startswith(("-", ".", "/", "refs/")) and not set(taken) & set("~^:?*[\\@{ ") and ".." not in taken


BAD_REVISIONS = [
    "--all",
    "-h",
    "main^{tree}",
    "main~1",
    "HEAD",
    "@",
    "main:README.md",
    "a..b",
    "refs/heads/../../x",
    "../main",
    "é",
    "\x00",
]


@pytest.mark.parametrize("revision", BAD_REVISIONS)
def test_a_revision_that_is_no_name_is_not_found_and_not_made(hub: World, revision: str) -> None:
    api, at = hub.create(f"r{BAD_REVISIONS.index(revision)}"), quote(revision, safe="")
    assert hub.ask("GET", f"{api}/revision/{at}").status == 404
    assert hub.ask("GET", f"{page(api)}/resolve/{at}/README.md").status == 404
    assert hub.post(f"{api}/branch/{at}", {}).status == 400
    assert hub.post(f"{api}/tag/main", {"tag": revision}).status == 400
    assert [row["name"] for row in hub.ask("GET", f"{api}/refs").json["branches"]] == ["main"]


@pytest.mark.parametrize(
    "path", ["..%2f..%2f..%2fhub.json", "%2e%2e/%2e%2e/hub.json", "/etc/passwd", ".git/config", "HEAD"]
)
def test_only_files_of_the_commit_are_given_out(hub: World, path: str) -> None:
    api = hub.create(f"f{abs(hash(path)) % 10**9}")
    assert hub.ask("GET", f"{page(api)}/resolve/main/{path}").status == 404
    assert hub.ask("GET", f"{page(api)}/blob/main/{path}").status == 404
    assert hub.ask("GET", f"{api}/tree/main/{path}").status == 404


def writes(world: World, api: str) -> list[tuple[str, str, bytes]]:
    owner, name = api.split("/")[-2:]
    named = f'{{"name": "{name}", "organization": "{owner}", "type": "dataset"}}'.encode()
    return [
        ("POST", "/api/repos/create", named.replace(name.encode(), b"fresh")),
        ("DELETE", "/api/repos/delete", named),
        ("PUT", f"{api}/settings", b'{"visibility": "private"}'),
        ("GET", f"{api}/auth-check/write", b""),
        ("POST", f"{api}/preupload/main", b'{"files": []}'),
        ("POST", f"{api}/commit/main", b'{"key": "header", "value": {"summary": "x"}}'),
        ("POST", f"{api}/tag/main", b'{"tag": "t"}'),
        ("DELETE", f"{api}/tag/t", b""),
        ("POST", f"{api}/branch/b", b"{}"),
        ("DELETE", f"{api}/branch/b", b""),
        ("POST", f"{lfs(api)}/objects/batch", b'{"operation": "upload", "objects": []}'),
        ("POST", f"{lfs(api)}/verify", b'{"oid": "x", "size": 1}'),
        ("POST", "/api/collections", b'{"title": "t", "namespace": "acme"}'),
    ]


def test_every_change_needs_a_write_token_of_the_owner(hub: World) -> None:
    api = hub.create("guarded")
    head = hub.head(api)
    for method, path, body in writes(hub, api):
        said = [hub.ask(method, path, by=by, body=body).status for by in (None, READER, STRANGER)]
        assert said == [401, 403, 403], (method, path)
        broken = {"authorization": "Bearer hf_nobody"}
        assert hub.ask(method, path, by=None, body=body, headers=broken).status == 401
    assert hub.head(api) == head


def test_changes_of_a_collection_need_a_write_token_of_the_owner(hub: World) -> None:
    api = hub.create("member")
    made = hub.post("/api/collections", {"title": "Guarded", "namespace": "acme"}).json
    slug, item = f"/api/collections/{made['slug']}", {"item": {"id": api.split("/", 3)[3], "type": "dataset"}}
    assert hub.post(f"{slug}/items", item).status == 200
    one = hub.ask("GET", slug).json["items"][0]["_id"]
    for by, status in ((None, 401), (READER, 403), (STRANGER, 403)):
        assert hub.post(f"{slug}/items", item, by=by).status == status
        assert hub.post(slug, {"title": "x"}, by=by, method="PATCH").status == status
        assert hub.ask("DELETE", slug, by=by).status == status
        assert hub.ask("DELETE", f"{slug}/items/{one}", by=by).status == status
    assert hub.ask("GET", slug).json["title"] == "Guarded"


def test_a_private_repository_looks_like_none_wherever_it_could_show(hub: World) -> None:
    api = hub.create("secret", private=True)
    made = hub.post("/api/collections", {"title": "Mixed", "namespace": "acme"}).json["slug"]
    hub.post(f"/api/collections/{made}/items", {"item": {"id": "acme/secret", "type": "dataset"}})
    absent = api.replace("secret", "absent")
    for suffix in ("", "/refs", "/tree/main", "/commits/main", "/auth-check"):
        for by in (None, STRANGER):
            hidden, missing = hub.ask("GET", api + suffix, by=by), hub.ask("GET", absent + suffix, by=by)
            assert (hidden.status, hidden.body) == (missing.status, missing.body)
            assert hidden.headers["x-error-code"] == "RepoNotFound"
    for address in ("/", f"/collections/{made}", f"/api/collections/{made}"):
        for by in (None, STRANGER):
            assert "acme/secret" not in hub.ask("GET", address, by=by).text
    for suffix in ("", "/blob/main/.gitattributes", "/resolve/main/.gitattributes"):
        assert hub.ask("GET", page(api) + suffix, by=None).status in (401, 404)
    assert "acme/secret" in hub.ask("GET", f"/api/collections/{made}", by=READER).text


def test_a_large_file_is_given_by_its_signed_address_alone(hub: World) -> None:
    api = hub.create("large", private=True)
    oid = hub.put_large(api, b"large file" * 100)
    assert hub.commit(api, large("x.bin", oid)).status == 200
    told = hub.ask("GET", f"{page(api)}/resolve/main/x.bin").headers["location"]
    assert hub.ask("GET", told, by=None).body == b"large file" * 100
    assert urlsplit(told).netloc != urlsplit(hub.endpoint).netloc
    assert hub.ask("GET", told, by=WRITER).status == 400  # a token has no business there
    for bad in (told.replace("signature=", "signature=0"), told.partition("?")[0], told.replace(oid, "0" * 64)):
        assert hub.ask("GET", bad, by=None).status == 403
    other = hub.create("other")
    assert hub.ask("GET", told.replace("/large/", "/other/"), by=None).status == 403
    assert hub.commit(other, large("x.bin", oid)).status == 400  # knowing its hash is not having it


def test_a_server_called_by_another_name_answers_nothing(hub: World) -> None:
    for name in ("evil.example", "127.0.0.1.evil.example"):
        assert hub.ask("GET", "/", headers={"Host": name}).status == 400


def test_only_this_machine_is_listened_to(hub: World) -> None:
    for port in (
        urlsplit(hub.endpoint).port,
        urlsplit(hub.upload(hub.create("where"), b"x")[1]["upload"]["href"]).port,
    ):
        with socket.socket() as other:
            other.bind(("127.0.0.2", 0))  # another address of this machine: taken by nobody
            other.settimeout(5)
            with pytest.raises(OSError, match="refused"):
                other.connect(("127.0.0.2", port))


@pytest.mark.parametrize("head", ["Transfer-Encoding: chunked", "Content-Length: 5, 6", "Content-Length: -1"])
def test_what_follows_a_body_of_unknown_length_is_no_request(hub: World, head: str) -> None:
    told = urlsplit(hub.upload(hub.create(f"smuggled{len(head)}"), b"x")[1]["upload"]["href"])
    assert told.hostname is not None and told.port is not None
    request = f"PUT {told.path}?{told.query} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection((told.hostname, told.port), timeout=30) as connection:
        connection.sendall(request.encode())
        got = b""
        with suppress(ConnectionResetError):  # unread bytes take the end of the connection with them
            while piece := connection.recv(4096):
                got += piece
    assert got.count(b"HTTP/1.1") <= 1


def test_more_parameters_than_anybody_needs_are_refused(hub: World) -> None:
    api = hub.create("parameters")
    told = hub.upload(api, b"x")[1]["upload"]["href"]
    assert hub.ask("PUT", told + "&a=b" * 30, by=None, body=b"x").status == 400
    many = "&".join("paths=x" for _ in range(60_000)).encode()
    assert hub.ask("POST", f"{api}/paths-info/main", body=many).status == 400


def test_the_log_holds_requests_and_no_secret(hub: World) -> None:
    api = hub.create("logged")
    hub.put_large(api, b"logged")
    log = hub.log()
    assert "/api/repos/create" in log and "/objects/datasets/acme/logged" in log
    assert not any(secret in log for secret in (WRITER.token, READER.token, STRANGER.token, "signature"))
    stored = [path for path in hub.root.rglob("*") if path.is_file() and WRITER.token.encode() in path.read_bytes()]
    assert stored == []


BROKEN = [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, b'{"name": 1}', b'{"files": [{"path": 1}]}']


@pytest.mark.parametrize("body", BROKEN)
def test_a_body_that_is_no_order_is_refused_in_words(hub: World, body: bytes) -> None:
    api = hub.create(f"b{BROKEN.index(body)}")
    head = hub.head(api)
    for method, path, _ in writes(hub, api):
        named_by_path = method == "GET" or (method == "DELETE" and "/repos/" not in path)
        if named_by_path or path.endswith(("/settings", "/branch/b")):  # an empty order is one of these
            continue
        answer = hub.ask(method, path, body=body)
        assert 400 <= answer.status < 500 and answer.json["error"], (method, path)
    assert hub.ask("GET", f"{api}/revision/{head}").status == 200
