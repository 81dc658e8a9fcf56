"""`release.json`: every file of a release with its sha256, the gates it went through, and what it was made from.

Three of them: the bundle's (`Release`, both parts), and one in each part (`PartRelease`, which cannot list itself) for
whoever has that repository alone. Signatures, times and places of publication stand beside them, never in them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from oresmith.errors import OresmithError
from oresmith.release.layout import DATASET, MODEL, RELEASE_FILE, safe_path

RELEASE_SCHEMA = "oresmith.release/1"
PART_SCHEMA = "oresmith.release-part/1"
PUBLISHED_SCHEMA = "oresmith.published/1"
YANKED_SCHEMA = "oresmith.yanked/1"
State = Literal["passed", "failed", "waived", "not_applicable"]
_MOST_BYTES = 64 * 1024 * 1024


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class File(_Record, frozen=True, kw_only=True):
    """One file of a part."""

    path: str
    """Relative to the part's folder, which is the repository's root; `safe_path` holds."""
    bytes: int
    sha256: str


class Waived(_Record, frozen=True, kw_only=True):
    """A gate that does not stop the release."""

    gate: str
    who: str
    why: str


class GateResult(_Record, frozen=True, kw_only=True):
    """What one gate found."""

    name: str
    """One of `param_release.Gate`."""
    state: State
    detail: str
    """One line: what was checked, or the first fault with its file and row."""


class Part(_Record, frozen=True, kw_only=True):
    """A repository's content, its `release.json` included, sorted by path."""

    repository: str
    """`owner/name`."""
    files: tuple[File, ...]


class Release(_Record, frozen=True, kw_only=True):
    """`release.json` of a bundle, and of the frozen folder."""

    schema: Literal["oresmith.release/1"] = "oresmith.release/1"
    version: str
    dataset: Part
    model: Part
    content_sha256: str
    """`content_sha256` over the files of both parts as `dataset/..` and `model/..`, their `release.json` left out."""
    code_tree: str
    """Git's hash of a tree that holds the folders of the code, whatever commit they stand in."""
    previous: str | None
    """Newest earlier release that was cut; None for the first."""
    waivers: tuple[Waived, ...]
    gates: tuple[GateResult, ...]

    def part(self, kind: str) -> Part:
        """The part `dataset` or `model`."""
        return self.dataset if kind == DATASET else self.model


class Counterpart(_Record, frozen=True, kw_only=True):
    """The other repository of a release."""

    kind: Literal["dataset", "model"]
    repository: str
    version: str
    content_sha256: str
    """Of its files, as its own `release.json` states it."""


class Yanked(_Record, frozen=True, kw_only=True):
    """`yanked.json` of a frozen folder."""

    schema: Literal["oresmith.yanked/1"] = "oresmith.yanked/1"
    version: str
    reason: str


class PartRelease(_Record, frozen=True, kw_only=True):
    """`release.json` of one part."""

    schema: Literal["oresmith.release-part/1"] = "oresmith.release-part/1"
    kind: Literal["dataset", "model"]
    version: str
    repository: str
    files: tuple[File, ...]
    """All of this repository but this file."""
    content_sha256: str
    """Over `files`."""
    release_sha256: str
    """`Release.content_sha256` of the whole."""
    code_tree: str
    previous: str | None
    waivers: tuple[Waived, ...]
    gates: tuple[GateResult, ...]
    counterpart: Counterpart
    yanked: tuple[Yanked, ...] = ()
    """Releases that were taken back, as `main` names them after a yank; none in what a bundle or a tag holds."""


class PublishedRepository(_Record, frozen=True, kw_only=True):
    """Where one part stands."""

    repository: str
    commit: str
    """Commit that the version's tag names."""
    main: str | None
    """Commit of `main` that holds the same tree."""


class Published(_Record, frozen=True, kw_only=True):
    """`published.json` of a frozen folder."""

    schema: Literal["oresmith.published/1"] = "oresmith.published/1"
    version: str
    endpoint: str
    dataset: PublishedRepository
    model: PublishedRepository
    collection: str | None


Kind = TypeVar("Kind", bound=_Record)


def read_release(path: Path) -> Release:
    """Read `release.json` of a bundle or of a frozen folder.

    Args:
        path: the file, or the folder that holds it.

    Raises:
        OresmithError: missing, damaged, of another schema, a path that leads out of its part, files out of order, or a
            content hash that is not that of the listed files.
    """
    found = read_record(path, Release)
    for part in (found.dataset, found.model):
        _check_files(part.files, path)
    if found.content_sha256 != release_sha256(found.dataset.files, found.model.files):
        raise OresmithError("the content hash is not that of the listed files", where=str(path))
    return found


def read_part(path: Path) -> PartRelease:
    """Read `release.json` of one part.

    Args:
        path: the file, or the folder that holds it.

    Raises:
        OresmithError: as `read_release`.
    """
    found = read_record(path, PartRelease)
    _check_files(found.files, path)
    if found.content_sha256 != content_sha256(found.files):
        raise OresmithError("the content hash is not that of the listed files", where=str(path))
    return found


def read_record(path: Path, kind: type[Kind]) -> Kind:
    """Read one of the records of this module, a folder standing for its `release.json`.

    Raises:
        OresmithError: missing, too large, damaged, or of another schema.
    """
    file = path / RELEASE_FILE if path.is_dir() else path
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise OresmithError("too large for a record of a release", where=str(file))
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise OresmithError(
            "a record of a release cannot be read",
            where=str(file),
            expected=kind.__name__,
            got=str(error)[:300],
            todo="make the bundle (`dvc repro`), or restore the file from version control",
        ) from error


def encode(record: _Record) -> bytes:
    """A record as it stands in its file: indented JSON, the fields in their order."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def content_sha256(files: Iterable[File]) -> str:
    """sha256 over the lines that `sha256sum` prints of the files, sorted by path in bytes; `release.json` left out."""
    lines = sorted((file.path.encode(), file.sha256.encode()) for file in files if file.path != RELEASE_FILE)
    return hashlib.sha256(b"".join(digest + b"  " + path + b"\n" for path, digest in lines)).hexdigest()


def release_sha256(dataset: Iterable[File], model: Iterable[File]) -> str:
    """`content_sha256` over both parts, their paths behind `dataset/` and `model/`."""
    named = [
        msgspec.structs.replace(file, path=f"{kind}/{file.path}")
        for kind, files in ((DATASET, dataset), (MODEL, model))
        for file in files
        if file.path != RELEASE_FILE
    ]
    return content_sha256(named)


def list_files(folder: Path) -> tuple[File, ...]:
    """Every file below a folder with size and sha256, sorted by path.

    Raises:
        OresmithError: a link, something that is no file, or a name that no release has.
    """
    found = []
    for root, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(root, name)
            stated = path.relative_to(folder).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()) or not safe_path(stated):
                raise OresmithError("a release may only hold plain files of plain names", where=repr(str(path))[:300])
            if path.is_file():
                found.append(describe(path, stated))
    return tuple(sorted(found, key=lambda file: file.path.encode()))


def describe(path: Path, stated: str) -> File:
    """The entry of one file."""
    with path.open("rb") as reader:
        digest = hashlib.file_digest(reader, "sha256").hexdigest()
        return File(path=stated, bytes=os.fstat(reader.fileno()).st_size, sha256=digest)


def _check_files(files: tuple[File, ...], where: Path) -> None:
    paths = [file.path for file in files]
    if paths != sorted(set(paths), key=str.encode):
        raise OresmithError("the files are not listed once each, in order", where=str(where))
    for path in paths:
        if not safe_path(path):
            raise OresmithError("a path that no release has", where=str(where), got=repr(path[:200]))
