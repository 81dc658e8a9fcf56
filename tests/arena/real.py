"""The real inputs, which lie beside a working copy and nowhere else."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
SN15 = SHARED / "sn15"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real inputs (../shared/data) are not here")


def rows(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rb") as stream:
        for line in stream:
            yield msgspec.json.decode(line)
