"""Parameters of a release: its version, where it is published, and what its cards say beside the numbers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from oresmith.param_types import Name, Namespace

VERSION = r"^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\Z"
"""MAJOR.MINOR.PATCH."""
Repository = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,41}/[A-Za-z0-9][A-Za-z0-9_.-]{0,79}\Z")]
"""`owner/name` as the Hub has it."""
Line = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
"""Text on one line."""
Gate = Literal[
    "certificate",
    "funnel",
    "contracts",
    "secrets",
    "licences",
    "pinned_inputs",
    "pool_date",
    "scores",
    "parity",
    "model_files",
    "sizes",
    "clean_tree",
    "version",
]
"""What must hold before a release is cut."""


class Waiver(Namespace, frozen=True):
    """A gate that does not stop this release; the card names it."""

    gate: Gate
    who: Line
    why: Line


class Release(Namespace, frozen=True):
    """The release that is being made."""

    version: Annotated[str, msgspec.Meta(pattern=VERSION)] = "0.1.0"
    """Ledger lines of earlier releases alone are read."""
    model: Name | None = None
    """The entry of `models` that is released; null takes the last."""
    dataset: Repository = "oresmith/arena-shopping"
    """Repository of the dataset."""
    weights: Repository = "oresmith/arena-shopping-model"
    """Repository of the model."""
    title: Line = "Arena Shopping"
    """Name on cards and pages."""
    summary: Line = (
        "Shopping agents' trajectories from an arena, without leaks between splits, with a model and its scores."
    )
    """What it is, in one sentence."""
    licence: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.-]{0,39}\Z")] = "other"
    """Of the dataset as a whole, an identifier that the Hub knows; each source keeps its own."""
    model_licence: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.-]{0,39}\Z")] = "apache-2.0"
    """Of the model."""
    languages: tuple[Annotated[str, msgspec.Meta(pattern=r"^[a-z]{2,3}\Z")], ...] = ("en",)
    tags: tuple[Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.-]{0,39}\Z")], ...] = (
        "agents",
        "tool-use",
        "shopping",
    )
    waivers: tuple[Waiver, ...] = ()
    """Gates that do not stop this release."""
    pool_days: Annotated[int, msgspec.Meta(ge=0, le=3650)] = 30
    """Most days between the newest held-out pool and the newest snapshot."""
