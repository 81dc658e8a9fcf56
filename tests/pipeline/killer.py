"""Run a stage and kill it at its k-th change of the file system: `python -m tests.pipeline.killer K STAGE ARGS..`.

An audit hook sees every file opened for writing, every directory made, and every rename or removal before it happens.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate"}


def main() -> None:
    limit, stage, *arguments = sys.argv[1:]
    left = int(limit)

    def hook(event: str, details: tuple[Any, ...]) -> None:
        nonlocal left
        opened = event == "open" and isinstance(details[2], int) and bool(details[2] & WRITING)
        if opened or event in CHANGES:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    sys.argv = [f"stages.{stage}", *arguments]
    runpy.run_module(f"stages.{stage}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
