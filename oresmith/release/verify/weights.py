"""The weights that are published are those that were scored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oresmith.models.facts import ModelFacts
from oresmith.release.layout import SCORES
from oresmith.release.verify.found import Finding

BASES = ("embedded", "tiny", "directory")
"""What the facts of a model that was not trained name it, beside `hub:`; its scores have a name of their own."""


TRAINING = "training.json"
"""The account of the step that trained the model; a base has none."""


def identity(folder: Path) -> str:
    """sha256 over config, generation config, tokenizer and weights, as the gate of parity and the engines have it."""
    named = [folder / name for name in ("config.json", "generation_config.json", "tokenizer.json")]
    lines: list[str] = []
    for path in [path for path in named if path.is_file()] + sorted(folder.glob("*.safetensors")):
        with path.open("rb") as reader:
            lines.append(f"{path.name} {hashlib.file_digest(reader, 'sha256').hexdigest()}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def were_scored(folder: Path, facts: ModelFacts, prefix: str) -> Iterator[Finding]:
    """Hold the weights against the scores that stand beside them."""
    files = {path.stem: path for path in sorted((folder / SCORES).glob("*.json"))}
    stated = {name: _stated(path) for name, path in files.items()}
    trained = _told(folder / TRAINING)
    if trained is not None:
        if trained.get("name") != facts.model:
            yield Finding(
                f"is the account of {str(trained.get('name'))[:80]}, not of {facts.model[:80]}", prefix + TRAINING
            )
        before = {_start(one) for path in _accounts(folder) if (one := _told(path)) is not None}
        files = {name: path for name, path in files.items() if stated[name] not in before}
    elif not (facts.model in BASES or facts.model.startswith("hub:")):
        files = {name: path for name, path in files.items() if name == facts.model}
    if not files:
        yield Finding(f"there are no scores of {facts.model[:80]}, so nobody knows how it does", f"{prefix}{SCORES}/")
        return
    found = identity(folder)
    if found not in {stated[name] for name in files}:
        said = ", ".join(f"{name} {stated[name][:16]}" for name in files)
        what = f"the scores are of another config, tokenizer or weights: {found[:16]} here, scored were {said}"
        yield Finding(what[:600], f"{prefix}{SCORES}/{next(iter(files))}.json")


def _accounts(folder: Path) -> list[Path]:
    """Of the last step and of those before it."""
    return [folder / TRAINING, *sorted((folder / "training").glob("*.json"))]


def _told(path: Path) -> dict[str, Any] | None:
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def _start(told: dict[str, Any]) -> str | None:
    """What a step began with: its result is another model."""
    start = told.get("start")
    return str(start.get("model_sha256")) if isinstance(start, dict) else None


def _stated(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes())["noted"]["model"]["model_sha256"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "none"
