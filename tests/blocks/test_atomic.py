from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
import pytest

from oresmith.blocks.atomic import MANIFEST, load_manifest, stage_output
from oresmith.blocks.execute import run_pipeline
from oresmith.errors import OresmithError
from tests.blocks.files import inputs, row, tree, write
from tests.blocks.steps import OddProblems, normaliser

SCHEMA = "test.things/1"
FORK = multiprocessing.get_context("fork")


def build(target: Path, text: str, **more: Any) -> None:
    """An output of two files in two folders."""
    with stage_output(target, "stage", schema=SCHEMA, params={"text": text}, **more) as staged:
        (staged.scratch / "log").write_text("varies")
        (staged.path / "sub").mkdir()
        for name in ("b.txt", "sub/a.txt"):
            with (staged.path / name).open("wb") as file:
                file.write(text.encode())
        staged.rows["sub/a.txt"] = 1


def test_an_output_is_complete_with_its_manifest_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out"
    build(target, "one", observed=tmp_path / "observed" / "stage.json")
    manifest = load_manifest(target, SCHEMA)
    assert manifest["params"] == {"text": "one"}
    assert manifest["files"] == [
        {"path": "b.txt", "sha256": hashlib.sha256(b"one").hexdigest(), "bytes": 3},
        {"path": "sub/a.txt", "sha256": hashlib.sha256(b"one").hexdigest(), "bytes": 3, "rows": 1},
    ]
    assert sorted(path.name for path in target.parent.iterdir()) == [".stage.lock", "out"]
    facts = orjson.loads((tmp_path / "observed" / "stage.json").read_bytes())
    assert set(facts) == {"seconds", "cpu_seconds", "peak_rss_mib"} and facts["peak_rss_mib"] > 10


def test_the_same_content_makes_the_same_bytes_and_a_new_one_replaces_it(tmp_path: Path) -> None:
    target = tmp_path / "out"
    build(target, "one")
    first = tree(target)
    build(target, "one")
    assert tree(target) == first
    build(target, "two")
    assert tree(target)["b.txt"] == b"two"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_old_output_and_no_rest(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "out"
    build(target, "old")
    before = tree(target)
    with pytest.raises(error), stage_output(target, "stage", schema=SCHEMA) as staged:
        (staged.path / "half").write_text("half")
        raise error
    assert tree(target) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.scratch", ".stage.lock", "out"]
    build(target, "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".stage.lock", "out"]


@contextmanager
def fault_at(count: int, fault: Callable[[str], None]) -> Iterator[list[str]]:
    """Call `fault` before the `count`-th operation that changes the disk: open, write, sync, rename, mkdir, unlink."""
    done: list[str] = []

    def step(name: str) -> None:
        done.append(name)
        if len(done) == count:
            fault(name)

    def wrapped(module: Any, name: str) -> Any:
        original = getattr(module, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            step(name)
            return original(*args, **kwargs)

        return mock.patch.object(module, name, call)

    opened = Path.open

    def open_path(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not set(mode) & set("wa+"):
            return opened(self, mode, *args, **kwargs)
        step("open")
        file = opened(self, mode, *args, **kwargs)
        watched = mock.Mock(wraps=file)
        watched.__enter__ = lambda _: watched
        watched.__exit__ = lambda *_: file.close()
        watched.closed = False

        def write_bytes(data: Any) -> int:
            step("write")
            written: int = file.write(data)
            return written

        watched.write = write_bytes
        return watched

    with mock.patch.object(Path, "open", open_path):
        patches = [wrapped(os, "fsync"), wrapped(os, "rename"), wrapped(os, "mkdir"), wrapped(os, "rmdir")]
        patches += [wrapped(os, "unlink"), wrapped(os, "ftruncate")]
        for patch in patches:
            patch.start()
        try:
            yield done
        finally:
            for patch in patches:
                patch.stop()


def stage(target: Path, folder: Path) -> None:
    """A real stage in miniature: reader, filter, rejects, accounts, writer."""
    files = inputs(*(folder / name for name in ("a", "b")))
    with stage_output(target, "stage", schema=SCHEMA, observed=target.parent / "observed.json") as staged:
        steps = normaliser(staged.path, [files[:1], files[1:]], OddProblems)
        run_pipeline(steps, 2, scratch=staged.scratch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        write(tmp_path / "in" / name, b"\n".join([row(1), b"nope", row(2)]))
    return tmp_path / "in"


def check_what_a_dead_run_left(target: Path, old: dict[str, bytes], new: dict[str, bytes]) -> None:
    """Under its name stands the old output, the new one or nothing; if nothing, the old one is not lost."""
    found = tree(target) if target.exists() else None
    assert found in (old, new, None)
    if found is None and old:
        assert tree(target.with_name(".out.old")) == old


def two_files(target: Path, folder: Path) -> None:
    """The smallest output; it reads nothing."""
    build(target, "new")


SWEEPS = [
    pytest.param(two_files, 1, id="two files, every operation"),
    pytest.param(stage, 11, id="a stage, every 11th operation"),
    pytest.param(stage, 1, id="a stage, every operation", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("before", ["nothing", "an older output"])
@pytest.mark.parametrize(("make", "stride"), SWEEPS)
def test_kill_9_at_any_disk_operation_leaves_the_old_output_or_none(
    tmp_path: Path, folder: Path, before: str, make: Callable[[Path, Path], None], stride: int
) -> None:
    make(tmp_path / "clean" / "out", folder)
    new = tree(tmp_path / "clean" / "out")
    target = tmp_path / "work" / "out"

    def work(count: int) -> None:
        with fault_at(count, lambda _: os.kill(os.getpid(), signal.SIGKILL)):
            make(target, folder)

    for count in range(1, 1000, stride):
        shutil.rmtree(target, ignore_errors=True)
        if before != "nothing":
            build(target, "old")
        old = tree(target) if target.exists() else {}
        child = FORK.Process(target=work, args=(count,))
        child.start()
        child.join(60)
        check_what_a_dead_run_left(target, old, new)
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        make(target, folder)
        assert tree(target) == new
        leftovers = {path.name for path in target.parent.iterdir()} - {"out", ".stage.lock", "observed.json"}
        assert not leftovers, count
    assert count > 15 and tree(target) == new


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(("make", "stride"), SWEEPS)
def test_a_full_or_failing_disk_at_any_operation_is_a_refusal_with_nothing_half_written(
    tmp_path: Path, folder: Path, code: int, make: Callable[[Path, Path], None], stride: int
) -> None:
    target = tmp_path / "work" / "out"
    build(target, "old")
    old = tree(target)

    def fault(name: str) -> None:
        raise OSError(code, os.strerror(code))

    refused = 0
    for count in range(1, 1000, stride):
        with fault_at(count, fault) as done:
            try:
                make(target, folder)
            except OresmithError as error:
                refused += 1
                assert os.strerror(code) in error.got and "MiB are free" in error.got and "run the same" in error.todo
        if len(done) < count:
            break
        if tree(target) != old:
            # From the rename on the output is the new one, whole: only tidying up was disturbed.
            assert load_manifest(target, SCHEMA)["files"]
            build(target, "old")
    assert refused > 3
    make(target, folder)


def test_a_really_full_device_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="MiB are free"), stage_output(tmp_path / "o", "s", schema=SCHEMA) as staged:
        (staged.path / "f").write_text("x")
        with Path("/dev/full").open("wb", buffering=0) as full:
            full.write(b"x")
    assert not (tmp_path / "o").exists()


def test_a_second_run_is_refused_while_the_first_one_lives_and_names_it(tmp_path: Path) -> None:
    target = tmp_path / "out"
    ours, theirs = FORK.Pipe()

    def hold() -> None:
        with stage_output(target, "stage", schema=SCHEMA):
            # A grandchild that outlives the holder must not keep the lock.
            if os.fork() == 0:
                theirs.recv()
                os._exit(0)
            theirs.send(os.getpid())
            signal.pause()

    child = FORK.Process(target=hold)
    child.start()
    pid = ours.recv()
    with pytest.raises(OresmithError, match=f"held by process {pid}"):
        build(target, "mine")
    child.kill()
    child.join()
    build(target, "mine")
    ours.send("end")
    assert tree(target)["b.txt"] == b"mine"


@pytest.mark.parametrize("there", ["file", "link", "other"])
def test_what_is_no_output_of_ours_is_never_replaced(tmp_path: Path, there: str) -> None:
    target = tmp_path / "out"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years")
    if there == "file":
        target.write_text("x")
    elif there == "link":
        target.symlink_to(precious)
    else:
        precious.rename(target)
        precious = target
    with pytest.raises(OresmithError, match=r"taken|not an output"):
        build(target, "new")
    assert (precious / "thesis.txt").read_text() == "years"


def test_an_output_holds_files_and_no_links_and_rows_of_files_that_exist(tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="only hold files"), stage_output(tmp_path / "o", "s", schema="x") as staged:
        (staged.path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OresmithError, match="ghost: rows"), stage_output(tmp_path / "o", "s", schema="x") as staged:
        staged.rows["ghost"] = 1
    assert not (tmp_path / "o").exists()


def test_an_output_of_another_kind_is_not_read(tmp_path: Path) -> None:
    build(tmp_path / "out", "one")
    with pytest.raises(OresmithError, match=r"(?s)another kind.*other/2.*test\.things/1"):
        load_manifest(tmp_path / "out", "other/2")
    (tmp_path / "out" / "b.txt").write_text("on")
    with pytest.raises(OresmithError, match=r"b\.txt: an output is not what its manifest says"):
        load_manifest(tmp_path / "out", SCHEMA)
    (tmp_path / "out" / MANIFEST).write_text("[]")
    with pytest.raises(OresmithError, match="another kind"):
        load_manifest(tmp_path / "out", SCHEMA)
    for content in (b"{", None):
        (tmp_path / "out" / MANIFEST).write_bytes(content) if content else (tmp_path / "out" / MANIFEST).unlink()
        with pytest.raises(OresmithError, match="no readable manifest"):
            load_manifest(tmp_path / "out", SCHEMA)
