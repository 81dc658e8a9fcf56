"""A release that is being verified: its folders on this machine, wherever they came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from oresmith.release.layout import DATASET, MODEL
from oresmith.release.verify.found import NotComputedError

Kind = Literal["bundle", "dataset", "model"]


class Keys(NamedTuple):
    """Who must have signed."""

    public_key: Path | None = None
    identity: str | None = None
    """As a certificate names it, such as an e-mail address or a workflow's URL."""
    issuer: str | None = None
    """OIDC provider of the identity."""


UNSIGNED = Keys()
"""Nobody was named."""


class Opened(NamedTuple):
    """What the checks look at."""

    source: str
    """As it was asked for."""
    kind: Kind
    root: Path
    folders: Mapping[str, Path]
    """`dataset` and `model`, those that are there."""
    tag: str | None = None
    """Revision that it was fetched by."""
    yanked: str | None = None
    """Why it was withdrawn."""
    keys: Keys = UNSIGNED

    @property
    def dataset(self) -> Path:
        """Its folder. Errors: NotComputedError where only the model is here."""
        return self._folder(DATASET)

    @property
    def model(self) -> Path:
        """As `dataset`."""
        return self._folder(MODEL)

    def _folder(self, kind: str) -> Path:
        if kind not in self.folders:
            raise NotComputedError(f"the {kind} is another repository: verify that one as well")
        return self.folders[kind]
