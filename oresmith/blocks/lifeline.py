"""A process that ends when the one it works for ends.

DVC does not kill the command of a stage when it dies itself, and then starts a second writer beside the orphan; workers
outlive a killed stage in the same way. A daemon thread waits on the other process (a pidfd, so that no other process
with the same number can be mistaken for it) and ends this one, its descendants first.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, NoReturn

ORPHANED = 3
"""Exit code of a process that ended because the one it worked for did."""

_PROC = Path("/proc")
_SHELLS = {"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"}
_POLL_SECONDS = 0.5
_watched: set[tuple[int, Identity]] = set()


class Identity(NamedTuple):
    """A process, told from any later one with the same number."""

    pid: int
    started: str
    """Start time in clock ticks since boot; empty where the system does not tell."""
    host: str


def identity(pid: int | None = None) -> Identity:
    """Identity of a process of this machine, by default of this process."""
    pid = os.getpid() if pid is None else pid
    return Identity(pid, _started(pid), socket.gethostname())


def end_with_parent() -> None:
    """End this process when its parent does; if that is a shell running a command, when the shell's parent does, too.

    Call it first in a stage. If the parent is gone already the process ends at once.
    """
    parent = os.getppid()
    watched = [identity(parent)]
    # A shell waits for its command whatever happens to its own parent, so `dvc` -> `sh -c` -> stage needs both.
    if _is_command_shell(parent) and (grandparent := _parent_of(parent)):
        watched.append(identity(grandparent))
    if os.getppid() != parent or _was_orphaned(watched[-1].pid):
        _end()
    for process in watched:
        end_with(process)


def end_with(process: Identity) -> None:
    """End this process when `process` does; at once if it is gone. Nothing happens for a process of another machine.

    Repeated calls are free; a forked child has to call again, since threads do not survive a fork.
    """
    key = (os.getpid(), process)
    if key in _watched or process.host != socket.gethostname():
        return
    _watched.add(key)
    try:
        handle: int | None = os.pidfd_open(process.pid)
    except ProcessLookupError:
        _end()
    except (OSError, AttributeError):  # no such call on this kernel or system, or it is not permitted
        handle = None
    if not _alive(process):
        _end()
    threading.Thread(target=_wait, args=(process, handle), name="lifeline", daemon=True).start()


def _wait(process: Identity, handle: int | None) -> None:
    if handle is not None:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.poll()
    else:
        while _alive(process):
            time.sleep(_POLL_SECONDS)
    _end()


def _end() -> NoReturn:
    for pid in _descendants(os.getpid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:  # it ended by itself
            continue
    os._exit(ORPHANED)


def _alive(process: Identity) -> bool:
    if process.started:
        return _started(process.pid) == process.started
    if process.pid == os.getppid():
        return True
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's, so alive
        return True
    return True


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third on (state, parent, ..); empty where there is none."""
    try:
        # The name, in brackets, may hold anything, brackets and blanks too.
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _started(pid: int) -> str:
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def _parent_of(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _descendants(pid: int) -> Iterable[int]:
    """All descendants, children before grandchildren."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.glob("[0-9]*"):
        if (parent := _parent_of(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = children.get(pid, [])
    for child in found:
        found.extend(children.get(child, []))
    return found


def _command_line(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _is_command_shell(pid: int) -> bool:
    words = _command_line(pid)
    return Path(words[0]).name in _SHELLS and "-c" in words[1:] if words else False


def _was_orphaned(pid: int) -> bool:
    """Whether DVC started this process and its place has been taken by init: DVC died before the watch began."""
    words = " ".join(_command_line(pid))
    return pid == 1 and "DVC_STAGE" in os.environ and "dvc" not in words and "python" not in words
