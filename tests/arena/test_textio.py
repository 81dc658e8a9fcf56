"""The files beside traces are read as carefully as traces, and their rows as strictly."""

from __future__ import annotations

import gzip
import os
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from oresmith.arena import textio
from oresmith.arena.catalogue import load_catalogue
from oresmith.arena.problems import load_problems
from oresmith.arena.textio import LINE_BYTES, read_lines, read_whole
from oresmith.errors import OresmithError
from oresmith.judgements import read_judgements

MIB = 1024 * 1024
PACK: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def listed(path: Path) -> list[tuple[int, bytes]]:
    return list(read_lines(path))


READERS: list[Callable[[Path], object]] = [
    listed,
    read_whole,
    load_catalogue,
    load_problems,
    lambda path: read_judgements(path, {"f"}),
]


@pytest.mark.parametrize("read", READERS)
def test_what_could_have_no_end_or_is_no_text_is_refused_before_it_is_read(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.xz").write_bytes(b"\xfd7zXZ\0")
    paths = [tmp_path / "pipe", tmp_path, tmp_path / "absent", tmp_path / "a.xz", Path("/dev/zero")]
    for path in paths:
        with pytest.raises(OresmithError) as caught:
            read(path)
        assert caught.value.where == str(path)


@pytest.mark.parametrize("read", READERS)
def test_one_line_that_expands_without_end_is_refused_with_bounded_memory(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "line.jsonl"
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = squeeze.compress(b'[{"query": "') + squeeze.compress(b"a" * 96 * MIB) + squeeze.flush()
    path.write_bytes(packed)
    tracemalloc.start()
    with pytest.raises(OresmithError, match=r"line\.jsonl:1: "):
        read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * MIB


def test_a_line_may_be_as_long_as_the_limit_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"1\n" + b"2" * LINE_BYTES + b"\n3\n")
    assert [number for number, _ in read_lines(path)] == [1, 2, 3]
    with pytest.raises(OresmithError, match="f:2: the line cannot be read"):
        list(read_lines(path, LINE_BYTES - 1))
    path.write_bytes(b"1\n\n345678\n")
    with pytest.raises(OresmithError, match=r"f:3: .*\n.*bomb: more than 9 bytes"):
        read_whole(path, 9)


@pytest.mark.parametrize("codec", PACK)
@pytest.mark.parametrize("name", ["f.jsonl", "f.gz", "f.zst", "f"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_the_first_bytes_and_not_the_name_tell_the_codec_and_a_byte_order_mark_is_left_out(
    codec: str, name: str, mark: bytes, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(PACK[codec](mark + b'{"a": 1}\r\n\n \n  {"b": 2}'))
    assert listed(path) == [(1, b'{"a": 1}'), (4, b'{"b": 2}')]
    assert read_whole(path) == b'{"a": 1}\r\n\n \n  {"b": 2}'


def test_a_document_that_spans_lines_has_the_number_of_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b'\n \n{"a":\n1}\n')
    assert listed(path) == [(3, b'{"a":\n1}')]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_packed_file_without_a_byte_is_cut_off(read: Callable[[Path], object], suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"f{suffix}"
    path.touch()
    with pytest.raises(OresmithError, match="cut off"):
        read(path)
    plain = tmp_path / "f.jsonl"
    plain.touch()
    assert listed(plain) == [] and read_whole(plain) == b""


ROWS: dict[str, tuple[Callable[[Path], object], bytes]] = {
    "problem": (load_problems, b'{"query": "q", "reward": {"product_id": "1", "x": %b}}'),
    "suite": (load_problems, b'[{"query": "q", "reward": {"product_id": "1", "x": %b}}]'),
    "product": (load_catalogue, b'{"product_id": "1", "attributes": %b}'),
    "judgement": (lambda path: read_judgements(path, {"f"}), b'{"file": "f", "line": 1, "explanation": %b}'),
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"a": 1, "a": 2}', "duplicate_key"),
        (b'{"a": 1, "\\u0061": 2}', "duplicate_key"),
        (b"9" * 25, "huge_integer"),
        (b"[" * 40 + b"]" * 40, "nested_too_deep"),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "nested_too_deep"),
        (b'"\\ud800"', "lone_surrogate"),
    ],
)
def test_a_row_that_parsers_read_differently_or_that_nests_deep_is_refused_with_its_line(
    kind: str, value: bytes, reason: str, tmp_path: Path
) -> None:
    load, form = ROWS[kind]
    path = tmp_path / "rows.jsonl"
    good = form % b'"fine"'
    path.write_bytes(b"\n" + good + b"\n")
    load(path)
    path.write_bytes(b"\n" + form % value + b"\n")
    with pytest.raises(OresmithError, match=rf"rows\.jsonl:[23]: (?s:.*){reason}"):
        load(path)


def test_blank_lines_without_end_are_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textio, "_BLANK_LINES", 3)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n{}\n\n\n{}\n")
    assert len(listed(path)) == 2
    path.write_bytes(b"\n{}\n\n\n\n{}\n")
    with pytest.raises(OresmithError, match=r"rows\.jsonl:5: (?s:.*)bomb: more than 3 blank lines"):
        listed(path)
