"""`snapshot.json`: the description of a frozen snapshot, apart from how one is made, so that its readers are light."""

from __future__ import annotations

from pathlib import Path

import msgspec

from oresmith.declaration import TimeRange
from oresmith.errors import SnapshotError
from oresmith.records import Provenance

SNAPSHOT_SCHEMA = "oresmith.snapshot/1"


class StoredFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file of a frozen snapshot."""

    file: str
    """Path relative to the source, as data."""
    stored: str
    """Path inside the frozen directory, of our making."""
    bytes: int
    sha256: str
    provenance: Provenance = Provenance()


class Frozen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`snapshot.json`: the frozen snapshot's description."""

    schema: str
    name: str
    source: str
    licence: str
    time_range: TimeRange
    versions: dict[str, str]
    files: list[StoredFile]
    problems: StoredFile | None
    catalogue: StoredFile | None
    judgements: StoredFile | None
    pool: str | None
    """The source's wish for its problems."""
    trust_rows: bool = False
    """Left out where false, so that the hash of a snapshot without it stays what it was; so are these two."""
    witness: StoredFile | None = None
    truth: StoredFile | None = None
    tree_sha256: str
    """sha256 over everything above; what `snapshots[].sha256` pins."""


def read_frozen(directory: Path) -> Frozen:
    """Read `snapshot.json` of a frozen snapshot."""
    try:
        return msgspec.json.decode((directory / "snapshot.json").read_bytes(), type=Frozen)
    except (OSError, msgspec.DecodeError) as error:
        raise SnapshotError("the frozen snapshot cannot be read", where=str(directory), got=str(error)[:300]) from error
