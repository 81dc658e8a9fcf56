"""A bare git repository, through git's plumbing: no shell, no configuration of this machine, no hooks.

Readers see commits, which never change; the one thing that changes is a ref, and only by compare-and-swap.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER = re.compile(POINTER + rb"oid sha256:([0-9a-f]{64})\nsize (\d{1,15})\n")
_NONE = "0" * 40
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
    "PATH": os.environ.get("PATH", os.defpath),
}


class GitError(RuntimeError):
    """git refused; its message is for the log, never for a client."""


class MovedError(GitError):
    """A ref is not where the caller believed."""


@dataclass(frozen=True)
class Entry:
    """A file or folder of a commit."""

    path: str
    blob: str
    """Git's id of the blob or tree."""
    size: int
    """Bytes of the file itself, be it in git or among the large ones; 0 for a folder."""
    folder: bool = False
    oid: str | None = None
    """The sha256, for a large file."""
    pointer_size: int = 0
    """Bytes of what git holds in its place."""


@dataclass(frozen=True)
class Written:
    """A file of a commit in the making: its bytes, or the pointer to a large one."""

    path: str
    data: bytes


@dataclass(frozen=True)
class Change:
    """A commit to be made."""

    ref: str
    """Full name of what it goes on."""
    parent: str | None
    """Where the ref is now; None where it is not."""
    writes: Iterable[Written]
    """Files, taken one at a time."""
    removed: Sequence[str]
    """Files and folders that go first."""
    user: str
    """The author."""
    message: str
    """Title, empty line, text."""


@dataclass(frozen=True)
class Commit:
    """One line of history."""

    id: str
    author: str
    time: int
    """Seconds since the epoch."""
    title: str
    message: str
    paths: tuple[str, ...]
    """Files that it touched."""


def pointer(oid: str, size: int) -> bytes:
    """What git holds in place of a large file."""
    return POINTER + f"oid sha256:{oid}\nsize {size}\n".encode()


def pointed(data: bytes) -> tuple[str, int] | None:
    """Of what git holds, sha256 and bytes of the large file that it stands for; None for a file itself."""
    match = _POINTER.fullmatch(data)
    return (match[1].decode(), int(match[2])) if match else None


class Git:
    """One repository.

    Args:
        folder: the bare repository; `create` makes it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = lru_cache(maxsize=16)(self._tree)
        self.touched = lru_cache(maxsize=4)(self._touched)

    def create(self) -> None:
        """Make an empty repository.

        Raises:
            GitError: git is not there, or refuses.
        """
        self.folder.mkdir(parents=True)
        # `gc.auto 0`: nothing may start a process that outlives the server
        self._run("init", "--quiet", "--bare", "--template=", "--initial-branch=main")
        self._run("config", "gc.auto", "0")

    def head(self, ref: str) -> str | None:
        """The commit of a full ref (`refs/heads/main`) or of a commit's id; None where there is none."""
        done = self._try("rev-parse", "--quiet", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def refs(self) -> list[tuple[str, str]]:
        """Every full ref with its commit, sorted; a tag with a message is followed to it."""
        out = self._run("for-each-ref", "--format=%(refname) %(objectname) %(*objectname)").decode()
        return [(line.split()[0], line.split()[-1]) for line in out.splitlines()]

    def unpeeled(self) -> list[tuple[str, str]]:
        """Every full ref with what it holds itself: of a tag with a message that is not the commit."""
        out = self._run("for-each-ref", "--format=%(refname) %(objectname)").decode()
        return [(line.split()[0], line.split()[1]) for line in out.splitlines()]

    def point(self, ref: str, new: str | None, old: str | None) -> None:
        """Move a ref from `old` (None: absent) to `new` (None: away), or leave everything as it is.

        Raises:
            MovedError: the ref is elsewhere.
        """
        order = ["-d", ref, old or _NONE] if new is None else [ref, new, old or _NONE]
        if self._try("update-ref", *order).returncode:
            raise MovedError(ref)

    def annotate(self, tag: str, commit: str, message: str, user: str) -> None:
        """Make a tag that carries a message.

        Raises:
            MovedError: the tag is there.
        """
        who = f"{user} <{user}@hub.invalid>"
        text = f"object {commit}\ntype commit\ntag {tag}\ntagger {who} {_now()} +0000\n\n{message}\n"
        made = self._run("hash-object", "-w", "-t", "tag", "--stdin", data=text.encode("utf-8", "replace"))
        self.point(f"refs/tags/{tag}", made.decode().strip(), None)

    def blob(self, blob: str) -> bytes:
        """The bytes of a file that git holds itself; the server takes none of more than `MAX_REGULAR` bytes."""
        return self._run("cat-file", "blob", blob)

    def commit(self, change: Change) -> str:
        """Put one commit on a ref, all of it or nothing; gives its id.

        Raises:
            MovedError: the ref is no longer at the parent.
            GitError: git refused something else.
        """
        # `--done`: a stream that ends early, as when this process is killed, makes no commit
        order = self._order("fast-import", "--quiet", "--done", "--date-format=raw")
        pipe = subprocess.PIPE
        with subprocess.Popen(order, stdin=pipe, stdout=pipe, stderr=pipe, env=_ENVIRONMENT) as process:  # noqa: S603
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            made, complaint = "", b""
            try:
                with suppress(BrokenPipeError):  # git ended: it says why
                    made = _write_commit(process.stdin, process.stdout, change)
                complaint = process.stderr.read()
            except BaseException:
                process.kill()
                raise
        if process.returncode or not made:
            text = complaint.decode("utf-8", "replace")
            kind = MovedError if "does not contain" in text or "cannot lock ref" in text else GitError
            raise kind(text[:500])
        return made

    def history(self, commit: str, most: int = -1) -> Iterator[Commit]:
        """Commits from this one back; all of them, or the first ones."""
        form = "--format=%x01%H%x02%an%x02%ct%x02%s%x02%b%x03"
        out = self._run(
            "log", "-z", f"--max-count={most}", form, "--name-only", "--no-renames", "--root", commit, "--"
        ).decode("utf-8", "replace")
        for record in out.split("\x01")[1:]:
            head, _, rest = record.partition("\x03")
            commit_id, author, time, title, body = (head.split("\x02") + [""] * 5)[:5]
            paths = tuple(path for path in rest.strip("\n\0").split("\0") if path)
            yield Commit(commit_id, author, int(time), title, body.strip(), paths)

    def _touched(self, commit: str) -> dict[str, Commit]:
        """The last commit that touched each file and each folder. Raises as `history`."""
        found: dict[str, Commit] = {}
        for made in self.history(commit):
            for path in made.paths:
                found.setdefault(path, made)
                while "/" in path:
                    path = path.rsplit("/", 1)[0]  # noqa: PLW2901 (upwards)
                    found.setdefault(path, made)
        return found

    def _tree(self, commit: str) -> dict[str, Entry]:
        """Every file and folder of a commit by its path, in git's order."""
        out = self._run("ls-tree", "-r", "-t", "-z", "-l", commit).decode("utf-8", "replace")
        rows = []
        for line in out.split("\0")[:-1]:
            facts, path = line.split("\t", 1)
            _, kind, blob, size = facts.split()
            rows.append(Entry(path, blob, 0 if kind == "tree" else int(size), kind == "tree"))
        small = [row.blob for row in rows if not row.folder and len(POINTER) < row.size < 200]
        pointers = self._pointers(small)
        return {row.path: _followed(row, pointers.get(row.blob)) for row in rows}

    def _pointers(self, blobs: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Of these small blobs, the pointers to large files: sha256 and bytes."""
        if not blobs:
            return {}
        out = self._run("cat-file", "--batch", data="".join(f"{blob}\n" for blob in blobs).encode())
        found, at = {}, 0
        while at < len(out):
            end = out.index(b"\n", at)
            blob, _, size = out[at:end].split()
            data = out[end + 1 : end + 1 + int(size)]
            at = end + 2 + int(size)
            if target := pointed(data):
                found[blob.decode()] = target
        return found

    def _order(self, *arguments: str) -> list[str]:
        return ["git", f"--git-dir={self.folder}", *arguments]

    def _try(self, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self._order(*arguments), input=data, capture_output=True, env=_ENVIRONMENT, check=False)  # noqa: S603 (a list of ours)

    def _run(self, *arguments: str, data: bytes = b"") -> bytes:
        done = self._try(*arguments, data=data)
        if done.returncode:
            raise GitError(f"git {arguments[0]}: {done.stderr.decode('utf-8', 'replace')[:500]}")
        return done.stdout


def _followed(row: Entry, target: tuple[str, int] | None) -> Entry:
    return row if target is None else Entry(row.path, row.blob, target[1], False, target[0], row.size)


def _write_commit(pipe: IO[bytes], answers: IO[bytes], change: Change) -> str:
    """Send one commit to `git fast-import`, and give its id (empty: it failed); the ref moves after it."""
    text = change.message.encode("utf-8", "replace")
    who = f"{change.user} <{change.user}@hub.invalid> {_now()} +0000".encode()
    pipe.write(b"commit %s\nmark :1\nauthor %s\ncommitter %s\n" % (change.ref.encode(), who, who))
    pipe.write(b"data %d\n%s\n" % (len(text), text))
    if change.parent is not None:
        pipe.write(b"from %s\n" % change.parent.encode())
    for path in change.removed:
        pipe.write(b"D %s\n" % _quoted(path))
    for file in change.writes:
        pipe.write(b"M 100644 inline %s\ndata %d\n%s\n" % (_quoted(file.path), len(file.data), file.data))
    pipe.write(b"\nget-mark :1\ndone\n")
    pipe.close()
    return answers.readline().decode().strip()


def _quoted(path: str) -> bytes:
    """A path as fast-import reads it; control characters were refused before."""
    return b'"%s"' % path.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _now() -> int:
    return int(time.time())
