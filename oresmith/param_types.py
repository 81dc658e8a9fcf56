"""Types of single parameters, and the base of every namespace."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**40)]
"""A count or a number of bytes; the bound keeps sums far from 64 bits."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
PathText = Annotated[str, msgspec.Meta(pattern=r"^[^-\x00][^\x00]*\Z", max_length=1024)]
"""A path: not empty, not an option, no NUL."""
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}\Z")]
Day = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}\Z")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
TaskName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")]
Stage = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}(/[A-Za-z0-9][A-Za-z0-9._-]{0,79})?\Z")]
"""A directory below data/ that holds a model, or has it in `model/`: base, sft/1, rejection, control/teacher, .."""
HUB_MODEL = re.compile(r"hub:([A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95})@([0-9a-f]{40})")
OnMissing = Literal["pass", "reject"]
MAX_RUNS = 10_000
"""Of one snapshot of an arena: a run is one agent version on one day, and one trace file."""


class Namespace(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of every namespace: unknown keys are refused."""
