"""The whole stage `normalize`: reading, decoding, codecs, writing, contract check, manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from benchmarks.project import NAME, inside, params

ONE_SHARD = 2**40
"""Progress is reported by shard, so that one shard keeps the tables of the report together."""


def normalise(where: Path, home: Path, duplicates: bool, compression: Literal["zstd", "none"]) -> int:
    """Run the stage in this process; returns the trajectories it kept."""
    from oresmith.param_data import Normalize
    from stages.normalize import run

    chosen = Normalize(check_duplicate_keys=duplicates, compression=compression, shard_bytes=ONE_SHARD)
    with inside(where):
        report: Any = run(params(home, normalize=chosen), NAME)
    return int(report.kept)
