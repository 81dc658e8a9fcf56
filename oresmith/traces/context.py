"""What decoding needs beside the row, and the one error that the codecs raise."""

from __future__ import annotations

from collections.abc import Container

import msgspec

from oresmith.errors import OresmithError
from oresmith.reasons import Reason
from oresmith.records import Format, Provenance, Source


class Context(msgspec.Struct, kw_only=True):
    """One per file. `source` is the default for rows that bring none of their own."""

    source: Source
    provenance: Provenance = Provenance()
    licence: str | None = None
    source_name: str = ""
    """The source that the provenance file declares: part of a trajectory's identity."""
    trust_rows: bool = False
    """Whether the owner declares the rows' own columns to be true. A row's author may be the agent, who gains by naming
    another's version, run or validator; so by default only the file's declaration counts, and no outcome, judgement,
    licence, reward or attempt id that a row states of itself is read. What the file declares wins in either case."""


class CodecError(OresmithError):
    """A row that a codec cannot take, with the reject code it earns.

    Args:
        reason: the code under which the row is rejected.
        what: the fault in one clause; repeats nothing that the row holds (see `shown`).
        expected: what would have been accepted.
        got: the kind of what was found.
    """

    def __init__(self, reason: Reason, what: str, *, expected: str = "", got: str = "") -> None:
        self.reason = reason
        super().__init__(what, expected=expected, got=got, todo="")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip from a worker process."""
        return _rebuild, (self.reason, self.what, self.expected, self.got)


def _rebuild(reason: Reason, what: str, expected: str, got: str) -> CodecError:
    return CodecError(reason, what, expected=expected, got=got)


def shown(name: object, known: Container[str] = ()) -> str:
    """What an error may say of a name in the row: itself if it is a known one, else its kind and length.

    Errors reach the published rejects, and whoever wrote the trace can put a secret anywhere, key names included.
    """
    if not isinstance(name, str):
        return kind(name)
    return name if name in known else f"a name of {len(name)} characters"


def kind(value: object) -> str:
    """The JSON kind of a value, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "no JSON value"


def wrong_shape(where: str, expected: str, got: object) -> CodecError:
    """The error for a needed field of the wrong type. `where` is our own wording of the place."""
    return CodecError(Reason.WRONG_SHAPE, f"{where} has the wrong type", expected=expected, got=kind(got))


def cannot_carry(target: Format, why: str) -> CodecError:
    """The error for a trajectory that a target format has no place for."""
    return CodecError(Reason.WRONG_SHAPE, f"{target.value} cannot carry this trajectory: {why}")
