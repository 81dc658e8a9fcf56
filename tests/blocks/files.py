"""Small trace files in every codec, and rows for them."""

from __future__ import annotations

import gzip
from pathlib import Path

import orjson
import zstandard

from oresmith.blocks.accounts import InputFile

CODECS = ("plain", "gzip", "zstd")


def row(number: int, text: str = "x") -> bytes:
    """One good line."""
    return orjson.dumps({"problem_id": f"p-{number}", "status": "SUCCESS", "dialogue": [{"text": text}]})


def pack(data: bytes, codec: str) -> bytes:
    """`data` as a file of that codec; compressed ones in two members or frames."""
    half = len(data) // 2
    if codec == "gzip":
        return gzip.compress(data[:half], mtime=0) + gzip.compress(data[half:], mtime=0)
    if codec == "zstd":
        frame = zstandard.ZstdCompressor(level=3, write_checksum=True).compress
        return frame(data[:half]) + frame(data[half:])
    return data


def write(path: Path, data: bytes, codec: str = "plain") -> Path:
    """Write `data` in a codec; the name says nothing about it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pack(data, codec))
    return path


def inputs(*paths: Path) -> list[InputFile]:
    """The files as a snapshot's manifest lists them."""
    return [InputFile(path=str(path), file=path.name, snapshot="s", size=path.stat().st_size) for path in paths]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a directory with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def zstd_bomb(blocks: int) -> bytes:
    """A zstd frame of RLE blocks: 4 bytes each, 128 KiB of blanks each once decompressed."""
    size = 128 * 1024
    header = b"\x28\xb5\x2f\xfd" + bytes([0b00000000, (20 - 10) << 3])  # window of 1 MiB, no size, no checksum
    middle = (size << 3 | 1 << 1).to_bytes(3, "little") + b" "
    last = (size << 3 | 1 << 1 | 1).to_bytes(3, "little") + b" "
    return header + middle * (blocks - 1) + last
