"""Tab-separated text that no value can break: what would end a cell or a line, or not be seen, is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAMED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_UNSAFE = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\u200b-\u200f\u202a-\u202e\u2060-\u2069]")
_ESCAPED = re.compile(r"\\(u[0-9a-f]{4}|[\\tnr])")


def cell(value: object) -> str:
    r"""A value as one cell: `\\`, `\t`, `\n`, `\r`, and `\uXXXX` for other control, invisible, surrogate characters."""
    text = str(value)
    return _UNSAFE.sub(_escape, text) if _UNSAFE.search(text) else text


def uncell(text: str) -> str:
    """The value of a cell."""
    return _ESCAPED.sub(_restore, text) if "\\" in text else text


def line(values: Iterable[object]) -> bytes:
    """One line of cells, UTF-8."""
    return ("\t".join(map(cell, values)) + "\n").encode()


def _restore(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if code[0] == "u" else {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}[code]


def _escape(match: re.Match[str]) -> str:
    found = match[0]
    return _NAMED.get(found) or f"\\u{ord(found):04x}"
