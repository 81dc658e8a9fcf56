"""Outputs that appear whole or not at all: a complete directory with its manifest, put in place by one rename."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from oresmith.errors import OresmithError

MANIFEST = "manifest.json"
MANIFEST_FORM = "oresmith.manifest/1"
_DISK_FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG}
_held: set[int] = set()
_JSON = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE


class Staged:
    """A directory under construction."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self.path = path
        """Write the output's files here."""
        self.scratch = scratch
        """For logs and other things that vary between runs; removed on success, else at the start of the next run."""
        self.rows: dict[str, int] = {}
        """Rows of a file, by its path relative to `path`, for the manifest."""


@contextmanager
def stage_output(
    target: Path,
    lock_name: str,
    *,
    schema: str,
    params: Mapping[str, Any] | None = None,
    observed: Path | None = None,
) -> Iterator[Staged]:
    """Build the directory `target`: yield a temporary one beside it, and put it in place when the block ends well.

    After an exception or a kill at any moment `target` is what it was, or absent; the next run clears the rest away.
    The manifest, written last, lists each file with sha256, bytes and (where given) rows, the schema's name and the
    params.

    Args:
        target: the output; an earlier one is replaced.
        lock_name: of the lock file `.<lock_name>.lock` beside the target, held while the block runs.
        schema: name and version of what the files hold, such as `records.TRAJECTORY_SCHEMA`.
        params: JSON values that the content depends on.
        observed: file that takes facts of this run, which no manifest may hold: wall seconds, CPU seconds of this
            process and its ended children, peak resident MiB of the larger of them.

    Raises:
        OresmithError: another process holds the lock; the target is no output of ours; the disk is full or fails.
    """
    clock = time.monotonic()
    fresh, scratch, old = (target.with_name(f".{target.name}.{kind}") for kind in ("new", "scratch", "old"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock(target.with_name(f".{lock_name}.lock")):
            _clear(target, fresh, scratch, old)
            try:
                staged = Staged(fresh, scratch)
                fresh.mkdir()
                scratch.mkdir()
                yield staged
                _write_manifest(staged, schema, dict(params or {}))
                _put_in_place(fresh, target, old)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(scratch, ignore_errors=True)
            if observed:
                _write_observed(observed, time.monotonic() - clock)
    except OSError as error:
        if error.errno not in _DISK_FAULTS:
            raise
        raise disk_fault(error, target) from error


def load_manifest(target: Path, schema: str) -> dict[str, Any]:
    """The manifest of an output of schema `schema`, whose files are there in the listed sizes; they are not hashed.

    Raises:
        OresmithError: there is none, it is damaged, it names another schema, or a file is missing or of another size.
    """
    path = target / MANIFEST
    todo = "run the stage that writes it"
    try:
        manifest = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise OresmithError("no readable manifest", where=str(path), got=str(error), todo=todo) from error
    found = manifest.get("schema") if isinstance(manifest, dict) else None
    if found != schema or manifest.get("manifest") != MANIFEST_FORM:
        raise OresmithError("an output of another kind", where=str(path), expected=schema, got=str(found), todo=todo)
    for entry in manifest["files"]:
        file = target / entry["path"]
        if not file.is_file() or file.stat().st_size != entry["bytes"]:
            raise OresmithError("an output is not what its manifest says", where=str(file), todo=todo)
    return dict(manifest)


def disk_fault(error: OSError, target: Path) -> OresmithError:
    """The sentence for a disk that is full or fails, with what is free and what to do."""
    place = target
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free // (1024 * 1024)
    return OresmithError(
        "the disk refused a write; nothing half-written is left",
        where=str(error.filename or target),
        got=f"{error.strerror or error}; {free} MiB are free on the file system of {place}",
        todo="free space there (or mend the disk) and run the same command again",
    )


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
            raise OresmithError(
                "another run is writing the same output",
                where=str(path),
                got=f"the lock is held by process {holder}",
                todo="wait for it to end, or stop it",
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        _held.add(handle)
        yield
    finally:
        _held.discard(handle)
        os.close(handle)


def _release_in_child() -> None:
    # A forked worker shares the lock and would hold it after the stage is dead.
    for handle in _held:
        with suppress(OSError):
            os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_release_in_child)


def _clear(target: Path, fresh: Path, scratch: Path, old: Path) -> None:
    """Remove what a dead run left, having put back the old output if it died between the two renames."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise OresmithError("the output path is taken", where=str(target), expected="a directory, or nothing")
    if old.exists() and not target.exists():
        old.rename(target)
    if target.exists() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        raise OresmithError(
            "the directory is not an output of this program, so it is not replaced",
            where=str(target),
            expected=f"a directory with a {MANIFEST}, an empty one, or none",
            todo="choose another output path, or remove the directory yourself",
        )
    for path in (fresh, scratch, old):
        if path.exists():
            shutil.rmtree(path)


def _write_manifest(staged: Staged, schema: str, params: dict[str, Any]) -> None:
    files, rows = [], dict(staged.rows)
    folders = [staged.path]
    for path in sorted(staged.path.rglob("*")):
        name = path.relative_to(staged.path).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise OresmithError("an output may only hold files and directories", where=str(path))
        if path.is_dir():
            folders.append(path)
            continue
        with path.open("rb") as file:
            entry = {
                "path": name,
                "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
                "bytes": path.stat().st_size,
            }
            os.fsync(file.fileno())
        files.append(entry | ({"rows": rows.pop(name)} if name in rows else {}))
    if rows:
        raise OresmithError("rows were counted for files that do not exist", where=", ".join(sorted(rows)))
    manifest = {"manifest": MANIFEST_FORM, "schema": schema, "params": params, "files": files}
    with (staged.path / MANIFEST).open("wb") as file:
        file.write(orjson.dumps(manifest, option=_JSON))
        file.flush()
        os.fsync(file.fileno())
    for folder in folders:
        _sync_folder(folder)


def _put_in_place(fresh: Path, target: Path, old: Path) -> None:
    replaced = target.exists()
    if replaced:
        target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        if replaced:
            old.rename(target)
        raise
    _sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_observed(path: Path, seconds: float) -> None:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    scale = 1024 * 1024 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in KiB elsewhere
    facts = {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(sum(usage.ru_utime + usage.ru_stime for usage in usages), 3),
        "peak_rss_mib": max(usage.ru_maxrss for usage in usages) // scale,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(orjson.dumps(facts, option=_JSON))
    fresh.replace(path)
