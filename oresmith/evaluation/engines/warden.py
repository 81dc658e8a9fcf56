"""Keeps a server for as long as the process that asked for it lives: `python warden.py SECONDS COMMAND..`.

Standard input is a pipe that the other process holds open. When it ends, however it ends, the pipe does: the server's
whole process group is then asked to end, and killed where it has not within the seconds given. When the server ends by
itself, what it left behind is killed. Run by its path, so that it needs nothing beside Python.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress


def main() -> None:
    """Run the command, and leave with its exit code."""
    grace, command = float(sys.argv[1]), sys.argv[2:]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)  # noqa: S603 - a command of ours
    threading.Thread(target=_watch, args=(server.pid, grace), daemon=True).start()
    code = server.wait()
    _signal(server.pid, signal.SIGKILL)
    print(f"the server ended with exit code {code}", file=sys.stderr, flush=True)
    os._exit(code if code >= 0 else 128 - code)


def _watch(group: int, grace: float) -> None:
    sys.stdin.buffer.read()
    _signal(group, signal.SIGTERM)
    time.sleep(grace)
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    main()
