"""What every stage and command does around its work: typed refusals, exit codes, small published files."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from oresmith.errors import EXIT_REFUSED, OresmithError, shown
from oresmith.param_data import Snapshot
from oresmith.params import Params

EXIT_INTERRUPTED = 130
PATH_FAULTS = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
"""Faults of a path that a user named: refusals, not faults of ours."""
DATA = Path("data")
METRICS = Path("metrics")
PLOTS = Path("plots")


def guarded(work: Callable[[], None]) -> NoReturn:
    """Run a stage's or command's work and leave with the exit code that its end deserves.

    0 for success, 2 for a refusal (printed without a traceback), 130 for an interruption. A full disk is a refusal too.
    """
    try:
        work()
    except OresmithError as error:
        refuse(str(error), error.exit_code)
    except KeyboardInterrupt:
        refuse("interrupted: nothing half-written was left; run the same command again", EXIT_INTERRUPTED)
    except BrokenPipeError:
        os._exit(0)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            refuse(f"{error.filename or 'disk'}: no space is left; free some and run the same command again")
        if error.errno in PATH_FAULTS:
            refuse(f"{str(error.filename)[:300]}: {error.strerror}")
        raise
    sys.exit(0)


def refuse(message: str, code: int = EXIT_REFUSED) -> NoReturn:
    """Print a refusal to standard error and leave."""
    print(f"error: {shown(message, lines=True)}", file=sys.stderr)
    sys.exit(code)


def write_small(path: Path, content: bytes) -> None:
    """Write a small file whole or not at all (temporary file beside it, then rename)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as writer:
            writer.write(content)
            writer.flush()
            os.fsync(writer.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_metrics(name: str, values: object) -> None:
    """Publish a metrics file for DVC: stable key order, no times."""
    write_small(METRICS / f"{name}.json", msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n")


def write_plot(name: str, header: list[str], rows: list[tuple[object, ...]]) -> None:
    """Publish a CSV that DVC plots."""
    lines = [",".join(header), *(",".join(str(value) for value in row) for row in rows)]
    write_small(PLOTS / f"{name}.csv", ("\n".join(lines) + "\n").encode())


def argument(argv: list[str], usage: str | None) -> str:
    """The one argument of a stage that works on one snapshot: its name.

    Raises:
        OresmithError: no argument, or more than one.
    """
    if len(argv) != 2:
        raise OresmithError("one argument is needed: the snapshot's name", where=argv[0], todo=(usage or "").strip())
    return argv[1]


def selected(params: Params, name: str) -> Snapshot:
    """The entry of the snapshot of this name.

    Raises:
        OresmithError: the parameters list no such snapshot.
    """
    for entry in params.snapshots:
        if entry.name == name:
            return entry
    known = ", ".join(entry.name for entry in params.snapshots)
    raise OresmithError("no such snapshot in the parameters", where="params.yaml: snapshots", expected=known, got=name)


def builtins(namespace: msgspec.Struct) -> dict[str, Any]:
    """A namespace of parameters as plain JSON values, defaults included, for a manifest."""
    values: dict[str, Any] = msgspec.to_builtins(namespace)
    return values


def workers(params: Params) -> int:
    """Processes to use at once: `run.workers`, or the cores that this process may run on."""
    return params.run.workers or len(os.sched_getaffinity(0))
