"""One codec a trace format, to and from the one canonical `Trajectory`.

`detect` tells a row's format, `decode` reads it, `encode` writes it, `to_openai` gives the row that is published, and
`dialogue_of` the dialogue that the outcome scorer judges.
"""

from __future__ import annotations

from typing import Any

from oresmith.reasons import Reason
from oresmith.records import Format, Source, Trajectory
from oresmith.traces.atif import decode_document
from oresmith.traces.atif_encode import encode_document
from oresmith.traces.context import CodecError, Context
from oresmith.traces.detect import detect
from oresmith.traces.openai import decode_row, encode_row, to_openai
from oresmith.traces.shoppingbench import decode_rollout, encode_rollout
from oresmith.traces.sn15 import decode_envelope, decode_steps
from oresmith.traces.sn15_encode import dialogue_of, encode_envelope, encode_steps

__all__ = ["CodecError", "Context", "decode", "detect", "dialogue_of", "encode", "to_openai"]

_DECODERS: dict[Format, Any] = {
    Format.SN15_ENVELOPE: decode_envelope,
    Format.SN15_STEPS: decode_steps,
    Format.SHOPPINGBENCH: decode_rollout,
    Format.OPENAI: decode_row,
    Format.ATIF: decode_document,
}
_ENCODERS: dict[Format, Any] = {
    Format.SN15_ENVELOPE: encode_envelope,
    Format.SN15_STEPS: encode_steps,
    Format.SHOPPINGBENCH: encode_rollout,
    Format.OPENAI: encode_row,
    Format.ATIF: encode_document,
}


def decode(row: Any, ctx: Context, source: Source | None = None) -> Trajectory:
    """Read one parsed row of any known format.

    Args:
        row: what a JSON parser gave for the line or document; it is not changed, and parts of it are shared.
        ctx: what the file declares.
        source: the row's place; `ctx.source` where left out.

    Returns:
        The trajectory, with its hashes.

    Raises:
        CodecError: with the reject code; nothing else, whatever JSON the row holds.
    """
    try:
        trajectory: Trajectory = _DECODERS[detect(row)](row, ctx, source or ctx.source)
    except RecursionError:
        raise CodecError(Reason.NESTED_TOO_DEEP, "the row is nested too deep to be read") from None
    except UnicodeEncodeError:
        raise CodecError(Reason.LONE_SURROGATE, "a string of the row holds half of a surrogate pair") from None
    return trajectory


def encode(trajectory: Trajectory, format: Format) -> Any:
    """Write a trajectory in a format: an object (envelope, OpenAI row, ATIF document) or a list of steps.

    Raises:
        CodecError: WRONG_SHAPE where the format cannot carry the trajectory, with what would be lost.
    """
    return _ENCODERS[format](trajectory)
