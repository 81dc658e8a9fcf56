"""Values of keys in published files, read again from the files: JSON by pointer, rows by a named figure.

A key of a JSON file is a JSON pointer (RFC 6901), then optionally `?FIELD=TEXT&..` to keep the items of a list that
have these values, then optionally `#count` (items) or `#sum` / `#sum:FIELD` (of the numbers, or of one field).
A key of Parquet files is `rows`, `bytes`, `rows:COLUMN=JSON` or one of `oresmith.release.cards.rowfigures.FIGURES`.
Needs nothing but the core install.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import polars as pl
import pyarrow as pa

from oresmith.errors import OresmithError
from oresmith.release.cards.numbers import Value
from oresmith.release.cards.rowfigures import Rows

MAX_BYTES = 512 * 1024 * 1024
FAULTS = (
    ArithmeticError,
    LookupError,
    NotImplementedError,
    OSError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
    pa.ArrowException,
    pl.exceptions.PolarsError,
)
"""What a key from a stranger's card, or a stranger's file, can raise."""


class Values:
    """Reads values, each file once.

    Args:
        files: path in a repository, with `*` -> the files that it stands for; none where there is no such file.
    """

    def __init__(self, files: Callable[[str], list[Path]]) -> None:
        self._files = files
        self._documents: dict[str, Any] = {}
        self._rows: dict[str, Rows] = {}

    def document(self, file: str) -> Any:
        """The content of a JSON file.

        Raises:
            OresmithError: there is no such file, or it is no JSON.
        """
        if file not in self._documents:
            found = self.paths(file)
            try:
                if found[0].stat().st_size > MAX_BYTES:
                    raise OresmithError("the source of a number is too large", where=file)
                self._documents[file] = msgspec.json.decode(found[0].read_bytes())
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise OresmithError("the source of a number is no JSON", where=file, got=str(error)[:200]) from error
        return self._documents[file]

    def paths(self, file: str) -> list[Path]:
        """The files that a path stands for. Errors: OresmithError where there is none."""
        found = self._files(file)
        if not found:
            raise OresmithError(
                "the source of a number is missing", where=file, todo="restore the file, or make the cards anew"
            )
        return found

    def known(self, file: str) -> bool:
        """Whether there is such a file."""
        return bool(self._files(file))

    def value(self, file: str, key: str) -> Value:
        """The number at a key of a file; None where the file says that it is not known.

        Raises:
            OresmithError: no such file or key, or what stands there is no number.
        """
        if file.endswith(".parquet"):
            try:
                if file not in self._rows:
                    self._rows[file] = Rows(self.paths(file))
                return self._rows[file].figure(key)
            except FAULTS as error:
                raise OresmithError(
                    "a figure cannot be computed", where=f"{file} {key}"[:300], got=str(error)[:200]
                ) from error
        try:
            found = resolve(self.document(file), key)
        except FAULTS as error:
            raise OresmithError("no such key", where=f"{file} {key}"[:300], got=str(error)[:100]) from error
        if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
            raise OresmithError("no number", where=f"{file} {key}"[:300], got=type(found).__name__)
        return found


def resolve(document: Any, key: str) -> Any:
    """What a key of this module names in a JSON document.

    Raises:
        LookupError: no such place.
        ValueError, TypeError: a key of another form, or an operation on values that it cannot take.
    """
    place, _, operation = key.partition("#")
    pointer, _, query = place.partition("?")
    if pointer and not pointer.startswith("/"):
        raise ValueError("a pointer starts with /")
    found = document
    for part in pointer.split("/")[1:]:
        name = unquote(part.replace("~1", "/").replace("~0", "~"))
        found = found[int(name)] if isinstance(found, list) else found[name]
    if query:
        wanted = [tuple(map(unquote, pair.split("=", 1))) for pair in query.split("&")]
        found = [item for item in found if all(str(item[field]) == text for field, text in wanted)]
    if not operation:
        return found
    items = list(found.values()) if isinstance(found, dict) else list(found)
    if operation == "count":
        return len(items)
    name, _, field = operation.partition(":")
    if name != "sum":
        raise ValueError(f"no operation {operation[:40]}")
    return sum(item[field] if field else item for item in items)


def pointer(*parts: str | int) -> str:
    """The key of a place, each part quoted."""
    return "".join("/" + quote(str(part).replace("~", "~0").replace("/", "~1"), safe="@ ") for part in parts)
