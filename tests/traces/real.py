"""The real inputs, which lie beside a working copy and nowhere else."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

SN15 = Path(__file__).resolve().parents[3] / "shared" / "data" / "sn15"
TRACES = sorted(SN15.glob("traces_*.jsonl.gz"))

needs_shared = pytest.mark.skipif(not SN15.is_dir(), reason="the real inputs (../shared/data/sn15) are not here")


def rows(name: str) -> Iterator[Any]:
    with gzip.open(SN15 / name, "rb") as stream:
        for line in stream:
            yield orjson.loads(line)
