"""The request log: one JSON line a request; no token, no signature, no content."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

MAX_LOG = 16 << 20
"""Bytes from which on the log is begun anew when a server starts."""


class RequestLog:
    """Appends lines: `time` and `ms`, `server`, `method`, `path`, `status` (0: no answer went out), `bytes` announced.

    Args:
        file: made when absent.
    """

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        if file.exists() and file.stat().st_size > MAX_LOG:
            file.unlink()
        self._file = file

    def note(self, server: str, began: float, method: str, *, path: str, status: int, length: str) -> None:
        """Add one line."""
        line = {
            "time": round(began, 3),
            "ms": round((time.time() - began) * 1000, 1),
            "server": server,
            "method": method[:20],
            "path": path.partition("?")[0][:2000],
            "status": status,
            "bytes": length[:20],
        }
        with self._lock, self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")
