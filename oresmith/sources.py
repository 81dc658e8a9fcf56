"""Sources of snapshots. A source is one small interface: list its files, then `freeze` copies and hashes them.

A frozen snapshot is a directory of its own: the trace files under names of ours (no path from data), the problems,
the catalogue and the judgements that go with them, and `snapshot.json`, which says where each came from.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import msgspec
import yaml

from oresmith.errors import SnapshotError
from oresmith.params import Snapshot
from oresmith.records import Provenance

SNAPSHOT_SCHEMA = "oresmith.snapshot/1"
CHUNK = 1 << 20
SUFFIXES = (".jsonl", ".json", ".gz", ".zst")
"""Kept on stored names, so that a person can open them; readers go by magic bytes."""

KEYED_HASH = re.compile(r"[0-9a-f]{16,64}")

Text = Annotated[str, msgspec.Meta(min_length=1)]


class TimeRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from", "end": "to"}):
    """Logical time of the snapshot, ISO 8601 UTC, ends included."""

    start: Text
    end: Text


class Declaration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The provenance YAML beside a source: what its owner declares of it (docs/formats.md)."""

    source: Text
    licence: Text
    time_range: TimeRange
    versions: dict[str, str] = {}
    """Versions in force: runtime, scorer, judge, suite."""
    patterns: tuple[str, ...] = ("**",)
    problems: str | None = None
    catalogue: str | None = None
    judgements: str | None = None
    pool: Literal["train", "dev", "heldout"] | None = None
    """The source's wish for its problems; honoured when a problem is first seen, then the ledger rules."""
    files: dict[str, Provenance] = {}
    """Per trace file, by its path relative to the source: fields of `records.Provenance`."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file of a frozen snapshot."""

    file: str
    """Path relative to the source, as data."""
    stored: str
    """Path inside the frozen directory, of our making."""
    bytes: int
    sha256: str
    provenance: Provenance = Provenance()


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
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
    tree_sha256: str
    """sha256 over everything above; what `snapshots[].sha256` pins."""


class TraceSource(Protocol):
    """What a source offers to `freeze`."""

    def declaration(self) -> Declaration:
        """What the owner declares."""

    def files(self) -> list[tuple[str, Path]]:
        """(relative name, path) of each trace file, sorted by name."""

    def beside(self, name: str) -> Path:
        """Path of a file that the declaration names."""


class FilesSource:
    """Source `files`: a file or a directory of trace files with a provenance YAML beside it."""

    def __init__(self, entry: Snapshot) -> None:
        self.entry, self.root, self.yaml = entry, Path(entry.path), Path(entry.provenance)
        if not self.root.exists():
            raise SnapshotError(
                "the path does not exist", where=f"snapshot {entry.name}: {self.root}", todo="correct snapshots[].path"
            )
        self._declared = read_declaration(self.yaml)

    def declaration(self) -> Declaration:
        """What the provenance YAML declares."""
        return self._declared

    def beside(self, name: str) -> Path:
        """A file named in the provenance YAML, relative to it."""
        path = self.yaml.parent / name
        if not path.is_file():
            raise SnapshotError("the file that the provenance names does not exist", where=str(self.yaml), got=name)
        return path

    def files(self) -> list[tuple[str, Path]]:
        """Trace files below the path that the patterns select, sorted; the declaration's own files are left out."""
        if self.root.is_file():
            return [(self.root.name, self.root)]
        patterns = (self.entry.pattern,) if self.entry.pattern else self._declared.patterns
        own = {self.yaml.resolve()}
        for name in (self._declared.problems, self._declared.catalogue, self._declared.judgements):
            if name is not None:
                own.add((self.yaml.parent / name).resolve())
        # Before Python 3.13 a final `**` matches directories only.
        globs = [pattern + "/*" if pattern.endswith("**") else pattern for pattern in patterns]
        found = {path for pattern in globs for path in self.root.glob(pattern) if path.is_file()}
        chosen = [path for path in found if path.resolve() not in own and not path.name.startswith(".")]
        return sorted((path.relative_to(self.root).as_posix(), path) for path in chosen)


def open_source(entry: Snapshot) -> TraceSource:
    """The source that the entry names; each kind of source is one class."""
    return FilesSource(entry)


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without dates: a time stays the text that was written."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_declaration(path: Path) -> Declaration:
    """Read and check a provenance YAML.

    Raises:
        SnapshotError: missing, not YAML, an unknown field or a wrong type, naming it.
    """
    try:
        raw: Any = yaml.load(path.read_text("utf-8"), Loader=_PlainLoader)  # noqa: S506 (a subclass of SafeLoader)
        return _without_clear_keys(msgspec.convert(raw, Declaration), path)
    except FileNotFoundError as error:
        raise SnapshotError(
            "there is no provenance file", where=str(path), todo="write one: docs/formats.md shows a small example"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise SnapshotError("the provenance file cannot be read", where=str(path), got=str(error)[:300]) from error
    except msgspec.ValidationError as error:
        raise SnapshotError(
            "the provenance file is wrong",
            where=str(path),
            expected="source, licence, time_range and, optionally, versions, patterns, problems, catalogue, files",
            got=str(error)[:300],
        ) from error


def _without_clear_keys(declared: Declaration, path: Path) -> Declaration:
    """Refuse a miner's key in clear: what is published must not name who wrote an agent."""
    for name, provenance in declared.files.items():
        if provenance.miner is not None and not KEYED_HASH.fullmatch(provenance.miner):
            raise SnapshotError(
                "a miner is not given as a keyed hash",
                where=f"{path}: files: {name}: miner",
                expected="16 to 64 hex digits, such as an HMAC-SHA256 of the key under a secret of your own",
                todo="replace the key by its keyed hash",
            )
    return declared


def freeze(entry: Snapshot, source: TraceSource, target: Path) -> Frozen:
    """Copy a source's files into `target` and describe them.

    Args:
        entry: the snapshot's entry in the parameters.
        source: where the files are.
        target: an empty directory (the caller publishes it whole or not at all).

    Returns:
        The description, which the caller writes as `snapshot.json`.

    Raises:
        SnapshotError: no trace file, only empty ones, a file declared that is not there, or a pin that does not match.
    """
    declared, found = source.declaration(), source.files()
    where = f"snapshot {entry.name}: {entry.path}"
    if not found or not any(path.stat().st_size for _, path in found):
        raise SnapshotError(
            "the snapshot is empty",
            where=where,
            expected="at least one trace file with a line in it",
            got=f"{len(found)} files" + (", all empty" if found else f" for patterns {list(declared.patterns)}"),
        )
    absent = sorted(set(declared.files) - {name for name, _ in found})
    if absent:
        raise SnapshotError("the provenance file describes a file that is not there", where=where, got=absent[0])
    (target / "files").mkdir()
    files = [
        _store(name, path, target, f"files/{place:05d}", declared.files.get(name, Provenance()))
        for place, (name, path) in enumerate(found)
    ]
    extras = {
        kind: _store(name, source.beside(name), target, kind, Provenance()) if name else None
        for kind, name in (
            ("problems", declared.problems),
            ("catalogue", declared.catalogue),
            ("judgements", declared.judgements),
        )
    }
    frozen = Frozen(
        schema=SNAPSHOT_SCHEMA,
        name=entry.name,
        source=declared.source,
        licence=declared.licence,
        time_range=declared.time_range,
        versions=dict(sorted(declared.versions.items())),
        files=files,
        **extras,
        pool=declared.pool,
        tree_sha256="",
    )
    tree = hashlib.sha256(msgspec.json.encode(frozen)).hexdigest()
    if entry.sha256 not in (None, tree):
        raise SnapshotError(
            "the source is not the one that was pinned; a frozen snapshot never changes",
            where=where,
            expected=str(entry.sha256),
            got=tree,
            todo="restore the files, or append the new state as another snapshot",
        )
    return msgspec.structs.replace(frozen, tree_sha256=tree)


def read_frozen(directory: Path) -> Frozen:
    """Read `snapshot.json` of a frozen snapshot."""
    try:
        return msgspec.json.decode((directory / "snapshot.json").read_bytes(), type=Frozen)
    except (OSError, msgspec.DecodeError) as error:
        raise SnapshotError("the frozen snapshot cannot be read", where=str(directory), got=str(error)[:300]) from error


def _store(name: str, path: Path, target: Path, stem: str, provenance: Provenance) -> StoredFile:
    """Copy one file under a name of ours, hashing on the way."""
    suffix = "".join(part for part in path.suffixes if part in SUFFIXES)
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as reader, (target / (stem + suffix)).open("wb") as writer:
        while block := reader.read(CHUNK):
            digest.update(block)
            writer.write(block)
            size += len(block)
    return StoredFile(file=name, stored=stem + suffix, bytes=size, sha256=digest.hexdigest(), provenance=provenance)
