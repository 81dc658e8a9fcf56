"""Gate of the model directory: nothing in it can run, and the weights are the ones that the headers describe.

From the standard library alone; `oresmith.models.directory`, which the stages use, asks transformers as well.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oresmith.errors import OresmithError
from oresmith.release.given import Given
from oresmith.release.layout import RELEASE_FILE

ALLOWED = {".json", ".safetensors", ".jinja", ".md", ".yaml", ".txt", ".zst", ".model"}
"""Endings of files that a model repository may hold: none is run, or read by what runs the things it reads."""
MOST_HEADER = 100_000_000
"""Bytes of a safetensors header, as its format has it."""
_SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4}
_SIZES |= {"U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8}


def model_files(given: Given) -> str:
    """Whether the model repository is inert, and holds whole weights, a config, a tokenizer and its template."""
    tensors, parameters = check_model_folder(given.model)
    return f"{tensors} tensors, {parameters} parameters in safetensors; no code, no pickle"


def check_model_folder(folder: Path) -> tuple[int, int]:
    """Check a model repository's files without running or loading any of it.

    Returns:
        Tensors and parameters of the merged model.

    Raises:
        OresmithError: naming the file.
    """
    for path in _files(folder):
        if path.suffix.lower() not in ALLOWED:
            raise OresmithError(
                "a file that a model repository may not hold",
                where=str(path),
                expected="safetensors, JSON, text",
                todo="save weights as safetensors; leave code and pickles out",
            )
        if path.suffix == ".json" and path.name != RELEASE_FILE:
            _refuse_code(path)
    for name in ("config.json", "tokenizer.json", "chat_template.jinja"):
        if not (folder / name).is_file():
            raise OresmithError("the model repository lacks a file", where=str(folder / name))
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise OresmithError("the model repository holds no weights", where=str(folder), expected="*.safetensors")
    counts = [weigh(path) for path in weights]
    for path in sorted(folder.glob("*/*.safetensors")):
        weigh(path)
    return sum(one for one, _ in counts), sum(two for _, two in counts)


def weigh(path: Path) -> tuple[int, int]:
    """Tensors and numbers of a safetensors file, whose header is held against the file's length.

    Raises:
        OresmithError: the header is not one, or describes other bytes than the file has.
    """
    size = path.stat().st_size
    with path.open("rb") as reader:
        length = int.from_bytes(reader.read(8), "little")
        if size < 8 or length > min(MOST_HEADER, size - 8):
            raise OresmithError("not a sound safetensors file", where=str(path), got=f"a header of {length} bytes")
        header = _parsed(reader.read(length), path)
    header.pop("__metadata__", None)
    spans, numbers = [], 0
    for name, tensor in header.items():
        try:
            count = 1
            for side in tensor["shape"]:
                count *= _natural(side)
            start, end = map(_natural, tensor["data_offsets"])
            fits = end - start == count * _SIZES[tensor["dtype"]]
        except (KeyError, TypeError, ValueError) as error:
            raise OresmithError(
                "not a sound safetensors file", where=f"{path}: {name[:80]}", got=repr(error)[:120]
            ) from error
        if not fits:
            raise OresmithError("a tensor has another size than its shape", where=f"{path}: {name[:80]}")
        spans.append((start, end))
        numbers += count
    last = 0
    for start, end in sorted(spans):
        if start != last:
            raise OresmithError("the tensors leave a gap or overlap", where=str(path), got=f"at byte {last}")
        last = end
    if last != size - 8 - length:
        raise OresmithError(
            "the tensors do not fill the file", where=str(path), expected=str(size - 8 - length), got=str(last)
        )
    return len(spans), numbers


def _natural(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        for name in sorted([*folders, *names]):
            path = Path(root, name)
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode) or mode & 0o111:
                raise OresmithError("a link, a special file, or a file that can be run", where=str(path))
            yield path


def _refuse_code(path: Path) -> None:
    """No JSON of the top level may ask a loader for code of the model's own."""
    found = _parsed(path.read_bytes(), path, any_value=True) if path.name != "tokenizer.json" else {}
    if isinstance(found, dict):
        for key in ("auto_map", "custom_pipelines"):
            if found.get(key):
                raise OresmithError("the model asks for code of its own", where=str(path), got=key)
        for key in ("base_model_name_or_path", "_name_or_path"):
            if Path(str(found.get(key) or "")).is_absolute():
                raise OresmithError("a path of the machine that trained stands in the model", where=f"{path}: {key}")


def _parsed(content: bytes, path: Path, *, any_value: bool = False) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise OresmithError("unreadable JSON in a model repository", where=str(path), got=str(error)[:120]) from error
    if not isinstance(found, dict) and not any_value:
        raise OresmithError("not a JSON object", where=str(path))
    return found if isinstance(found, dict) else {}
