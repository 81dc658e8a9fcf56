"""Lines of the files that stand beside traces, read as strictly as traces: the first fault ends the reading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from oresmith.errors import OresmithError
from oresmith.lines import framing
from oresmith.lines.decoding import BadJsonError, decode
from oresmith.lines.framing import BadLine, Limits, Line
from oresmith.reasons import Reason

LINE_BYTES = 16 * 2**20
DOCUMENT_BYTES = 64 * 2**20
"""For files that may be one document, held in memory; a problem with the embeddings of its titles takes 30 KB."""
_STREAM_BYTES = 2**40
_BLANK_LINES = 1_000_000
"""In all: a packed file of 1 MB may hold a billion, which take minutes to pass over."""
_MAX_DEPTH = 32
"""Problems, products and judgements nest to about 5; what walks them later may recurse."""
_PACKED = (".gz", ".zst")


def read_lines(path: Path, most: int = LINE_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield `(line number from 1, line without white space around it)`; blank lines are passed over.

    The file is plain, gzip or zstd by its first bytes. One JSON document that spans lines comes whole, under the number
    of the line on which it begins.

    Args:
        path: a regular file.
        most: bytes of the longest line.

    Raises:
        OresmithError: naming file and line, for a file that cannot be opened or is of another kind, a line that is too
            long or torn, and a stream that is cut off, damaged or a bomb.
    """
    _refuse_nothing(path)
    blank = 0
    for item in framing.read_lines(path, _limits(most)):
        if type(item) is Line:  # a catalogue has millions: `isinstance` of a struct takes seven times as long
            number, data = item.number, item.data.strip()
            if number == 1:
                number += item.data.count(b"\n", 0, item.data.index(data))
            yield number, data
        elif isinstance(item, BadLine) and item.reason is not Reason.BLANK_LINE:
            _refuse(path, item.number, item.reason, item.detail)
        elif isinstance(item, BadLine):
            blank += 1
            if blank > _BLANK_LINES:
                _refuse(path, item.number, Reason.BOMB, f"more than {_BLANK_LINES:,} blank lines")


def read_whole(path: Path, most: int = DOCUMENT_BYTES) -> bytes:
    """Return the decompressed bytes of a file, at most `most`; errors as in `read_lines`."""
    _refuse_nothing(path)
    data, fault = framing.read_whole(path, _limits(most))
    if fault:
        _refuse(path, data.count(b"\n") + 1, fault.reason, fault.detail)
    return data


def decode_row(data: bytes) -> Any:
    """The value of a line or an element, to be converted to its type.

    Raises:
        BadJsonError: anything that parsers could read differently, or nesting beyond 32 levels.
    """
    return decode(data, max_depth=_MAX_DEPTH)


def told(error: Exception) -> str:
    """What a decoder or a converter says of a row, for the `got` of a refusal; nothing of the row itself."""
    return f"{error.reason}: {error}" if isinstance(error, BadJsonError) else str(error)[:200]


def _limits(most: int) -> Limits:
    return Limits(max_line_bytes=most, max_stream_bytes=_STREAM_BYTES)


def _refuse_nothing(path: Path) -> None:
    """Even no text compresses to some bytes: an empty `.gz` was cut off, and must not pass for a file without rows."""
    if path.suffix in _PACKED and path.is_file() and path.stat().st_size == 0:
        _refuse(path, 1, Reason.STREAM_TRUNCATED, "the file is empty")


def _refuse(path: Path, number: int, reason: Reason, detail: str) -> NoReturn:
    line = reason in (Reason.LINE_TOO_LONG, Reason.LINE_TORN)
    raise OresmithError(
        "the line cannot be read" if line else "the stream is cut off, damaged or too large",
        where=f"{path}:{number}",
        got=f"{reason}: {detail}"[:200],
        todo="" if line else "copy or download the file again",
    )
