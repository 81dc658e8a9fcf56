from __future__ import annotations

import gzip
import os
import tracemalloc
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.lines.framing import BadLine, Limits, Line, read_lines, read_whole
from oresmith.lines.streams import GZIP_MAGIC, ZSTD_MAGIC
from oresmith.reasons import Reason
from tests.blocks.files import CODECS, pack, row, write, zstd_bomb

SMALL = Limits(max_line_bytes=64, ratio_floor=1024 * 1024)
MIB = 1024 * 1024
FOREIGN = (b"BZh", b"PK\x03\x04", b"PAR1", b"\xfd7zX")
SKIPPABLE = b"\x2a\x4d\x18"
FAULTS = (Reason.STREAM_TRUNCATED, Reason.STREAM_CORRUPT, Reason.BOMB)


def items(path: Path, limits: Limits | None = None) -> list[Line | BadLine]:
    return list(read_lines(path, limits))


def datas(found: list[Line | BadLine]) -> list[bytes]:
    return [item.data for item in found if isinstance(item, Line)]


def reasons(found: list[Line | BadLine]) -> list[Reason]:
    return [item.reason for item in found if isinstance(item, BadLine)]


def check_that_items_touch(found: list[Line | BadLine], stream: bytes) -> None:
    """Reassemble: each item lies where it says, the gaps are line ends, and nothing lies between items."""
    place = 3 if stream.startswith(b"\xef\xbb\xbf") else 0
    for number, item in enumerate(found, start=1):
        assert (item.number, item.offset) == (number, place)
        length = len(item.data) if isinstance(item, Line) else item.length
        assert stream[item.offset + length : item.end] in (b"", b"\n", b"\r\n")
        if isinstance(item, Line):
            assert item.data == stream[item.offset : item.offset + length]
        place = item.end


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    pieces=st.lists(
        st.one_of(
            st.sampled_from([b"\n", b"\r\n", b"\r", b'{"a":1}', b"[", b"1", b"\xef\xbb\xbf", b" ", b"\0", b"]"]),
            st.binary(max_size=40),
            st.integers(50, 200).map(lambda size: b"y" * size),
        ),
        max_size=30,
    ),
    codec=st.sampled_from(CODECS),
)
@example(pieces=[b"\xef\xbb\xbf"], codec="plain")
@example(pieces=[b"y" * 64, b"\r", b"\n"], codec="plain")
@example(pieces=[b"y" * 65, b"\r", b"\n"], codec="plain")
@example(pieces=[b"y" * 200, b"\r", b"\n", b"1"], codec="gzip")
def test_every_byte_of_any_stream_is_in_exactly_one_line(tmp_path: Path, pieces: list[bytes], codec: str) -> None:
    stream = b"".join(pieces)
    assume(not stream.startswith((GZIP_MAGIC, ZSTD_MAGIC, *FOREIGN)) and stream[1:4] != SKIPPABLE)
    found = items(write(tmp_path / "f", stream, codec), SMALL)
    check_that_items_touch(found, stream)
    assert (found[-1].end if found else 0) == len(stream)
    for item in found:
        if isinstance(item, Line):
            assert len(item.data) <= SMALL.max_line_bytes and item.data.strip()


@pytest.mark.parametrize("codec", CODECS)
def test_lines_come_whole_across_every_buffer_boundary(tmp_path: Path, codec: str) -> None:
    lines = [row(number, os.urandom(500).hex() * (number % 40)) for number in range(400)]
    assert datas(items(write(tmp_path / "f", b"\n".join(lines), codec))) == lines


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_cut_at_every_byte_gives_the_lines_before_it_and_says_truncated(tmp_path: Path, codec: str) -> None:
    lines = [row(number) for number in range(8)]
    stream = b"".join(line + b"\n" for line in lines)
    whole = pack(stream, codec)
    magic = {"gzip": GZIP_MAGIC, "zstd": ZSTD_MAGIC}[codec]
    boundary = whole.index(magic, 4)  # nothing is missing from a file that ends with its first member
    for cut in range(len(whole)):
        path = tmp_path / "f"
        path.write_bytes(whole[:cut])
        found = items(path)
        good = datas(found)
        assert good == lines[: len(good)], cut
        check_that_items_touch(found, stream if cut >= len(magic) else whole[:cut])
        if cut >= len(magic) and cut != boundary:
            assert reasons(found) == [Reason.STREAM_TRUNCATED], cut
            assert isinstance(found[-1], BadLine) and (found[-1].position or 0) <= cut


def test_a_cut_stream_delivers_all_that_could_be_decompressed(tmp_path: Path) -> None:
    lines = [row(number, os.urandom(400).hex()) for number in range(2000)]
    stream = b"\n".join(lines)
    for codec in ("gzip", "zstd"):
        whole = pack(stream, codec)
        path = tmp_path / "f"
        path.write_bytes(whole[: len(whole) * 9 // 10])
        # A zstd block holds 128 KiB of the stream, so that much may be missing, and no more.
        assert len(datas(items(path))) > 2000 * 9 // 10 - 200


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_flipped_bit_anywhere_is_never_taken_for_a_sound_stream(tmp_path: Path, codec: str) -> None:
    lines = [row(number) for number in range(6)]
    whole = pack(b"".join(line + b"\n" for line in lines), codec)
    path = tmp_path / "f"
    for place in range(4, len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        found = items(path, Limits(max_line_bytes=4096))
        # Some header bytes mean nothing; all else is under a check sum.
        assert datas(found) == lines or set(reasons(found)) & set(FAULTS), place


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_damage_in_the_middle_costs_only_what_comes_after_it(tmp_path: Path, codec: str) -> None:
    lines = [row(number, os.urandom(2000).hex()) for number in range(500)]
    whole = bytearray(pack(b"\n".join(lines), codec))
    place = len(whole) * 3 // 4
    whole[place : place + 200] = bytes(200)
    path = tmp_path / "f"
    path.write_bytes(whole)
    found = items(path)
    good = datas(found)
    # Without any check sum before the end, some lines after the damage may be decoded to something else.
    same = next(count for count, (a, b) in enumerate(zip([*good, b""], lines, strict=False)) if a != b)
    assert same > 500 * 3 // 4 - 70
    assert reasons(found)[-1] is Reason.STREAM_CORRUPT


def test_gzip_padding_is_no_damage_but_other_trailing_bytes_are(tmp_path: Path) -> None:
    whole = gzip.compress(row(1) + b"\n")
    path = tmp_path / "f"
    path.write_bytes(whole + bytes(100_000))
    assert reasons(items(path)) == [] and datas(items(path)) == [row(1)]
    path.write_bytes(whole + b"tail")
    found = items(path)
    assert datas(found) == [row(1)] and reasons(found) == [Reason.STREAM_CORRUPT]
    assert isinstance(found[-1], BadLine) and found[-1].position == len(whole)
    path.write_bytes(whole[:-8] + bytes(4) + whole[-4:])
    assert datas(items(path)) == [row(1)] and reasons(items(path)) == [Reason.STREAM_CORRUPT]


def test_zstd_frames_of_every_header_form_are_read(tmp_path: Path) -> None:
    lines = [row(number) for number in range(300)]
    skippable = b"\x53\x2a\x4d\x18" + (70_000).to_bytes(4, "little") + bytes(70_000)
    for size_known in (True, False):
        for checksum in (True, False):
            make = zstandard.ZstdCompressor(write_content_size=size_known, write_checksum=checksum)
            frames = [make.compress(line + b"\n") for line in lines]
            big = make.compress(b"".join(line + b"\n" for line in lines) * 20)
            path = tmp_path / "f"
            path.write_bytes(skippable + b"".join(frames) + skippable + make.compress(b"") + big)
            assert datas(items(path)) == lines + lines * 20
    path.write_bytes(skippable[:1000])
    assert reasons(items(path)) == [Reason.STREAM_TRUNCATED]
    path.write_bytes(pack(row(1) + b"\n", "zstd") + b"tail")
    assert datas(items(path)) == [row(1)] and reasons(items(path)) == [Reason.STREAM_CORRUPT]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("place", ["start", "middle", "end"])
@pytest.mark.parametrize(
    ("bad", "reason"),
    [(b"", Reason.BLANK_LINE), (b" \t", Reason.BLANK_LINE), (b"z" * 400, Reason.LINE_TOO_LONG)],
)
def test_a_bad_line_is_reported_in_place_and_the_others_are_read(
    tmp_path: Path, codec: str, place: str, bad: bytes, reason: Reason
) -> None:
    good = [row(number) for number in range(4)]
    index = {"start": 0, "middle": 2, "end": 4}[place]
    lines = [*good[:index], bad, *good[index:]]
    stream = b"".join(line + b"\r\n" for line in lines)
    found = items(write(tmp_path / "f", stream, codec), Limits(max_line_bytes=300))
    assert datas(found) == good and reasons(found) == [reason]
    culprit = found[index]
    assert isinstance(culprit, BadLine)
    assert (culprit.number, culprit.length, culprit.offset) == (
        index + 1,
        len(bad),
        sum(len(line) + 2 for line in lines[:index]),
    )


@pytest.mark.parametrize("codec", CODECS)
def test_the_last_line_is_torn_only_if_it_is_not_complete_json(tmp_path: Path, codec: str) -> None:
    line = row(2)
    path = tmp_path / "f"
    for cut in range(1, len(line) + 1):
        found = items(write(path, row(1) + b"\n" + line[:cut], codec))
        assert datas(found) == ([row(1), line] if cut == len(line) else [row(1)]), cut
        assert reasons(found) == ([] if cut == len(line) else [Reason.LINE_TORN]), cut


def test_a_torn_character_is_torn_and_a_nul_tail_is_left_to_the_decoder(tmp_path: Path) -> None:
    assert reasons(items(write(tmp_path / "f", row(1) + b'\n{"a":"\xc3'))) == [Reason.LINE_TORN]
    assert datas(items(write(tmp_path / "f", row(1) + b"\n" + bytes(64)))) == [row(1), bytes(64)]


@pytest.mark.parametrize("codec", CODECS)
def test_a_byte_order_mark_is_left_out_and_counted(tmp_path: Path, codec: str) -> None:
    stream = b"\xef\xbb\xbf" + row(1) + b"\n" + row(2)
    found = items(write(tmp_path / "f", stream, codec))
    assert datas(found) == [row(1), row(2)] and found[0].offset == 3 and found[-1].end == len(stream)
    assert reasons(items(write(tmp_path / "f", b"\xef\xbb\xbf", codec))) == [Reason.BLANK_LINE]


@pytest.mark.parametrize("codec", CODECS)
def test_one_document_that_spans_lines_is_one_line(tmp_path: Path, codec: str) -> None:
    document = b'[\n  {"a": 1},\n  {"b": [\n2]}\n]'
    for ending in (b"", b"\n", b"\r\n"):
        stream = b"\xef\xbb\xbf" + document + ending
        found = items(write(tmp_path / "f", stream, codec))
        assert found == [Line(1, 3, document, len(stream))]


def test_lines_that_are_not_one_document_stay_lines(tmp_path: Path) -> None:
    two = b'{"a": 1}\n{"b": 2}\n'
    assert datas(items(write(tmp_path / "f", two))) == [b'{"a": 1}', b'{"b": 2}']
    torn_first = b'{"a":\n{"b": 2}\n'
    assert datas(items(write(tmp_path / "f", torn_first))) == [b'{"a":', b'{"b": 2}']
    too_long = b"[\n" + b" " * 100 + b"]\n"
    found = items(write(tmp_path / "f", too_long), SMALL)
    assert reasons(found) == [Reason.LINE_TOO_LONG] and datas(found) == [b"["]
    cut = pack(b"[\n1,\n2\n]\n", "gzip")[:-9]
    path = tmp_path / "f"
    path.write_bytes(cut)
    assert reasons(items(path))[-1] is Reason.STREAM_TRUNCATED


@pytest.mark.parametrize("bomb", [zstd_bomb(250), gzip.compress(bytes(48 * MIB))], ids=["zstd", "gzip"])
def test_a_bomb_is_stopped_at_the_limit_with_little_memory(tmp_path: Path, bomb: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(bomb)
    limits = Limits(max_line_bytes=MIB, max_ratio=3.0, ratio_floor=4 * MIB)
    tracemalloc.start()
    found = items(path, limits)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reasons(found)[-1] is Reason.BOMB
    assert found[-1].end == 4 * MIB
    assert peak < 16 * MIB


def test_the_limits_of_a_stream_hold_for_plain_files_and_let_good_ones_through(tmp_path: Path) -> None:
    lines = [row(number) for number in range(100)]
    stream = b"".join(line + b"\n" for line in lines)
    path = write(tmp_path / "f", stream)
    found = items(path, Limits(max_stream_bytes=500))
    assert reasons(found) == [Reason.BOMB] and found[-1].end == 500
    assert datas(found) == lines[: len(datas(found))] and datas(found)
    assert datas(items(path, Limits(max_stream_bytes=len(stream), max_ratio=1.0, ratio_floor=1))) == lines


def test_an_over_long_line_is_never_held(tmp_path: Path) -> None:
    path = tmp_path / "f"
    squeeze = zlib.compressobj(1, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        file.write(squeeze.compress(row(1) + b"\n"))
        for _ in range(40):
            file.write(squeeze.compress(b"a" * MIB))
        file.write(squeeze.compress(b"\n" + row(2) + b"\n") + squeeze.flush())
    tracemalloc.start()
    found = items(path, Limits(max_line_bytes=MIB, ratio_floor=1024 * MIB))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert datas(found) == [row(1), row(2)] and reasons(found) == [Reason.LINE_TOO_LONG]
    assert isinstance(found[1], BadLine) and found[1].length == 40 * MIB
    assert peak < 12 * MIB


@pytest.mark.parametrize("most", [2**40, 2**63 - 2, 2**63 - 1, 2**70])
def test_a_limit_beyond_any_memory_is_no_limit_and_takes_none(tmp_path: Path, most: int) -> None:
    limits = Limits(max_line_bytes=most, max_stream_bytes=most)
    tracemalloc.start()
    assert datas(items(write(tmp_path / "f", row(1) + b"\n" + row(2)), limits)) == [row(1), row(2)]
    assert datas(items(write(tmp_path / "f", b"[\n1\n]\n"), limits)) == [b"[\n1\n]"]
    assert read_whole(tmp_path / "f", limits) == (b"[\n1\n]\n", None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * MIB


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_read_whole_says_why_it_is_not_whole(tmp_path: Path, codec: str) -> None:
    path = write(tmp_path / "f", b"12345678", codec)
    assert read_whole(path, Limits(max_line_bytes=8)) == (b"12345678", None)
    data, fault = read_whole(path, Limits(max_line_bytes=7))
    assert data == b"1234567" and fault and fault.reason is Reason.BOMB
    if codec != "plain":
        path.write_bytes(path.read_bytes()[:-3])
        _, fault = read_whole(path, Limits())
        assert fault and fault.reason is Reason.STREAM_TRUNCATED


def test_an_empty_file_has_no_lines_in_any_codec(tmp_path: Path) -> None:
    for codec in CODECS:
        assert items(write(tmp_path / "f", b"", codec)) == []


def test_what_is_no_file_of_lines_is_refused_clearly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    cases = {"absent": "cannot be read", ".": "not a regular file", "pipe": "not a regular file"}
    for name, head in {"p.parquet": b"PAR1", "a.zip": b"PK\x03\x04", "a.xz": b"\xfd7zXZ\0", "a.bz2": b"BZh9"}.items():
        (tmp_path / name).write_bytes(head + bytes(10))
        cases[name] = "this is"
    for name, message in cases.items():
        with pytest.raises(OresmithError, match=message):
            items(tmp_path / name)
