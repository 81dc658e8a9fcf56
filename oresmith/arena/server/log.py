"""The server's request log as it is written: appended line by line, whole after a kill up to the last line."""

from __future__ import annotations

import fcntl
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any

from oresmith.arena.witness import HEAD, Entry, entry_line, make_entry, read_entries
from oresmith.errors import OresmithError


class RequestLog:
    """An open witness file. Each line is handed to the system at once, and to the disk at `close`.

    Args:
        path: created for its owner alone; one that is there is continued, a torn last line taken off.
        keep_messages: store the messages of inference too.

    Raises:
        OresmithError: the file cannot be opened, belongs to a running server, or holds something else.
    """

    def __init__(self, path: Path, *, keep_messages: bool = False) -> None:
        self.path, self.keep_messages = path, keep_messages
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OresmithError("the request log cannot be written", where=str(path), got=str(error.strerror)) from None
        try:
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise OresmithError("the request log is no regular file", where=str(path))
            self._counts = self._continue()
        except BaseException:
            os.close(self._file)
            raise

    def _continue(self) -> Counter[str]:
        """Take the file over; returns the entries that each session has in it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            todo = "stop that server, or give this one another log"
            raise OresmithError(
                "the request log belongs to a running server", where=str(self.path), todo=todo
            ) from None
        begun = os.pread(self._file, len(HEAD), 0)
        if begun != HEAD and HEAD.startswith(begun):  # new, or torn in its first line
            os.ftruncate(self._file, 0)
            os.write(self._file, HEAD)
            return Counter()
        counts = Counter(entry.session for entry in read_entries(self.path))
        _cut_torn_line(self._file)
        return counts

    def known(self, session: str) -> bool:
        """Whether the log holds entries of the session."""
        return session in self._counts

    def record(self, session: str, method: str, path: str, **what: Any) -> Entry:
        """Append the next entry of a session; `what` is as in `make_entry`. Call it from one thread.

        Raises:
            OSError: no space is left, or a failing disk; the log stands as before.
        """
        entry = make_entry(session, self._counts[session], method, path, **what)
        body = what.get("json_data")
        kept = body.get("messages") if self.keep_messages and isinstance(body, dict) else None
        _append(self._file, entry_line(entry, kept))
        self._counts[session] += 1
        return entry

    def close(self) -> None:
        """Bring everything to the disk and let the file go. May be called again."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1


def _append(file: int, line: bytes) -> None:
    """Write a line whole or not at all: the next one must not stand behind half of it."""
    end, left = os.fstat(file).st_size, memoryview(line)
    try:
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        os.ftruncate(file, end)
        raise


def _cut_torn_line(file: int) -> None:
    """Remove what stands after the last line end: a kill in the middle of a line leaves it."""
    size = os.fstat(file).st_size
    end = size
    while end > 0:
        begin = max(0, end - 65536)
        found = os.pread(file, end - begin, begin).rfind(b"\n")
        if found >= 0:
            end = begin + found + 1
            break
        end = begin
    if end < size:
        os.ftruncate(file, end)
