"""A Hub starts and ends with what uses it, keeps what it was told, and has its folder alone."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from oresmith.errors import OresmithError
from oresmith.release.hub import store
from oresmith.release.hub.accounts import Account
from oresmith.release.hub.server import account_of, serve
from oresmith.release.hub.tokenfile import token_of
from tests.code_deps import ROOT
from tests.release.hub_world import WRITER, World, file, hub_at

TOKEN = "hf_" + "t" * 37
OWNER = Account("oresmith", ("oresmith",), token=TOKEN)


def test_a_hub_ends_with_its_context_and_goes_on_with_what_it_had(tmp_path: Path) -> None:
    root = tmp_path / "hub"
    with serve(root, token=TOKEN) as first:
        world = World(first.endpoint, root)
        named = {"name": "kept", "organization": "oresmith", "type": "dataset"}
        assert world.post("/api/repos/create", named, by=OWNER).status == 200
        told = [Path(f"/proc/{first.pid}/{what}") for what in ("cmdline", "environ")]
        assert not any(path.exists() and TOKEN.encode() in path.read_bytes() for path in told)
    with pytest.raises(OSError, match="refused"):
        world.ask("GET", "/")
    with serve(root) as second:
        assert second.token != TOKEN
        assert World(second.endpoint, root).ask("GET", "/api/datasets/oresmith/kept", by=None).status == 200
        assert World(second.endpoint, root).ask("GET", "/api/datasets/oresmith/kept", by=OWNER).status == 401


def test_a_hub_ends_when_who_started_it_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom oresmith.release.hub.server import serve\n"
        "with serve(Path(sys.argv[1])) as served:\n    print(served.endpoint, flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "hub")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as starter:
        assert starter.stdout is not None and starter.stdout.readline().startswith(b"http://127.0.0.1:")
        starter.kill()
    with serve(tmp_path / "hub") as served:  # it has the folder, which one server has at a time
        assert World(served.endpoint, tmp_path / "hub").ask("GET", "/", by=None).status == 200


def test_a_folder_has_one_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_LOCK_S", 0.1)
    other = store.opened(tmp_path / "hub")
    with store.opened(tmp_path / "hub"), pytest.raises(OresmithError, match="another Hub"), other:
        pytest.fail("two servers")
    with store.opened(tmp_path / "hub") as again:
        assert again.repositories() == []


def test_what_is_no_hub_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(OresmithError, match="no Hub"), serve(tmp_path):
        pytest.fail("served")
    with pytest.raises(OresmithError, match="cannot be used"), serve(tmp_path / "thesis.txt"):
        pytest.fail("served")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "hub.json").write_text('{"schema": "oresmith.hub/9"}')
    with pytest.raises(OresmithError, match="another version"), serve(tmp_path / "other"):
        pytest.fail("served")


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OresmithError, match=f"127.0.0.1:{port}"), serve(tmp_path / "hub", port=port):
            pytest.fail("served")


@pytest.mark.parametrize("owners", [(), ("..",), ("ok", "a/b"), ("",), ("api",)])
def test_an_owner_that_cannot_be_is_refused(owners: tuple[str, ...]) -> None:
    with pytest.raises(OresmithError, match="owner"):
        account_of(owners)


@pytest.mark.parametrize("token", ["", "short", "with space in it", "line\nend in it", "ünïcode-token", "x" * 201])
def test_a_token_that_cannot_stand_in_a_header_is_refused(token: str) -> None:
    with pytest.raises(OresmithError, match="token") as refused:
        account_of(("oresmith",), token)
    assert not token or token not in str(refused.value)


def test_no_token_shows_in_what_is_printed_of_an_account() -> None:
    assert TOKEN not in repr(OWNER)


def begin(world: World, path: str, length: int, sent: bytes, token: str) -> http.client.HTTPConnection:
    """A request whose body stays unfinished."""
    parts = urlsplit(path if path.startswith("http") else world.endpoint + path)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.putrequest("PUT" if path.startswith("http") else "POST", f"{parts.path}?{parts.query}")
    connection.putheader("Content-Length", str(length))
    if not path.startswith("http"):
        connection.putheader("Authorization", f"Bearer {token}")
    connection.endheaders(sent)
    return connection


def test_a_hub_that_is_killed_holds_the_last_whole_commit_and_no_half_file(tmp_path: Path) -> None:
    root, named = tmp_path / "hub", {"name": "kept", "organization": "oresmith", "type": "dataset"}
    api = "/api/datasets/oresmith/kept"
    with serve(root, token=TOKEN) as served:
        world = World(served.endpoint, root)
        assert world.post("/api/repos/create", named, by=OWNER).status == 200
        head = world.ask("GET", api, by=OWNER).json["sha"]
        oid = "1" * 64
        asked = {"operation": "upload", "objects": [{"oid": oid, "size": 5000}]}
        batch = world.post("/datasets/oresmith/kept.git/info/lfs/objects/batch", asked, by=OWNER)
        upload = begin(world, batch.json["objects"][0]["actions"]["upload"]["href"], 5000, b"x" * 2000, TOKEN)
        lines = [{"key": "header", "value": {"summary": "half"}}, file("a", b"1"), file("b", b"2")]
        body = "\n".join(map(json.dumps, lines)).encode()
        commit = begin(world, f"{api}/commit/main", len(body) + 1, body, TOKEN)
        os.kill(served.pid, signal.SIGKILL)
        for connection in (upload, commit):
            with pytest.raises((http.client.HTTPException, OSError)):
                connection.getresponse()
            connection.close()
    lock = root / "repositories/datasets/oresmith/kept/git/refs/heads/main.lock"
    lock.touch()  # as a git leaves it that was killed while it moved the branch
    (root / "making" / "half").mkdir(parents=True)
    with serve(root, token=TOKEN) as served:
        world = World(served.endpoint, root)
        assert world.ask("GET", api, by=OWNER).json["sha"] == head
        assert list(root.glob("repositories/*/*/*/incoming")) + list(root.glob("making")) == []
        answer = world.ask("POST", f"{api}/commit/main", by=OWNER, body=body)
        assert answer.status == 200 and answer.json["commitOid"] != head


def test_a_repository_that_is_deleted_leaves_no_file_and_its_name_is_free(tmp_path: Path) -> None:
    with hub_at(tmp_path / "hub") as hub:
        api = hub.create("short")
        hub.put_large(api, b"large")
        uid = hub.ask("GET", api).json["_id"]
        named = {"name": "short", "organization": "acme", "type": "dataset"}
        assert hub.post("/api/repos/delete", named, method="DELETE").status == 200
        assert [path for path in hub.root.rglob("*") if path.name == "short"] == []
        assert hub.ask("GET", api).status == 404
        hub.create("short")
        assert hub.ask("GET", api).json["_id"] != uid
        assert hub.upload(api, b"large")[1] is not None


def test_a_token_file_is_made_for_its_owner_alone_and_read_again(tmp_path: Path) -> None:
    made = token_of(tmp_path / "token")
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert token_of(tmp_path / "token") == made and made.startswith("hf_")


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(WRITER.token)
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(OresmithError, match="others can read") as refused:
        token_of(tmp_path / "token")
    assert WRITER.token not in str(refused.value)
    with pytest.raises(OresmithError, match=r"others can read|cannot be used"):
        token_of(tmp_path)


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    script = "import typer\nfrom oresmith.cli_hub import register\napp = typer.Typer()\nregister(app)\napp()"
    command = [sys.executable, "-c", script, "hub", "serve", str(tmp_path / "hub"), "--port", "0", "--owner", "acme"]
    command += ["--token-file", str(tmp_path / "token")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        endpoint = lines[1].split("HF_ENDPOINT=")[1].split()[0]
        owner = Account("acme", ("acme",), token=token_of(tmp_path / "token"))
        assert World(endpoint, tmp_path).ask("GET", "/api/whoami-v2", by=owner).json["name"] == "acme"
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(30) == 0
    assert owner.token not in "".join(lines) + rest and "HF_HUB_DISABLE_XET=1" in lines[1]
