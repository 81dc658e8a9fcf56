"""A project directory of its own for the stages to run in: a frozen snapshot of bench envelopes and its parameters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.measure import Settings, SkippedError

NAME = "bench"


def params(home: Path, **namespaces: Any) -> Any:
    """The default parameters, one worker, over the snapshot in `home`; `namespaces` replaces some of them."""
    from oresmith.param_data import Snapshot
    from oresmith.params import Params, Run

    entry = Snapshot(name=NAME, path=str(home), provenance=str(home / "provenance.yaml"))
    return Params(snapshots=[entry], run=Run(workers=1), **namespaces)


def project(settings: Settings, rows: int, *, distinct: int | None = None) -> tuple[Path, Path]:
    """Make the snapshot, freeze it once in a project of its own; returns the project and the snapshot's directory."""
    try:
        from stages import snapshots
    except ImportError as error:
        raise SkippedError(f"the stages are not there ({error})") from error
    home = data.snapshot(settings.home, rows, distinct)
    where = settings.home / f"project-{home.name}"
    where.mkdir(exist_ok=True)
    with inside(where):
        if not (where / "data" / "snapshots" / NAME).exists():
            chosen = params(home)
            snapshots.run(chosen, chosen.snapshots[0])
    return where, home


@contextmanager
def inside(where: Path) -> Iterator[None]:
    """Stages read and write below the working directory."""
    before = Path.cwd()
    os.chdir(where)
    try:
        yield
    finally:
        os.chdir(before)
