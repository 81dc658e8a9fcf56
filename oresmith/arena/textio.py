"""Lines of a text file, plain or compressed, that never end early without saying so."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from oresmith.errors import OresmithError

_CODECS = {".gz": "gzip", ".zst": "zstd"}


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield `(line number from 1, line without its end)` of a `.gz`, `.zst` or plain file; blank lines are passed over.

    Errors: OresmithError, naming the line, for a path that cannot be opened and for a stream that is cut off or
    damaged (an empty `.gz` or `.zst` file is cut off: even no text compresses to some bytes). Memory: one line.
    """
    number = 0
    try:
        with _open(path) as stream:
            for number, line in enumerate(stream, start=1):
                text = line.strip()
                if text:
                    yield number, text
    except OSError as error:
        raise _unreadable(path, f":{number + 1}", error) from error


def read_whole(path: Path) -> bytes:
    """Return the decompressed bytes of a file; errors as in `read_lines`."""
    try:
        with _open(path) as stream:
            return stream.read()
    except OSError as error:
        raise _unreadable(path, "", error) from error


def _open(path: Path) -> IO[bytes]:
    codec = _CODECS.get(path.suffix)
    if codec is None:
        return path.open("rb")
    if path.stat().st_size == 0:
        raise OSError("Truncated compressed stream")
    import pyarrow as pa

    # Of the decompressors at hand this is the one that reads several frames in a row and refuses a torn one.
    return cast("IO[bytes]", io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), codec), 1 << 18))


def _unreadable(path: Path, line: str, error: OSError) -> OresmithError:
    if error.errno is not None:
        return OresmithError("cannot be read", where=str(path), got=error.strerror or type(error).__name__)
    return OresmithError(
        "the compressed stream is cut off or damaged",
        where=f"{path}{line}",
        got=str(error)[:80],
        todo="copy or download the file again",
    )
