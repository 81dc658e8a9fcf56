"""What a gate is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from oresmith.errors import OresmithError
from oresmith.params import Params

Kind = TypeVar("Kind")


class Given(NamedTuple):
    """A bundle, and the project that it was made in."""

    params: Params
    root: Path
    """Of the project."""
    dataset: Path
    """The bundle's `dataset/`."""
    model: Path
    """The bundle's `model/`."""
    cutting: bool
    """Whether it is about to be cut: only then git is asked."""


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a bundle. Errors: as `read_as`."""
    return read_as(path, dict[str, Any])


def read_as(path: Path, kind: type[Kind]) -> Kind:
    """A JSON file of a bundle, in a known form.

    Raises:
        OresmithError: it is missing, damaged, or of another form.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise OresmithError("cannot be read", where=str(path), got=str(error)[:200]) from error
