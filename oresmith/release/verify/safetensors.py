"""The header of a safetensors file, read with the standard library: bounded, and never the tensors themselves.

A file is 8 bytes (length of the header, little-endian), a JSON object (tensor -> dtype, shape, data_offsets), and the
tensors without a gap. Source: the format's own description, https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

MOST_HEADER = 100_000_000
"""Bytes; the library's own bound."""
BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E5M2FNUZ", "F8_E4M3FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
"""Bits of a number by dtype."""
_Size = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Tensor(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of the header."""

    dtype: str
    shape: list[_Size]
    data_offsets: tuple[_Size, _Size]


class Header(NamedTuple):
    """What a file holds."""

    tensors: dict[str, Tensor]
    parameters: int


class WrongFileError(Exception):
    """No sound safetensors file; the text says why."""


def read_header(path: Path) -> Header:
    """Read and check the header of a file.

    Raises:
        WrongFileError: it is cut off, has gaps or overlaps, or is no such file at all.
    """
    size = path.stat().st_size
    with path.open("rb") as reader:
        length = int.from_bytes(reader.read(8), "little")
        if size < 8 or not 2 <= length <= min(size - 8, MOST_HEADER):
            raise WrongFileError("has no safetensors header")
        text = reader.read(length)
    try:
        entries = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        metadata = entries.pop("__metadata__", None)
        if metadata is not None:
            msgspec.json.decode(metadata, type=dict[str, str])
        tensors = {name: msgspec.json.decode(entry, type=Tensor) for name, entry in entries.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WrongFileError(f"has a header that cannot be read: {error}"[:200]) from error
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].data_offsets):
        first, last = tensor.data_offsets
        if tensor.dtype not in BITS or first != end or (last - first) * 8 != prod(tensor.shape) * BITS[tensor.dtype]:
            raise WrongFileError(
                f"tensor {name[:80]} has another size than its shape, or does not follow the one before"
            )
        end = last
    if end != size - 8 - length:
        raise WrongFileError(f"holds {size - 8 - length:,} bytes of tensors, its header says {end:,}")
    return Header(tensors, sum(prod(tensor.shape) for tensor in tensors.values()))
