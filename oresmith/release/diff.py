"""What changed between two releases: rows by id and reason, columns, parameters, scores, code, files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from oresmith.errors import OresmithError
from oresmith.release.columns import ColumnChanges, Columns, column_changes, decode_columns
from oresmith.release.history import find_release
from oresmith.release.layout import DATASET, RELEASE_FILE
from oresmith.release.manifest import Release, read_release
from oresmith.release.scorediff import ScoreChange, score_changes
from oresmith.release.versions import least
from oresmith.validation.versions import RowChanges, RowKey, read_keys, row_changes

_ABSENT = "absent"


class Side(NamedTuple):
    """A release, and where its tables lie."""

    release: Release
    keys: Path
    certificate: Path
    columns: Path
    params: Path
    scores: Path
    """Folder of NAME.json and NAME.parquet."""
    rejects: Path
    """Folder of Parquet files."""


class RowChange(msgspec.Struct, frozen=True):
    """One row that changed."""

    config: str
    row_id: str
    change: str
    """added, removed, edited or moved."""
    reason: str


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of two releases."""

    old: str
    new: str
    counts: dict[str, int]
    """Rows by kind of change."""
    rows: list[RowChange]
    columns: ColumnChanges
    parameters: dict[str, tuple[Any, Any]]
    """Key -> old and new value, `absent` where one side has none."""
    code: tuple[str, str] | None
    """Trees of the code, where they differ."""
    scores: list[ScoreChange]
    files: dict[str, int]
    """Files by what happened to them: kept, new, gone, changed."""
    least: str
    """Least version after `old` that Croissant's rule allows."""


def frozen_side(version: str, root: Path = Path()) -> Side:
    """A release that was cut.

    Raises:
        OresmithError: it was not.
    """
    found = find_release(version, root)
    folder = found.folder
    return Side(
        found.release,
        folder / "certificate/keys.tsv",
        folder / "certificate/certificate.json",
        folder / "columns.json",
        folder / "params.yaml",
        folder / "scores",
        folder / "rejects",
    )


def bundle_side(bundle: Path) -> Side:
    """The release that a bundle would be.

    Raises:
        OresmithError: there is no bundle.
    """
    dataset = bundle / DATASET
    return Side(
        read_release(bundle / RELEASE_FILE),
        dataset / "certificate/keys.tsv",
        dataset / "certificate/certificate.json",
        dataset / "schemas/columns.json",
        dataset / "params.yaml",
        dataset / "scores",
        dataset / "rejects",
    )


def compare(old: Side, new: Side) -> Diff:
    """The difference of two releases; every row that changed is named, with a reason where one can be told.

    Raises:
        OresmithError: a table of either is missing or damaged.
    """
    before, after = list(read_keys(old.keys)), list(read_keys(new.keys))
    changes = row_changes(before, after)
    columns = column_changes(_columns(old), _columns(new))
    files = _files(old.release, new.release)
    parameters = _parameters(old.params, new.params)
    other = old.release.content_sha256 != new.release.content_sha256
    return Diff(
        old=old.release.version,
        new=new.release.version,
        counts=changes.counts(),
        rows=list(_reasoned(old, new, before, after, changes)),
        columns=columns,
        parameters=parameters,
        code=None if old.release.code_tree == new.release.code_tree else (old.release.code_tree, new.release.code_tree),
        scores=score_changes(old.scores, new.scores),
        files=files,
        least=least(old.release.version, changes, columns, other),
    )


def _columns(side: Side) -> Columns:
    return decode_columns(side.columns)


def _files(old: Release, new: Release) -> dict[str, int]:
    found = {"kept": 0, "new": 0, "gone": 0, "changed": 0}
    for kind in ("dataset", "model"):
        before = {file.path: file.sha256 for file in old.part(kind).files}
        after = {file.path: file.sha256 for file in new.part(kind).files}
        for path in before.keys() | after.keys():
            name = "gone" if path not in after else "new" if path not in before else ""
            found[name or ("kept" if before[path] == after[path] else "changed")] += 1
    return found


def _parameters(old: Path, new: Path) -> dict[str, tuple[Any, Any]]:
    before, after = _flat(_yaml(old)), _flat(_yaml(new))
    keys = sorted(before.keys() | after.keys())
    pairs = {key: (before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    """Leaves by dotted key; items of a list that have a name go by it."""
    if isinstance(value, dict) and value:
        parts = ((f"{key}.{name}" if key else str(name), part) for name, part in value.items())
    elif isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        parts = ((f"{key}[{item['name']}]", item) for item in value)
    else:
        return {key: value}
    return {name: leaf for inner, part in parts for name, leaf in _flat(part, inner).items()}


def _yaml(path: Path) -> Any:
    from oresmith.yamlfile import READ_FAULTS, read_yaml

    try:
        return read_yaml(path)
    except (FileNotFoundError, *READ_FAULTS) as error:
        raise OresmithError(
            "the parameters of a release cannot be read", where=str(path), got=str(error)[:200]
        ) from error


class _Account(msgspec.Struct):
    snapshot: str


class _Certificate(msgspec.Struct):
    accounts: list[_Account]


def _snapshots(side: Side) -> set[str]:
    try:
        found = msgspec.json.decode(side.certificate.read_bytes(), type=_Certificate)
    except (OSError, msgspec.MsgspecError) as error:
        raise OresmithError(
            "a certificate cannot be read", where=str(side.certificate), got=str(error)[:200]
        ) from error
    return {account.snapshot for account in found.accounts}


def _reasoned(
    old: Side, new: Side, before: Iterable[RowKey], after: Iterable[RowKey], changes: RowChanges
) -> Iterator[RowChange]:
    """Each change with what the two releases say of its row."""
    was = {(row.config, row.row_id): row for row in before}
    now = {(row.config, row.row_id): row for row in after}
    if not any(changes.counts().values()):
        return
    fresh, gone = _snapshots(new) - _snapshots(old), _snapshots(old) - _snapshots(new)
    rejected_then, rejected_now = _rejected(old.rejects), _rejected(new.rejects)
    configs_now, configs_then = _configs(now), _configs(was)
    for config, row_id in changes.added:
        yield RowChange(
            config, row_id, "added", _why(now[config, row_id], fresh, "is new", rejected_then, configs_then)
        )
    for config, row_id in changes.removed:
        yield RowChange(
            config, row_id, "removed", _why(was[config, row_id], gone, "is gone", rejected_now, configs_now)
        )
    for config, row_id in changes.edited:
        yield RowChange(config, row_id, "edited", "other content in the same pool")
    for config, row_id in changes.moved:
        yield RowChange(config, row_id, "moved", f"{was[config, row_id].pool} -> {now[config, row_id].pool}")


def _why(
    row: RowKey, snapshots: set[str], verb: str, rejected: Mapping[str, str], elsewhere: Mapping[str, set[str]]
) -> str:
    """Why a row is on one side alone, by what the other side says of it."""
    snapshot = _snapshot(row)
    tense = "was" if verb == "is new" else "is"
    if snapshot in snapshots:
        return f"snapshot {snapshot} {verb}"
    if row.row_id in rejected:
        return f"{tense} rejected: {rejected[row.row_id]}"
    others = sorted(elsewhere.get(row.row_id, set()) - {row.config})
    if others:
        return f"{tense} in {', '.join(others)} only"
    return f"{tense} withheld or unknown"


def _snapshot(row: RowKey) -> str:
    """Of a row's file, `CONFIG/SPLIT-NNN-SNAPSHOT-MMMMM.parquet`."""
    return row.shard.rpartition("/")[2].removesuffix(".parquet").split("-", 2)[-1].rpartition("-")[0]


def _configs(rows: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for config, row_id in rows:
        found[row_id].add(config)
    return found


def _rejected(folder: Path) -> dict[str, str]:
    """The deciding reason of each rejected trajectory, and of each place of a reject."""
    import polars as pl

    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.parquet")):
        try:
            table = pl.read_parquet(path, columns=["trajectory_id", "snapshot", "file", "line", "reason"])
        except (pl.exceptions.PolarsError, OSError) as error:
            raise OresmithError(
                "the rejects of a release cannot be read", where=str(path), got=str(error)[:200]
            ) from error
        for trajectory, snapshot, file, line, reason in table.iter_rows():
            found[f"{snapshot}/{file}:{line}"] = reason
            if trajectory:
                found[trajectory] = reason
    return found
