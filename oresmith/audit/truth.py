"""The pipeline's findings held against what an arena planted: precision and recall, each miss by its place.

A snapshot without a truth file is not judged. Nothing here changes what the pipeline found.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import polars as pl

from oresmith.audit import truth_clusters, truth_misses, truth_rows
from oresmith.audit.truth_clusters import ClusterRates, LeakRates, Nodes, names_of, read_known
from oresmith.audit.truth_file import read_truth
from oresmith.audit.truth_misses import Listed
from oresmith.audit.truth_rates import (
    Matched,
)
from oresmith.audit.truth_rows import RowFigures, join, read_accepted, read_found, row_misses
from oresmith.errors import OresmithError
from oresmith.frozen import read_frozen
from oresmith.records import Record

TRUTHS_SCHEMA = "oresmith.truths/1"
NO_TRUTH = "the snapshot carries no truth"


class Figures(RowFigures, frozen=True):
    """All figures, over all judged snapshots together."""

    clusters: ClusterRates
    leaks: LeakRates


class Truths(Record, frozen=True):
    """What the comparison found."""

    schema: str
    snapshots: dict[str, Matched | None]
    """By name; None for one that was not judged."""
    not_judged: dict[str, str]
    """Why, by name."""
    figures: Figures | None
    """None where no snapshot was judged."""
    misses: dict[str, Listed]
    """By kind, those of which there are any."""


def report(data: Path, names: Sequence[str] | None = None) -> Truths:
    """Compare the findings below `data` with the truth of every snapshot that carries one.

    Args:
        data: the pipeline's data directory, after stage split.
        names: of the snapshots, in their order; None takes those below data/snapshots, by name.

    Errors: OresmithError for a truth file that cannot be read, and where a stage has not run.
    """
    chosen = _snapshots(data) if names is None else list(names)
    judged = {name: path for name in chosen if (path := truth_path(data, name)) is not None}
    not_judged = {name: NO_TRUTH for name in chosen if name not in judged}
    matched: dict[str, Matched | None] = dict.fromkeys(chosen)
    if not judged:
        return Truths(schema=TRUTHS_SCHEMA, snapshots=matched, not_judged=not_judged, figures=None, misses={})
    known, accepted = read_known(data), read_accepted(data)
    nodes, frames = Nodes(known), [truth_rows.EMPTY]
    misses: dict[str, Listed] = {}
    for name, path in judged.items():
        planted = read_truth(path)
        nodes.add(name, planted.problems, names_of(data, name, known))
        rows, matched[name], unmatched = join(name, planted.trajectories, read_found(data, name), accepted)
        misses |= {kind: _together(misses.get(kind), one) for kind, one in unmatched.items()}
        frames.append(rows.select(truth_rows.EMPTY.columns))
    every = pl.concat(frames)
    of_rows, of_problems = truth_rows.figures(every), truth_clusters.figures(nodes)
    misses |= row_misses(every) | of_problems.misses
    return Truths(
        schema=TRUTHS_SCHEMA,
        snapshots=matched,
        not_judged=not_judged,
        figures=Figures(**msgspec.structs.asdict(of_rows), clusters=of_problems.clusters, leaks=of_problems.leaks),
        misses={kind: one for kind, one in misses.items() if one.count},
    )


def truth_path(data: Path, name: str) -> Path | None:
    """The truth file of a frozen snapshot; None where it carries none. Errors: OresmithError for no such snapshot."""
    folder = data / "snapshots" / name
    stored = read_frozen(folder).truth
    return folder / stored.stored if stored else None


def _snapshots(data: Path) -> list[str]:
    folder = data / "snapshots"
    names = sorted(path.parent.name for path in folder.glob("*/snapshot.json") if path.parent.name[0] != ".")
    if not names:
        raise OresmithError("there is no snapshot", where=str(folder), todo="run `dvc repro` in the project's root")
    return names


def _together(one: Listed | None, other: Listed) -> Listed:
    if one is None:
        return other
    misses = [*one.misses, *other.misses]
    return Listed(count=one.count + other.count, misses=misses[: truth_misses.LISTED])
