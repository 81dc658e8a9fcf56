"""Where a release's files stand: the bundle that is published, the folder that is frozen into git, and the ledger."""

from __future__ import annotations

import re
from pathlib import Path

from oresmith.errors import OresmithError

BUNDLE = Path("data/bundle")
"""Output of stage `bundle`: what is published, byte by byte."""
CARDS = Path("data/cards")
"""Output of stage `cards`."""
RELEASES = Path("releases")
"""A folder X.Y.Z for each release that was cut."""
LEDGER = RELEASES / "ledger.jsonl"
"""The permanent assignments; a cut appends to it."""
LEDGER_NEXT = Path("data/split/ledger.next.jsonl")
"""What this release adds to it."""

DATASET, MODEL = "dataset", "model"
"""The two parts of a bundle: a folder and a repository each."""
PARTS = (DATASET, MODEL)
RELEASE_FILE = "release.json"
"""In the bundle, in each part of it, and in the frozen folder."""
PUBLISHED_FILE = "published.json"
"""Of the frozen folder: there once the release is published."""
YANKED_FILE = "yanked.json"
"""Of the frozen folder: there while the release is yanked."""
SIGNATURE_FILE = "release.json.sig"
"""Beside `release.json`: a signature over it, outside every content hash."""
FROZEN = {
    "dataset/certificate": "certificate",
    "dataset/rejects": "rejects",
    "dataset/scores": "scores",
    "dataset/README.md": "dataset.md",
    "dataset/CHANGELOG.md": "changelog.md",
    "model/README.md": "model.md",
    "dataset/provenance.json": "provenance.json",
    "dataset/compare.json": "compare.json",
    "dataset/params.yaml": "params.yaml",
    "dataset/schemas/columns.json": "columns.json",
}
"""What the frozen folder takes from the bundle, beside `release.json`: its place there, and here."""
CERTIFICATE = "certificate"
"""Folder of the dataset."""
ROLLOUTS = "heldout_rollouts"
"""Config of the dataset: the evaluated models' rollouts on the held-out problems."""
SCORES = "scores"
"""Folder of either part: scores/NAME.json, and in the dataset scores/NAME.parquet."""
CONFIGS = (
    "trajectories",
    "sft",
    "kto",
    "grpo",
    "subtask",
    "heldout",
    "heldout_gold",
    ROLLOUTS,
    "rejects",
)
"""Folders of the dataset that hold rows."""

_PART = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._+-]{0,199}")


def safe_path(text: str) -> bool:
    """Whether a text is a relative path that stays below its folder on every system: plain names joined by `/`."""
    parts = text.split("/")
    return len(text) <= 400 and all(_PART.fullmatch(part) and set(part) != {"."} for part in parts)


def inside(folder: Path, path: str) -> Path:
    """The file of a path that a manifest states.

    Raises:
        OresmithError: the path could lead out of the folder.
    """
    if not safe_path(path):
        raise OresmithError("a path that no release has", where=str(folder), got=repr(path[:200]))
    return folder / path


def release_folder(releases: Path, version: str) -> Path:
    """The frozen folder of a version, X.Y.Z.

    Raises:
        OresmithError: the text is no version.
    """
    from oresmith.validation.versions import parse_version

    parse_version(version)
    return releases / version
