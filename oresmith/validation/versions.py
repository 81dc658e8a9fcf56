"""The least version that a release may take, by Croissant's rule, from the row keys of two releases.

PATCH: the same rows, serialised again. MINOR: rows were added, every earlier one can still be found as it was. MAJOR: a
row was edited, removed, or moved to another pool (https://docs.mlcommons.org/croissant/docs/croissant-spec.html).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from oresmith.errors import OresmithError

_VERSION = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")
_COLUMNS = ("config", "row_id", "pool", "row_sha256", "shard")
_PLACES = (Path("certificate") / "keys.tsv", Path("keys.tsv"))
CERTIFICATE = "certificate.json"
"""Lies beside `keys.tsv`."""


class RowKey(NamedTuple):
    """One row of a release, as `certificate/keys.tsv` lists it."""

    config: str
    row_id: str
    """Names the row in its config for good."""
    pool: str
    row_sha256: str
    """Canonical hash of the row's content."""
    shard: str = ""
    """File that holds the row: moving a row to another file edits nothing."""


class RowChanges(msgspec.Struct, frozen=True):
    """What happened to the rows of a release: (config, row id) pairs, sorted."""

    added: tuple[tuple[str, str], ...] = ()
    removed: tuple[tuple[str, str], ...] = ()
    edited: tuple[tuple[str, str], ...] = ()
    """In the same pool, with other content."""
    moved: tuple[tuple[str, str], ...] = ()
    """In another pool, whatever the content."""

    def counts(self) -> dict[str, int]:
        """Rows by kind of change."""
        return {name: len(getattr(self, name)) for name in ("added", "removed", "edited", "moved")}


class Release(NamedTuple):
    """An earlier release."""

    version: str
    keys: Path
    """Its `keys.tsv`."""


class VersionStep(msgspec.Struct, frozen=True):
    """What the rows say about the next version."""

    previous: str | None
    """Newest earlier release; None where there is none."""
    changes: dict[str, int]
    """Rows by kind of change since then."""
    reserialised: bool
    """Whether any published file has other bytes or another name than then."""
    least: str | None
    """Least version that the rule allows; None before the first release, where any may be chosen."""


def version_sentence(step: VersionStep, version: str) -> str | None:
    """What a user is told of the version at hand; None where nothing was released before."""
    if step.least is None:
        return None
    changed = ", ".join(f"{count} rows {kind}" for kind, count in step.changes.items() if count) or "no row changed"
    verdict = "allowed" if parse_version(version) >= parse_version(step.least) else "TOO LOW: raise release.version"
    return f"after {step.previous} ({changed}) the least version is {step.least}; {version} is {verdict}"


def parse_version(text: str) -> tuple[int, int, int]:
    """The three numbers of "X.Y.Z" (semver.org without pre-release and build parts, no leading zeros).

    Raises:
        OresmithError: any other text.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise OresmithError("not a release version", expected="X.Y.Z, such as 0.2.0", got=repr(text[:80]))
    return int(match[1]), int(match[2]), int(match[3])


def row_changes(old: Iterable[RowKey], new: Iterable[RowKey]) -> RowChanges:
    """Compare the rows of two releases.

    Args:
        old: rows of the earlier release, in any order.
        new: rows of the later one.

    Raises:
        OresmithError: a row stands twice in one release.
    """
    before, after = _by_name(old, "the earlier release"), _by_name(new, "the later release")
    both = before.keys() & after.keys()
    moved = {name for name in both if before[name][0] != after[name][0]}
    return RowChanges(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        edited=tuple(sorted(name for name in both - moved if before[name] != after[name])),
        moved=tuple(sorted(moved)),
    )


def least_version(previous: str, changes: RowChanges, reserialised: bool) -> str:
    """The least version that the rule allows after `previous`.

    Args:
        previous: version of the release that `changes` starts from.
        changes: what happened to its rows.
        reserialised: whether any published file has other bytes or another name.

    Returns:
        "X.Y.Z"; `previous` itself where nothing has changed, since then there is nothing to release.

    Raises:
        OresmithError: `previous` is no version.
    """
    major, minor, patch = parse_version(previous)
    if changes.edited or changes.removed or changes.moved:
        return f"{major + 1}.0.0"
    if changes.added:
        return f"{major}.{minor + 1}.0"
    return f"{major}.{minor}.{patch + 1}" if reserialised else previous


def version_step(releases: Path, certificate: Path) -> VersionStep:
    """Compare a new corpus with the newest earlier release.

    Args:
        releases: the folder of releases; need not exist.
        certificate: folder of the new `certificate.json` and `keys.tsv`; releases from its own version on are not
            looked at, so that a rebuild says what the first build said.

    Raises:
        OresmithError: a file of either is missing or damaged.
    """
    version, files = _certified(certificate / CERTIFICATE)
    earlier = newest_release(releases, before=version)
    if earlier is None:
        return VersionStep(None, {}, False, None)
    changes = row_changes(read_keys(earlier.keys), read_keys(certificate / "keys.tsv"))
    reserialised = _certified(earlier.keys.with_name(CERTIFICATE))[1] != files
    least = least_version(earlier.version, changes, reserialised)
    return VersionStep(earlier.version, changes.counts(), reserialised, least)


def newest_release(releases: Path, before: str | None = None) -> Release | None:
    """The newest folder X.Y.Z of `releases/` that holds the keys of its rows.

    Args:
        releases: the folder; need not exist.
        before: look only at versions below this one, so that a rebuild of a release compares as it first did.

    Returns:
        None where there is no such release yet.

    Raises:
        OresmithError: the newest one has no `keys.tsv`.
    """
    found = [path.name for path in releases.glob("*") if path.is_dir() and _VERSION.fullmatch(path.name)]
    versions = sorted(parse_version(name) for name in found)
    limit = parse_version(before) if before else None
    earlier = [version for version in versions if limit is None or version < limit]
    if not earlier:
        return None
    version = ".".join(map(str, earlier[-1]))
    for place in _PLACES:
        if (releases / version / place).is_file():
            return Release(version, releases / version / place)
    raise OresmithError(
        "a release has no list of its rows",
        where=str(releases / version),
        expected=" or ".join(str(place) for place in _PLACES),
        todo="restore the release's folder from version control",
    )


def read_keys(path: Path) -> Iterator[RowKey]:
    """The rows of a `keys.tsv`: tab-separated with a header, of which five columns are read (`RowKey`).

    Raises:
        OresmithError: a column or a line is not as it must be, with file and line.
    """
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            header = file.readline().rstrip("\n").split("\t")
            missing = [name for name in _COLUMNS if header.count(name) != 1]
            if missing:
                raise OresmithError("columns are missing", where=f"{path}:1", expected=", ".join(missing))
            places = [header.index(name) for name in _COLUMNS]
            for number, line in enumerate(file, start=2):
                cells = line.rstrip("\n").split("\t")
                if len(cells) != len(header) or not line.endswith("\n"):
                    got = f"{len(cells)} cells" if line.endswith("\n") else "a line without its end"
                    raise OresmithError(
                        "a line is damaged", where=f"{path}:{number}", expected=f"{len(header)} cells", got=got
                    )
                yield RowKey(*(cells[place] for place in places))
    except (OSError, UnicodeDecodeError) as error:
        raise OresmithError("the list of rows cannot be read", where=str(path), got=str(error)[:200]) from error


class _File(msgspec.Struct):
    path: str
    sha256: str


class _Certificate(msgspec.Struct):
    release: str
    files: list[_File]


def _certified(path: Path) -> tuple[str, dict[str, str]]:
    """Version and published files (path -> sha256) that a certificate states."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Certificate)
    except (OSError, msgspec.MsgspecError) as error:
        raise OresmithError("a certificate cannot be read", where=str(path), got=str(error)[:200]) from error
    return found.release, {file.path: file.sha256 for file in found.files}


def _by_name(rows: Iterable[RowKey], where: str) -> dict[tuple[str, str], tuple[str, str]]:
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for row in rows:
        name = (sys.intern(row.config), row.row_id)
        if name in found:
            raise OresmithError("a row stands twice", where=where, got=f"config {row.config}, row {row.row_id[:80]}")
        found[name] = (sys.intern(row.pool), row.row_sha256)
    return found
