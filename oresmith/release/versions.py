"""The least version of a release by Croissant's rule: rows as `oresmith.validation.versions` has it, and the schema.

PATCH: the same rows, serialised again, or other metadata. MINOR: rows, columns or configs were added, every earlier one
can be found as it was. MAJOR: a row was edited, removed or moved, or a column went or changed its type
(https://docs.mlcommons.org/croissant/docs/croissant-spec.html, "Dataset versioning").
"""

from __future__ import annotations

from pathlib import Path

from oresmith.params import Params
from oresmith.release.columns import ColumnChanges
from oresmith.release.history import versions_of
from oresmith.validation.versions import RowChanges, least_version, parse_version


def previous_of(root: Path, params: Params) -> str | None:
    """The newest release that was cut below the version at hand; None for the first."""
    now = parse_version(params.release.version)
    earlier = [version for version in versions_of(root) if parse_version(version) < now]
    return earlier[-1] if earlier else None


def least(previous: str, rows: RowChanges, columns: ColumnChanges, other: bool) -> str:
    """The least version that the rule allows.

    Args:
        previous: version that the changes start from.
        rows: what happened to the rows.
        columns: what happened to the columns.
        other: whether anything else of the release differs.

    Returns:
        "X.Y.Z"; `previous` itself where nothing has changed.
    """
    major, minor, _ = parse_version(previous)
    by_rows = least_version(previous, rows, other)
    if columns.removed or columns.retyped:
        return max(by_rows, f"{major + 1}.0.0", key=parse_version)
    if columns.added:
        return max(by_rows, f"{major}.{minor + 1}.0", key=parse_version)
    return by_rows
