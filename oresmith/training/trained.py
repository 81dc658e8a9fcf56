"""`training.json`: what a directory of a training step is, without times, so that the same training gives the same."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from oresmith.errors import OresmithError

TRAINING_SCHEMA = "oresmith.training/1"
TRAINING_FILE, CURVE_FILE = "training.json", "curve.csv"
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "tokenizers", "safetensors", "datasets", "numpy")
_FIRST = ("step", "loss", "learning_rate")


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content."""

    schema: str = TRAINING_SCHEMA
    step: str
    """sft, rejection, teacher, kto, grpo, control."""
    name: str
    """Directory below data/."""
    skipped: str | None = None
    """Why there is no model; all that follows is then empty."""
    seed: int | None = None
    start: dict[str, Any] = {}
    """`from`, `model_sha256`, `weights_sha256` and `facts` of the model that was trained."""
    data: dict[str, Any] = {}
    """Hashes of the corpus' manifest and certificate."""
    rows: dict[str, Any] = {}
    """Of rows.jsonl.zst: count, tokens, supervised, problems, clusters, by origin, `sha256`."""
    chat: dict[str, str] = {}
    """Template and tokenizer, by id and hash."""
    parameters: dict[str, Any] = {}
    """`train`, and the step's own under its name."""
    versions: dict[str, str] = {}
    steps: int = 0
    """Optimiser steps."""
    tokens: int = 0
    supervised: int = 0
    loss: dict[str, float] = {}
    """`first` and `last`: means over a tenth of the steps."""
    adapter_sha256: str | None = None
    model: dict[str, Any] = {}
    """Facts of the merged model."""
    rendering: dict[str, Any] = {}
    leaks: list[dict[str, Any]] = []
    probe: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    """What only this step has."""


def write_training(directory: Path, training: Training) -> None:
    """Write the file; of a step that was skipped only what it is."""
    fields = {name: getattr(training, name) for name in training.__struct_fields__}
    if training.skipped is not None:
        fields = {name: fields[name] for name in ("schema", "step", "name", "skipped")}
    (directory / TRAINING_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n")


def read_training(directory: Path) -> Training | None:
    """The file of a step's directory; None where there is none.

    Raises:
        OresmithError: it is there and is not what it should be.
    """
    path = directory / TRAINING_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Training)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise OresmithError(
            "what a training step says of itself cannot be read", where=str(path), got=str(error)[:200]
        ) from error


def write_curve(directory: Path, curve: Sequence[Mapping[str, float]]) -> None:
    """Write curve.csv: a row an optimiser step; a cell is empty where a step does not log the column."""
    logged = {name for row in curve for name in row}
    columns = [name for name in _FIRST if name in logged] + sorted(logged.difference(_FIRST))
    lines = [",".join(columns)] + [",".join(_cell(row.get(name)) for name in columns) for row in curve]
    (directory / CURVE_FILE).write_text("\n".join(lines) + "\n", "utf-8")


def ends_of(curve: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean loss over the first and the last tenth of the steps, one step at least."""
    losses = [row["loss"] for row in curve if "loss" in row]
    part = max(1, len(losses) // 10)
    if not losses:
        return {}
    return {
        name: float(f"{sum(some) / len(some):.6g}")
        for name, some in (("first", losses[:part]), ("last", losses[-part:]))
    }


def versions() -> dict[str, str]:
    """Of the packages that what is trained depends on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cell(value: float | None) -> str:
    return "" if value is None else repr(int(value) if float(value).is_integer() else float(value))
