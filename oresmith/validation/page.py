"""The validation report as one offline HTML page: no script, no network, nothing from a trace unescaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import Environment, StrictUndefined

from oresmith.validation.funnel import FileFunnel, Funnel
from oresmith.validation.held import Held
from oresmith.validation.versions import VersionStep

TEMPLATE = "validation_report.html.jinja"
FILES_SHOWN = 200
_LONGEST = 300
_INVISIBLE = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}


class ConfigShape(msgspec.Struct, frozen=True):
    """How much a split of a config holds; rows and what they are about stand side by side."""

    config: str
    split: str
    rows: int
    problems: int | None
    """Distinct problems; None for a config that names none."""
    clusters: int | None
    files: int
    bytes: int
    largest_row_group: int
    """Uncompressed bytes."""


class LargeCluster(msgspec.Struct, frozen=True):
    """One of the largest clusters, with a query as the source wrote it."""

    cluster: str
    pool: str
    problems: int
    query: str


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the page shows."""

    funnel: Funnel
    notes: Sequence[str]
    """What a reader must not miss, such as a corpus without a train row."""
    sentences: Mapping[str, str]
    """Reason -> its sentence."""
    configs: Sequence[ConfigShape]
    contracts: Sequence[Held]
    gx: Mapping[str, Any]
    """`schemas.gx.Outcome.result`."""
    pools: Sequence[tuple[str, int]]
    categories: Sequence[tuple[str, int]]
    cluster_sizes: Sequence[tuple[str, int]]
    tokens: Sequence[tuple[str, int]]
    largest: Sequence[LargeCluster]
    version: VersionStep
    certificate: str
    """sha256 of the certificate, or why there is none."""

    @property
    def withheld(self) -> int:
        """Rows that a pool withholds."""
        return sum(self.funnel.withheld.values())

    @property
    def rejected(self) -> int:
        """Rows that a stage rejected."""
        return sum(self.funnel.rejects.values())

    @property
    def places(self) -> list[tuple[str, int]]:
        """The four places of a line."""
        funnel = self.funnel
        return [
            ("trajectories", funnel.trajectories),
            ("subtask", funnel.subtask),
            ("withheld", self.withheld),
            ("rejects", self.rejected),
        ]

    @property
    def files(self) -> list[FileFunnel]:
        """The files that the page lists."""
        return self.funnel.files[:FILES_SHOWN]

    @property
    def files_left_out(self) -> int:
        """Files that only `funnel.json` lists."""
        return len(self.funnel.files) - len(self.files)


def render(page: Page) -> str:
    """The page as HTML text, the same for the same values."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["shown"] = shown
    source = files("cards").joinpath(TEMPLATE).read_text("utf-8")
    return environment.from_string(source).render(page=page)


def shown(value: object) -> str:
    """Text that a reader sees as it is: characters that hide or reorder others become their number, long text is cut.

    Escaping is left to the template.
    """
    text = str(value)
    kept = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    if kept.isascii() and kept.isprintable():
        return kept
    return "".join(f"\\u{{{ord(c):04X}}}" if unicodedata.category(c) in _INVISIBLE else c for c in kept)
