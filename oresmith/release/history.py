"""The releases of a project, as `releases/` holds them; a state is told by what exists, never written down."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from oresmith.errors import OresmithError
from oresmith.release.layout import PUBLISHED_FILE, RELEASES, YANKED_FILE
from oresmith.release.manifest import Published, Release, Yanked, read_record, read_release
from oresmith.validation.versions import parse_version

State = Literal["cut", "published", "yanked"]


class Known(NamedTuple):
    """One release."""

    version: str
    folder: Path
    """releases/X.Y.Z."""
    release: Release
    published: Published | None
    yanked: Yanked | None

    @property
    def state(self) -> State:
        """The last state that it came to."""
        if self.yanked is not None:
            return "yanked"
        return "cut" if self.published is None else "published"


def known_releases(root: Path = Path()) -> list[Known]:
    """Every release that was cut, oldest version first.

    Args:
        root: of the project.

    Raises:
        OresmithError: a record of one cannot be read, or a folder holds another version than its name says.
    """
    return [find_release(version, root) for version in versions_of(root)]


def versions_of(root: Path = Path()) -> list[str]:
    """The versions that have a folder, in order."""
    found = []
    for path in (root / RELEASES).glob("*"):
        try:
            found.append(parse_version(path.name))
        except OresmithError:
            continue
    return [".".join(map(str, version)) for version in sorted(found)]


def find_release(version: str, root: Path = Path()) -> Known:
    """One release.

    Raises:
        OresmithError: it was not cut, or as `known_releases`.
    """
    parse_version(version)
    folder = root / RELEASES / version
    if not folder.is_dir():
        raise OresmithError(
            "no such release",
            where=str(RELEASES),
            expected=", ".join(versions_of(root)) or "none was cut yet",
            got=version,
            todo=f"oresmith release cut {version}",
        )
    release = read_release(folder)
    if release.version != version:
        raise OresmithError("a folder holds another release", where=str(folder), expected=version, got=release.version)
    return Known(
        version,
        folder,
        release,
        read_record(folder / PUBLISHED_FILE, Published) if (folder / PUBLISHED_FILE).is_file() else None,
        read_record(folder / YANKED_FILE, Yanked) if (folder / YANKED_FILE).is_file() else None,
    )
