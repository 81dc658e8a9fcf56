"""Bytes of a plain, gzip or zstd file, in bounded pieces; damage ends the stream with a reason, not an exception.

Python's `gzip`, `zstandard` readers and fsspec either drop what they had decoded before a fault or take a cut stream
for a whole one. Here every byte that could be decoded is delivered first, and `Stream.fault` then says why it ended.
"""

from __future__ import annotations

import io
import os
import stat
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import zstandard

from oresmith.errors import OresmithError
from oresmith.reasons import Reason

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK = 64 * 1024
"""Compressed bytes read at a time from a gzip file."""
PIECE = 256 * 1024
"""Most decompressed bytes that one inflate step may give."""
PLAIN_PIECE = 1024 * 1024
"""Bytes read at a time from a plain file; also the buffer that lines are cut from."""

EXPECTED = "a file of JSON lines, plain or compressed with gzip or zstd"
BOM = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_FOREIGN = {
    b"\xfd7zX": "an xz archive",
    b"PK\x03\x04": "a zip archive",
    b"BZh": "a bzip2 archive",
    b"PAR1": "a parquet file",
}


class Fault(NamedTuple):
    """Why a stream ended before its end."""

    reason: Reason
    """STREAM_TRUNCATED, STREAM_CORRUPT or BOMB."""
    detail: str
    position: int
    """Byte position in the file as stored (compressed), about where the fault is."""


class _BrokenError(Exception):
    def __init__(self, reason: Reason, detail: str, position: int) -> None:
        super().__init__(detail)
        self.fault = Fault(reason, detail, position)


class Stream(io.RawIOBase):
    """Raw decompressed bytes for `io.BufferedReader`. Ends early on a fault or at `limit` bytes; never raises for data.

    A byte order mark at the start is left out; `start` is its length (0 or 3).
    """

    def __init__(self, pieces: Iterator[bytes], limit: int, tell: Callable[[], int]) -> None:
        self.fault: Fault | None = None
        self._pieces, self._room, self._tell = pieces, limit, tell
        self._rest = memoryview(b"")
        head = b""
        while len(head) < len(BOM) and (piece := self._next()):
            head += piece
        self.start = len(BOM) if head.startswith(BOM) else 0
        self._rest = memoryview(head)[self.start :]

    def readable(self) -> bool:
        """True: `io.BufferedReader` asks."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill `buffer` with the next bytes and return how many; 0 at the end, whatever ended the stream."""
        if not self._rest:
            self._rest = memoryview(self._next())
        view = memoryview(buffer)
        count = min(len(view), len(self._rest))
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _next(self) -> bytes:
        if self.fault:
            return b""
        try:
            piece = next(self._pieces, b"")
        except _BrokenError as broken:
            self.fault = broken.fault
            return b""
        if len(piece) > self._room:
            self.fault = Fault(Reason.BOMB, "more bytes than the limit allows", self._tell())
            piece = piece[: self._room]
        self._room -= len(piece)
        return piece


def open_file(path: Path) -> io.BufferedReader:
    """Open a regular file for reading.

    Raises:
        OresmithError: the file is missing, not readable, or no regular file (a pipe or device could have no end).
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # asked before opening: to open a pipe is to wait for its writer
            raise OresmithError("this is not a regular file", where=str(path), expected=EXPECTED)
        return path.open("rb")
    except OSError as error:
        raise OresmithError("the file cannot be read", where=str(path), got=error.strerror or str(error)) from error


def open_stream(file: io.BufferedReader, *, max_bytes: int, max_ratio: float, ratio_floor: int) -> Stream:
    """Decompressed bytes of an open file from its beginning; the codec is told by the first bytes, never by the name.

    Args:
        file: an open regular file; it is rewound, so that the same one can be streamed twice.
        max_bytes: most decompressed bytes.
        max_ratio: most decompressed bytes per stored byte, so that work is bounded by the size of the input.
        ratio_floor: decompressed bytes that are allowed at any ratio.

    Raises:
        OresmithError: the file is of a kind that is not read at all (zip, xz, bzip2, parquet).
    """
    file.seek(0)
    head = file.read(4)
    file.seek(0)
    for magic, name in _FOREIGN.items():
        if head.startswith(magic):
            raise OresmithError(f"this is {name}", where=str(file.name), expected=EXPECTED)
    bound = min(max_bytes, max(ratio_floor, int(max_ratio * os.fstat(file.fileno()).st_size)))
    if head.startswith(GZIP_MAGIC):
        return Stream(_gzip(file), bound, file.tell)
    if head == ZSTD_MAGIC or _skippable(head):
        return Stream(_zstd(file), bound, file.tell)
    return Stream(iter(lambda: file.read(PLAIN_PIECE), b""), max_bytes, file.tell)


def _gzip(file: io.BufferedReader) -> Iterator[bytes]:
    data = file.read(CHUNK)
    while data:
        inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        while not inflate.eof:
            position = file.tell() - len(data)
            # zlib forgets what a failing call had decoded: with a copy that call can be repeated byte by byte.
            before = inflate.copy()
            try:
                piece = inflate.decompress(data, PIECE)
            except zlib.error as error:
                position += yield from _salvage(before, data)
                raise _BrokenError(Reason.STREAM_CORRUPT, str(error), position) from None
            data = inflate.unconsumed_tail
            if piece:
                yield piece
            if not data and not inflate.eof:
                data = file.read(CHUNK)
                if not data and not piece:
                    raise _BrokenError(Reason.STREAM_TRUNCATED, "the gzip member has no end", file.tell())
        data = inflate.unused_data or file.read(CHUNK)
        while data and not (data := data.lstrip(b"\0")):  # zero padding after the last member is usual on tapes
            data = file.read(CHUNK)
        if data and data[0] != GZIP_MAGIC[0]:
            position = file.tell() - len(data)
            raise _BrokenError(Reason.STREAM_CORRUPT, "bytes that are no gzip member follow the last one", position)


def _salvage(inflate: Any, data: bytes) -> Generator[bytes, None, int]:
    """Give what can be decoded of a piece that is damaged; return how many of its bytes were sound."""
    for place in range(len(data)):
        try:
            piece = inflate.decompress(data[place : place + 1])
        except zlib.error:
            return place
        if piece:
            yield piece
    return len(data)


def _skippable(magic: bytes) -> bool:
    return len(magic) == 4 and magic[1:] == b"\x2a\x4d\x18" and magic[0] & 0xF0 == 0x50


def _zstd(file: io.BufferedReader) -> Iterator[bytes]:
    """Walk the frames of RFC 8878 block by block: a block gives 128 KiB at most, and a fault costs that block only."""
    while magic := file.read(4):
        if magic == ZSTD_MAGIC:
            yield from _zstd_frame(file)
        elif _skippable(magic):
            left = int.from_bytes(_take(file, 4), "little")
            while left:
                left -= len(_take(file, min(left, CHUNK)))
        elif ZSTD_MAGIC.startswith(magic):
            raise _BrokenError(Reason.STREAM_TRUNCATED, "the zstd frame has no end", file.tell())
        else:
            raise _BrokenError(Reason.STREAM_CORRUPT, "no zstd frame begins here", file.tell() - len(magic))


def _zstd_frame(file: io.BufferedReader) -> Iterator[bytes]:
    descriptor = _take(file, 1)
    flags = descriptor[0]
    single = flags >> 5 & 1
    size_bytes = (single, 2, 4, 8)[flags >> 6]
    fields = _take(file, (1 - single) + (0, 1, 2, 4)[flags & 3] + size_bytes)
    decoder = zstandard.ZstdDecompressor().decompressobj()
    _feed(decoder, ZSTD_MAGIC + descriptor + fields, file)
    last = 0
    while not last:
        header = _take(file, 3)
        block = int.from_bytes(header, "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        piece = _feed(decoder, header + _take(file, 1 if kind == 1 else size), file)
        if piece:
            yield piece
    if flags & 4:
        _feed(decoder, _take(file, 4), file)


def _take(file: io.BufferedReader, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise _BrokenError(Reason.STREAM_TRUNCATED, "the zstd frame has no end", file.tell())
    return data


def _feed(decoder: Any, data: bytes, file: io.BufferedReader) -> bytes:
    try:
        piece: bytes = decoder.decompress(data)
    except zstandard.ZstdError as error:
        raise _BrokenError(Reason.STREAM_CORRUPT, str(error), file.tell() - len(data)) from None
    return piece
