"""Lines of a trace file, with every byte of the decompressed stream accounted for and memory bounded by the limits.

`read_lines` never raises for what a file holds: whatever is no usable line comes as a `BadLine` with its reason. Items
come in order and touch each other: the first one begins at byte 0 (3 after a byte order mark), each further one at the
`end` of the one before.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from oresmith.lines.decoding import BadJsonError, decode
from oresmith.lines.streams import PLAIN_PIECE, Fault, Stream, open_file, open_stream
from oresmith.reasons import Reason

_NOT_WHOLE = (Reason.INVALID_JSON, Reason.INVALID_UTF8)
_LINE_END = ord("\n")
_MIB = 1024 * 1024
_MOST = sys.maxsize - 8
"""What `readline` takes, line end and one byte more included."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader takes from one file before it stops; all in bytes of the decompressed stream."""

    max_line_bytes: int = 32 * _MIB
    """A longer line is skipped without being held; also the longest document that spans lines."""
    max_stream_bytes: int = 64 * 1024 * _MIB
    max_ratio: float = 250.0
    """Decompressed to stored bytes, over a whole file. Traces come to about 8."""
    ratio_floor: int = 64 * _MIB
    """Below this size any ratio is allowed."""


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line to decode, without its line end."""

    number: int
    """Counted from 1."""
    offset: int
    """Of the first byte, in the decompressed stream."""
    data: bytes
    end: int
    """Offset after the line end."""


class BadLine(msgspec.Struct, frozen=True, gc=False):
    """A line, or what is left of a damaged stream, that cannot be decoded."""

    number: int
    offset: int
    length: int
    """Bytes without the line end; of a damaged stream those after the last whole line, which may be none."""
    reason: Reason
    """BLANK_LINE, LINE_TOO_LONG, LINE_TORN, STREAM_TRUNCATED, STREAM_CORRUPT or BOMB."""
    detail: str
    position: int | None
    """LINE_TORN: index in the line. Stream faults: byte in the file as stored. Otherwise None."""
    end: int


def read_lines(path: Path, limits: Limits | None = None) -> Iterator[Line | BadLine]:
    """Read a file of JSON lines, plain, gzip or zstd (by its first bytes; the name does not count).

    A file whose first line is not complete JSON, but which is one JSON document as a whole and within `max_line_bytes`,
    comes as one `Line` that spans the file. The line after the last line end is a `Line` if it is complete JSON.

    Args:
        path: a regular file.
        limits: see `Limits`.

    Raises:
        OresmithError: the file cannot be opened or is of a kind that is not read at all.
    """
    limits = limits or Limits()
    longest = min(limits.max_line_bytes, _MOST)
    with open_file(path) as file:
        if _is_one_document(_stream(file, limits), longest):
            stream = _stream(file, limits)
            data = io.BufferedReader(stream, PLAIN_PIECE).read()
            line = _without_end(data)
            yield Line(1, stream.start, line, stream.start + len(data))
        else:
            yield from _lines(_stream(file, limits), longest)


def read_whole(path: Path, limits: Limits) -> tuple[bytes, Fault | None]:
    """The bytes of a file as `read_lines` would decompress them, and the fault that ended them, if any.

    Args:
        path: a regular file.
        limits: see `Limits`; of a longer file than `max_line_bytes` so many bytes come, with the fault BOMB.

    Raises:
        OresmithError: as `read_lines`.
    """
    longest = min(limits.max_line_bytes, _MOST)
    with open_file(path) as file:
        stream = _stream(file, limits)
        data = _read(io.BufferedReader(stream, PLAIN_PIECE), longest + 1)
        if len(data) > longest:
            return data[:longest], Fault(Reason.BOMB, _over(longest), file.tell())
        return data, stream.fault


def _stream(file: io.BufferedReader, limits: Limits) -> Stream:
    return open_stream(
        file, max_bytes=limits.max_stream_bytes, max_ratio=limits.max_ratio, ratio_floor=limits.ratio_floor
    )


def _is_one_document(stream: Stream, longest: int) -> bool:
    reader = io.BufferedReader(stream, PLAIN_PIECE)
    first = reader.readline(longest + 1)
    if not first.endswith(b"\n") or not _torn(first):
        return False
    rest = _read(reader, longest + 2 - len(first))
    data = _without_end(first + rest)
    return not stream.fault and len(data) <= longest and not _torn(data)


def _read(reader: io.BufferedReader[Stream], most: int) -> bytes:
    """At most so many bytes; `reader.read(most)` would ask for the memory of all of them, however short the file is."""
    pieces = []
    while most > 0 and (piece := reader.read(min(most, PLAIN_PIECE))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _torn(data: bytes) -> BadJsonError | None:
    """Why bytes are not one complete JSON document; None if they are (even one that the decoder refuses)."""
    try:
        decode(data, duplicate_keys=False)
    except BadJsonError as error:
        return error if error.reason in _NOT_WHOLE else None
    return None


def _without_end(data: bytes) -> bytes:
    if data.endswith(b"\r\n"):
        return data[:-2]
    return data[:-1] if data.endswith(b"\n") else data


def _lines(stream: Stream, longest: int) -> Iterator[Line | BadLine]:
    reader = io.BufferedReader(stream, PLAIN_PIECE)
    readline = reader.readline
    number, offset = 1, stream.start
    most = longest + 2
    while data := readline(most):
        end = offset + len(data)
        if data[-1] == _LINE_END:
            line = data[:-2] if data[-2:-1] == b"\r" else data[:-1]
        elif len(data) == most:
            length, end = _skip(reader, data, offset)
            yield BadLine(number, offset, length, Reason.LINE_TOO_LONG, _over(longest), None, end)
            number, offset = number + 1, end
            continue
        else:
            break
        if len(line) > longest:
            yield BadLine(number, offset, len(line), Reason.LINE_TOO_LONG, _over(longest), None, end)
        elif not line or line.isspace():
            yield BadLine(number, offset, len(line), Reason.BLANK_LINE, "", None, end)
        else:
            yield Line(number, offset, line, end)
        number, offset = number + 1, end
    yield from _last(stream, data, number, offset, longest)


def _skip(reader: io.BufferedReader[Stream], data: bytes, offset: int) -> tuple[int, int]:
    """Read to the end of an over-long line; return its length without line end, and the offset after it."""
    size, before = len(data), b""
    while data and not data.endswith(b"\n"):
        before = data[-1:]
        data = reader.readline(PLAIN_PIECE)
        size += len(data)
    tail = before + data[-2:]
    ending = 2 if tail.endswith(b"\r\n") else 1 if tail.endswith(b"\n") else 0
    return size - ending, offset + size


def _last(stream: Stream, data: bytes, number: int, offset: int, longest: int) -> Iterator[Line | BadLine]:
    """What stands after the last line end: `data`, and the stream's fault if it has one."""
    end = offset + len(data)
    if stream.fault:
        reason, detail, position = stream.fault
        yield BadLine(number, offset, len(data), reason, detail, position, end)
    elif len(data) > longest:
        yield BadLine(number, offset, len(data), Reason.LINE_TOO_LONG, _over(longest), None, end)
    elif data.isspace() or (not data and number == 1 and offset):
        yield BadLine(number, offset, len(data), Reason.BLANK_LINE, "", None, end)
    elif data and (torn := _torn(data)):
        yield BadLine(number, offset, len(data), Reason.LINE_TORN, torn.detail, torn.position, end)
    elif data:
        yield Line(number, offset, data, end)


def _over(longest: int) -> str:
    return f"more than {longest} bytes"
