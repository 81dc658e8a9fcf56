"""What survives a kill: finished samples, one line each, on disk before the next is played.

The file is named by the digest of everything that its samples depend on, so that nothing of another configuration is
ever taken for this one's. A line carries the hash of its content: reading ends at the first that does not check out (a
kill tears the last), and the file is cut there before anything is appended.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from oresmith.errors import OresmithError
from oresmith.evaluation.records import Rollout

Key = tuple[str, int]
"""Problem and sample."""


class _Head(msgspec.Struct, frozen=True, tag_field="journal", tag="oresmith.journal/1"):
    digest: str


class _Line(msgspec.Struct, frozen=True):
    sha256: str
    rollout: msgspec.Raw


_HEAD, _LINE, _ROLLOUT = msgspec.json.Decoder(_Head), msgspec.json.Decoder(_Line), msgspec.json.Decoder(Rollout)


def digest_of(configuration: dict[str, Any]) -> str:
    """The sha256 of a configuration of JSON values, whatever the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(configuration, order="deterministic")).hexdigest()


class Journal:
    """The finished samples of one configuration. Made by `open_journal`."""

    def __init__(self, path: Path, file: IO[bytes], digest: str) -> None:
        self.path, self._file, self.digest = path, file, digest
        self._places: dict[Key, tuple[int, int]] = {}
        self._end = self._load()
        self.found = frozenset(self._places)
        """What an earlier run left; a sample that the engine failed at is not among it."""

    def add(self, rollout: Rollout) -> None:
        """Store one sample; it is on disk when this returns."""
        data = msgspec.json.encode(rollout)
        self._append(msgspec.json.encode(_Line(_sha256(data), msgspec.Raw(data))), (rollout.problem, rollout.sample))

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    def get(self, key: Key) -> Rollout:
        """Read one sample back.

        Raises:
            KeyError: it was not stored.
        """
        start, length = self._places[key]
        line = _LINE.decode(os.pread(self._file.fileno(), length, start))
        return _ROLLOUT.decode(line.rollout)

    def remove(self) -> None:
        """Remove the file, and its directory where nothing else is in it: what it held stands elsewhere now."""
        self.path.unlink(missing_ok=True)
        if not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()

    def _append(self, line: bytes, key: Key | None) -> None:
        self._file.seek(self._end)
        self._file.write(line + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        if key is not None:
            self._places[key] = (self._end, len(line))
        self._end += len(line) + 1

    def _load(self) -> int:
        """Take in the lines that check out; returns where they end, and cuts the file there."""
        self._file.seek(0)
        end = 0
        for line in self._file:
            if not line.endswith(b"\n") or not self._take(line[:-1], end):
                break
            end += len(line)
        self._file.truncate(end)
        if end == 0:
            self._end = 0
            self._append(msgspec.json.encode(_Head(self.digest)), None)
            return self._end
        return end

    def _take(self, line: bytes, start: int) -> bool:
        try:
            if start == 0:
                return _HEAD.decode(line).digest == self.digest
            entry = _LINE.decode(line)
            if _sha256(bytes(entry.rollout)) != entry.sha256:
                return False
            rollout = _ROLLOUT.decode(entry.rollout)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        if rollout.ended != "error":
            self._places[rollout.problem, rollout.sample] = (start, len(line))
        return True


@contextmanager
def open_journal(folder: Path, digest: str) -> Iterator[Journal]:
    """Open the journal of a configuration, or begin one; no other process can meanwhile.

    Args:
        folder: where journals live; made if need be. It must be outside of what a stage replaces.
        digest: see `digest_of`.

    Raises:
        OresmithError: another process has it open.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{digest}.jsonl"
    with path.open("a+b") as raw:
        try:
            fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OresmithError(
                "another run is playing the same problems with the same model",
                where=str(path),
                todo="wait for it to end, or stop it",
            ) from None
        journal = Journal(path, raw, digest)
        _sync(folder)  # the directory's entry, too, has to outlive the machine
        yield journal


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
