"""A yanked release leaves `main`, keeps its tag, and says why; taking it back leaves no trace."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.release.manifest import PartRelease, Yanked
from oresmith.release.publish.tombstone import bury, unbury
from tests.release.publish.hubs import Mode, Running, any_hub
from tests.release.publish.sweeping import Publisher, stands
from tests.release.publish.test_publishing import second_bundle, writes

REASON = "two rows | of <b>one</b> *shop* leak"


def read(hub: Running, path: str, revision: str = "main") -> bytes:
    request = urllib.request.Request(f"{hub.endpoint}/datasets/acme/things/resolve/{revision}/{path}")
    request.add_header("Authorization", f"Bearer {hub.token}")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return bytes(answer.read())


def blobs(hub: Running, revision: str) -> dict[str, str]:
    entries = hub.get(f"/api/datasets/acme/things/tree/{revision}?recursive=true")
    return {entry["path"]: entry["oid"] for entry in entries if entry["type"] == "file"}


@pytest.fixture
def two(lfs_worker: Publisher, each_hub: Running, tmp_path: Path) -> Path:
    """The bundle of 1.1.0; 1.0.0 and it are published."""
    second_bundle(tmp_path / "second", lfs_worker.bundle)
    assert [lfs_worker.run(each_hub), lfs_worker.run(each_hub, tmp_path / "second")] == ["ok", "ok"]
    return tmp_path / "second"


def test_a_yank_goes_back_to_the_release_before_and_says_why(
    two: Path, each_hub: Running, lfs_worker: Publisher
) -> None:
    tag = each_hub.get("/api/datasets/acme/things/refs")["tags"]
    planned = lfs_worker.answer(each_hub, two, yank=REASON, dry_run=True)["told"]
    each_hub.trouble.reset()
    done = lfs_worker.answer(each_hub, two, yank=REASON)
    assert done["said"] == "ok" and done["told"] == planned
    assert not [key for key in each_hub.trouble.seen if key.startswith("PUT")]
    changed = {path for path, oid in blobs(each_hub, "1.0.0").items() if blobs(each_hub, "main")[path] != oid}
    assert (
        changed == {"README.md", "release.json"} and blobs(each_hub, "main").keys() == blobs(each_hub, "1.0.0").keys()
    )
    card = read(each_hub, "README.md")
    assert b"Release 1\\.1\\.0 was yanked" in card and b"<b>" not in card
    assert unbury(card) == read(each_hub, "README.md", "1.0.0")
    record = msgspec.json.decode(read(each_hub, "release.json"), type=PartRelease)
    assert (record.version, record.yanked) == ("1.0.0", (Yanked(version="1.1.0", reason=REASON),))
    tags = each_hub.get("/api/datasets/acme/things/refs")["tags"]
    assert all(one in tags for one in tag) and {one["name"] for one in tags} == {"1.0.0", "1.1.0", "yanked/1.1.0"}


def test_a_yank_twice_is_one_and_an_unyank_leaves_no_trace(two: Path, each_hub: Running, lfs_worker: Publisher) -> None:
    assert lfs_worker.run(each_hub, two, yank=REASON) == "ok"
    before = stands(each_hub)
    assert lfs_worker.answer(each_hub, two, yank=REASON)["told"] == []
    assert "is yanked already" in lfs_worker.run(each_hub, two, yank="another reason")
    assert stands(each_hub) == before
    for _ in range(2):
        assert lfs_worker.run(each_hub, two, unyank="yes") == "ok"
        assert blobs(each_hub, "main") == blobs(each_hub, "1.1.0")
        assert set(stands(each_hub)["dataset"]["tags"]) == {"1.0.0", "1.1.0"}


def test_a_yanked_release_is_not_published_again_and_the_next_one_is(
    hub: Running, lfs_worker: Publisher, tmp_path: Path
) -> None:
    assert lfs_worker.run(hub) == "ok"
    assert lfs_worker.run(hub, yank=REASON) == "ok"
    assert {path for path in blobs(hub, "main") if path != ".gitattributes"} == {"README.md", "release.json"}
    hub.trouble.reset()
    assert "1.0.0 was yanked there" in lfs_worker.run(hub)
    assert not writes(hub)
    second_bundle(tmp_path / "second", lfs_worker.bundle)
    assert lfs_worker.run(hub, tmp_path / "second") == "ok"
    assert blobs(hub, "main") == blobs(hub, "1.1.0")
    assert "yanked/1.0.0" in stands(hub)["dataset"]["tags"]
    assert lfs_worker.answer(hub, yank=REASON)["told"] == []


def test_what_is_not_published_cannot_be_yanked(hub: Running, lfs_worker: Publisher) -> None:
    assert "no such repository" in lfs_worker.run(hub, yank=REASON)
    assert "a reason is one line" in lfs_worker.run(hub, yank="two\nlines")


def interrupt(worker: Publisher, root: Path, mode: Mode, at: int, order: str) -> str:
    """Yank 1.0.0, or take that back, with one thing going wrong; what it struck."""
    with any_hub("embedded", root) as hub:
        hub.trouble.pid_file = worker.scratch / "pid"
        assert worker.run(hub) == "ok"
        if order == "unyank":
            assert worker.run(hub, yank=REASON) == "ok"
        hub.trouble.reset(mode, at)
        said = [worker.run(hub, **{order: REASON})]
        struck = hub.trouble.struck
        hub.trouble.reset()
        if said == ["killed"]:
            said.append(worker.run(hub, **{order: REASON}))
        assert said[-1] == "ok", f"{mode} at {struck}: {said}"
        tags = stands(hub)["dataset"]["tags"]
        held = blobs(hub, "main") == blobs(hub, "1.0.0")
        assert (held, set(tags)) == ((True, {"1.0.0"}) if order == "unyank" else (False, {"1.0.0", "yanked/1.0.0"}))
        assert len(hub.get("/api/datasets/acme/things/commits/main")) == (4 if order == "unyank" else 3)
        return struck


@pytest.mark.parametrize(("mode", "at"), [("kill_after", 16), ("lost", 16), ("hang", 4)])
@pytest.mark.parametrize("order", ["yank", "unyank"])
def test_an_interrupted_yank_is_finished(
    lfs_worker: Publisher, tmp_path: Path, mode: Mode, at: int, order: str
) -> None:
    assert interrupt(lfs_worker, tmp_path, mode, at, order)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", ["kill_before", "kill_after", "503", "429", "412", "409", "lost", "hang"])
@pytest.mark.parametrize("order", ["yank", "unyank"])
def test_a_yank_may_be_disturbed_at_every_request(
    lfs_worker: Publisher, tmp_path: Path, mode: Mode, order: str
) -> None:
    points = 0
    while interrupt(lfs_worker, tmp_path / str(points), mode, points, order):
        points += 1
    assert points > 20


TEXT = st.text(min_size=1, max_size=60)


@given(body=st.binary(max_size=300), front=st.booleans(), reasons=st.lists(TEXT, max_size=3))
def test_a_tombstone_is_lifted_off_without_a_trace(body: bytes, front: bool, reasons: list[str]) -> None:
    card = b"---\nlicense: other\n---\n" * front + body
    card = unbury(card)  # a card that starts with a tombstone is one that was buried
    yanked = [Yanked(version=f"1.0.{number}", reason=reason) for number, reason in enumerate(reasons)]
    buried = bury(card, yanked)
    assert unbury(buried) == card
    assert bury(buried, yanked) == buried


@given(reason=TEXT)
def test_a_reason_stays_one_line_of_plain_text(reason: str) -> None:
    head, foot = b"---\nlicense: other\n---\n", b"# Things\n"
    block = bury(head + foot, [Yanked(version="1.0.0", reason=reason)])
    assert block.startswith(head) and block.endswith(foot)
    lines = block[len(head) : -len(foot)].decode().split("\n")
    assert len(lines) == 4 and lines[1].startswith("> ")
    assert not any(mark in lines[1][2:] for mark in "<>") and lines[1].isprintable()
