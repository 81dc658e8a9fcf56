"""Sources of snapshots. A source is one small interface: list its files, then `freeze` copies and hashes them.

A frozen snapshot is a directory of its own: the trace files under names of ours (no path from data), the problems,
the catalogue and the judgements that go with them, and `snapshot.json`, which says where each came from.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

import msgspec

from oresmith.declaration import Declaration, read_declaration
from oresmith.errors import SnapshotError
from oresmith.frozen import SNAPSHOT_SCHEMA, Frozen, StoredFile
from oresmith.param_data import Snapshot
from oresmith.records import Provenance

CHUNK = 1 << 20
SUFFIXES = (".jsonl", ".json", ".gz", ".zst")
"""Kept on stored names, so that a person can open them; readers go by magic bytes."""


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
        """A file named in the provenance YAML, relative to it and not outside its directory."""
        path = self.yaml.parent / name
        check_inside(path, self.yaml.parent, str(self.yaml))
        if not path.is_file():
            raise SnapshotError("the file that the provenance names does not exist", where=str(self.yaml), got=name)
        return path

    def files(self) -> list[tuple[str, Path]]:
        """Trace files below the path that the patterns select, sorted; the declaration's own files are left out.

        Raises:
            SnapshotError: a pattern that is none, or a match that is no regular file, leads outside the source, or has
                a name that is not UTF-8: nothing that was selected is passed over in silence.
        """
        if self.root.is_file():
            return [(self.root.name, self.root)]
        own = {self.yaml.resolve()}
        own |= {(self.yaml.parent / name).resolve() for _, name in _beside(self._declared) if name is not None}
        chosen = [path for path in self._matches() if path.resolve() not in own and not path.is_dir()]
        for path in chosen:
            _check_regular(path, self.root)
        return sorted((path.relative_to(self.root).as_posix(), path) for path in chosen)

    def _matches(self) -> set[Path]:
        patterns = (self.entry.pattern,) if self.entry.pattern else self._declared.patterns
        # Before Python 3.13 a final `**` matches directories only.
        globs = [pattern + "/*" if pattern.endswith("**") else pattern for pattern in patterns]
        found: set[Path] = set()
        for pattern in globs:
            try:
                found.update(self.root.glob(pattern))
            except (ValueError, NotImplementedError, IndexError, OSError) as error:
                raise SnapshotError(
                    "this is no pattern below the source", where=f"snapshot {self.entry.name}", got=pattern[:200]
                ) from error
        return found


def _check_regular(path: Path, root: Path) -> None:
    where = f"trace file {path}"
    check_inside(path, root, where)
    if not path.is_file():
        raise SnapshotError(
            "a selected file is no regular file",
            where=where,
            expected="a file, or a link to one inside the source",
            todo="remove it, or narrow the patterns",
        )
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise SnapshotError("a file name is not UTF-8", where=where, todo="rename the file") from error


def check_inside(path: Path, root: Path, where: str) -> None:
    """A snapshot takes what lies in its source and nothing else of the machine.

    Raises:
        SnapshotError: naming `where`, for a path that leads out of `root`, by a link too.
    """
    if not path.resolve().is_relative_to(root.resolve()):
        raise SnapshotError(
            "a file lies outside the source",
            where=where,
            expected=f"a file below {root}",
            got=str(path),
            todo="copy it into the source's directory",
        )


def open_source(entry: Snapshot, scratch: Path, workers: int = 1) -> TraceSource:
    """The source that the entry names.

    Args:
        entry: the snapshot's entry in the parameters.
        scratch: a directory for what a source has to make or fetch first; an arena plays its days there.
        workers: processes that may do so at once; they change no byte.

    Raises:
        OresmithError: what the source needs is missing or wrong.
    """
    if entry.source == "arena":
        from oresmith.recording import record

        made = record(entry, scratch / "source", workers=workers, scratch=scratch / "play")
        entry = msgspec.structs.replace(entry, path=str(made), provenance=str(made / "provenance.yaml"))
    return FilesSource(entry)


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
            got=f"{len(found)} files"
            + (", all empty" if found else f" for {entry.pattern or list(declared.patterns)}"),
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
        for kind, name in _beside(declared)
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
        trust_rows=declared.trust_rows,
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


def _beside(declared: Declaration) -> list[tuple[str, str | None]]:
    """The files beside the traces that a declaration can name: field of `Frozen`, name."""
    return [(kind, getattr(declared, kind)) for kind in ("problems", "catalogue", "judgements", "witness", "truth")]


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
