"""A commit is whole or not there, and a branch moves only from where the committer saw it."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oresmith.release.hub.git import Change, Git, GitError, MovedError, Written
from oresmith.release.hub.repository import MAX_REGULAR
from tests.release.hub_world import World, file, hub_at, large, page


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hub_at(tmp_path_factory.mktemp("commits") / "hub") as world:
        yield world


def test_of_many_writers_with_one_parent_one_wins(hub: World) -> None:
    api = hub.create("race")
    head, said = hub.head(api), []

    def write(number: int) -> None:
        said.append(hub.commit(api, file(f"{number}.txt", b"x"), parent=head).status)

    threads = [threading.Thread(target=write, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [200] + [412] * 7
    assert len(hub.paths(api)) == 2
    assert len(hub.ask("GET", f"{api}/commits/main").json) == 2


def test_a_stale_parent_is_refused_in_the_hubs_words_and_a_short_one_taken(hub: World) -> None:
    api = hub.create("stale")
    first = hub.head(api)
    assert hub.commit(api, file("a", b"1"), parent=first[:7]).status == 200
    answer = hub.commit(api, file("b", b"2"), parent=first)
    assert (answer.status, answer.json["error"]) == (
        412,
        "A commit has happened since. Please refresh and try again.",
    )
    assert hub.paths(api) == [".gitattributes", "a"]
    assert hub.commit(api, file("b", b"2"), parent="nonsense").status == 400


LINES: list[tuple[str, Any, int]] = [
    ("a large file that nobody uploaded", large("x.bin", "0" * 64), 400),
    ("an oid that is none", large("x.bin", "../../etc/passwd"), 422),
    ("content that is not base64", {"key": "file", "value": {"path": "x", "content": "!", "encoding": "base64"}}, 400),
    ("an unknown operation", {"key": "rename", "value": {"path": "x"}}, 400),
    ("a file to remove that is not there", {"key": "deletedFile", "value": {"path": "nothing"}}, 404),
    ("a folder to remove that is a file", {"key": "deletedFolder", "value": {"path": "kept.txt/"}}, 404),
    ("a file in place of a folder", file("folder", b"x"), 400),
    ("a folder in place of a file", file("kept.txt/x", b"x"), 400),
    ("a card whose front matter is not YAML", file("README.md", b"---\na: [\n---\n"), 400),
    ("a card whose front matter is a list", file("README.md", b"---\n- a\n---\n"), 400),
    ("a card that grows when read", file("README.md", b"---\na: &a [x]\nb: [*a, *a]\n---\n"), 400),
    ("a file that must go beside git", file("big.txt", b"x" * MAX_REGULAR), 413),
]


@pytest.mark.parametrize(("line", "status"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_one_bad_line_keeps_the_whole_commit_out(hub: World, line: Any, status: int) -> None:
    api = hub.create(f"bad-line{[row[1] for row in LINES].index(line)}")
    assert hub.commit(api, file("kept.txt", b"1"), file("folder/a", b"1")).status == 200
    head = hub.head(api)
    assert hub.commit(api, file("good.txt", b"2"), line, file("also.txt", b"3")).status == status
    assert hub.head(api) == head and "good.txt" not in hub.paths(api)


def test_a_commit_to_a_branch_that_is_not_there_makes_none(hub: World) -> None:
    api = hub.create("no-branch")
    answer = hub.commit(api, file("a", b"1"), branch="staging/1.0.0")
    assert (answer.status, answer.headers["x-error-code"]) == (404, "RevisionNotFound")
    assert [row["name"] for row in hub.ask("GET", f"{api}/refs").json["branches"]] == ["main"]


def test_files_are_put_replaced_and_removed_together(hub: World) -> None:
    api = hub.create("together")
    oid = hub.put_large(api, b"large")
    assert hub.commit(api, file("a/b/c", b"1"), file("a/d", b"2"), large("a/e.bin", oid), file("f", b"")).status == 200
    gone = {"key": "deletedFolder", "value": {"path": "a/b/"}}
    assert hub.commit(api, gone, file("a/b", b"now a file"), file("f", b"3")).status == 200
    assert hub.paths(api) == [".gitattributes", "a/b", "a/d", "a/e.bin", "f"]
    assert hub.ask("GET", f"{page(api)}/resolve/main/a/b").body == b"now a file"


def test_a_folder_that_a_file_replaced_without_being_removed_is_refused(hub: World) -> None:
    api = hub.create("replaced")
    assert hub.commit(api, file("a/b", b"1")).status == 200
    assert hub.commit(api, file("a", b"2")).status == 400
    assert hub.commit(api, {"key": "deletedFile", "value": {"path": "a/b"}}, file("a", b"2")).status == 200


def test_a_pointer_written_by_hand_reads_as_the_file_that_it_names_only_if_that_is_there(hub: World) -> None:
    api = hub.create("pointer")
    text = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"1" * 64 + b"\nsize 5\n"
    assert hub.commit(api, file("x.txt", text)).status == 400


def test_a_message_with_controls_does_not_change_the_history(hub: World) -> None:
    api = hub.create("message")
    header = {"summary": "a\x01\x02\x03\nb\x00", "description": "c\x03d\x1f"}
    body = "\n".join(json.dumps(line) for line in ({"key": "header", "value": header}, file("a", b"1")))
    assert hub.ask("POST", f"{api}/commit/main", body=body.encode()).status == 200
    rows = hub.ask("GET", f"{api}/commits/main").json
    assert [row["title"] for row in rows] == ["a b", "initial commit"]
    assert rows[0]["message"] == "c d"


def test_a_tag_and_a_branch_never_move_and_never_share_a_name(hub: World) -> None:
    api = hub.create("refs")
    first = hub.head(api)
    hub.commit(api, file("a", b"1"))
    assert hub.post(f"{api}/tag/{first}", {"tag": "v1.0.0"}).status == 200
    for message in (None, "moved"):
        assert hub.post(f"{api}/tag/main", {"tag": "v1.0.0", "message": message}).status == 409
    assert hub.post(f"{api}/branch/v1.0.0", {}).status == 409
    assert hub.post(f"{api}/tag/main", {"tag": "main"}).status == 409
    assert hub.post(f"{api}/branch/side", {"startingPoint": "v1.0.0"}).status == 200
    assert hub.post(f"{api}/branch/side", {}).status == 409
    assert [hub.head(api, name) for name in ("v1.0.0", "side", "refs/tags/v1.0.0")] == [first] * 3
    assert hub.ask("DELETE", f"{api}/branch/main").status == 403


@pytest.fixture
def git(tmp_path: Path) -> Git:
    made = Git(tmp_path / "git")
    made.create()
    made.commit(Change("refs/heads/main", None, [Written("a", b"1")], (), "alice", "first"))
    return made


def test_a_commit_that_breaks_off_is_not_there(git: Git) -> None:
    head = git.head("refs/heads/main")

    def broken() -> Iterator[Written]:
        yield Written("b", b"2")
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="disk"):
        git.commit(Change("refs/heads/main", head, broken(), (), "alice", "second"))
    assert git.head("refs/heads/main") == head


def test_the_end_of_the_pipe_alone_does_not_make_a_commit(git: Git) -> None:
    head = git.head("refs/heads/main")
    begun = f"commit refs/heads/main\ncommitter a <a> 1 +0000\ndata 1\nx\nfrom {head}\nM 100644 inline b\ndata 1\n2\n\n"
    order = ["git", f"--git-dir={git.folder}", "fast-import", "--quiet", "--done"]
    assert subprocess.run(order, input=begun.encode(), capture_output=True, check=False).returncode != 0
    assert git.head("refs/heads/main") == head


def test_a_ref_that_moved_meanwhile_is_not_overwritten(git: Git) -> None:
    head = git.head("refs/heads/main")
    second = git.commit(Change("refs/heads/main", head, [Written("b", b"2")], (), "alice", "second"))
    with pytest.raises(MovedError):
        git.commit(Change("refs/heads/main", head, [Written("c", b"3")], (), "alice", "third"))
    with pytest.raises(MovedError):
        git.commit(Change("refs/heads/main", None, [Written("c", b"3")], (), "alice", "third"))
    with pytest.raises(MovedError):
        git.point("refs/heads/main", head, head)
    assert git.head("refs/heads/main") == second


def test_a_parent_that_git_does_not_have_is_an_error_of_git(git: Git) -> None:
    with pytest.raises(GitError):
        git.commit(Change("refs/heads/main", "1" * 40, [Written("b", b"2")], (), "alice", "second"))


def test_preupload_tells_how_each_file_travels_and_what_lies_there(hub: World) -> None:
    api = hub.create("preupload")
    oid = hub.put_large(api, b"large")
    hub.commit(api, large("x.parquet", oid), file("a.txt", b"1"))
    tree = {row["path"]: row["oid"] for row in hub.ask("GET", f"{api}/tree/main").json}
    sample = base64.b64encode(b"a\0b").decode()
    files = [
        {"path": "x.parquet", "size": 5, "sample": ""},
        {"path": "a.txt", "size": 1, "sample": ""},
        {"path": "binary", "size": 3, "sample": sample},
        {"path": "long.json", "size": MAX_REGULAR, "sample": ""},
        {"path": "logs/x.log", "size": 1, "sample": ""},
    ]
    rows = hub.post(f"{api}/preupload/main", {"files": files, "gitIgnore": "# no\nlogs/\n"}).json["files"]
    assert [row["uploadMode"] for row in rows] == ["lfs", "regular", "lfs", "lfs", "regular"]
    assert [row.get("oid") for row in rows] == [oid, tree["a.txt"], None, None, None]
    assert [row["shouldIgnore"] for row in rows] == [False, False, False, False, True]
