"""Packed lines come back, are the same bytes every time, and are no bomb however alike they are."""

import random

import pytest

from oresmith.blocks.packing import RECORDS, TALKS, PackedLines
from oresmith.lines.framing import Limits, Line, read_lines

SAID = f"{random.Random(7).getrandbits(8000):x}" * 20
LINE = f'{{"dialogue": "{SAID}"}}'.encode()
"""40 KB that say one thing again and again, as a model that loops does; the same in every line."""


@pytest.mark.parametrize("frame", [TALKS, RECORDS])
@pytest.mark.parametrize("count", [0, 1, 5, 1030])
def test_lines_come_back_and_pack_alike(tmp_path, frame, count):
    lines = [f'{{"line": {number}}}'.encode() for number in range(count)]
    for name in ("one", "two"):
        with PackedLines(tmp_path / name, frame) as writer:
            for line in lines:
                writer.add(line)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    if count:
        assert [line.data for line in read_lines(tmp_path / "one", Limits())] == lines


def test_conversations_that_repeat_themselves_are_read_back_where_one_frame_would_be_refused(tmp_path):
    count = 80 * 2**20 // len(LINE)  # past the first 64 MiB, from which on readers look at the ratio
    found = {}
    for name, frame in (("framed", TALKS), ("whole", count)):
        with PackedLines(tmp_path / name, frame) as writer:
            for number in range(count):
                writer.add(LINE[:-2] + f'{number}"}}'.encode())
        found[name] = sum(isinstance(line, Line) for line in read_lines(tmp_path / name, Limits()))
    assert found["framed"] == count > found["whole"]
