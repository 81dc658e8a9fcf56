"""A commit as its body asks for it: one JSON line for what it says, then one a file."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import IO, Literal

import msgspec

from oresmith.release.hub import names
from oresmith.release.hub.cards import FrontMatterError, front_matter
from oresmith.release.hub.git import Written, pointed, pointer
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.repository import MAX_REGULAR, Repository

_MAX_LINE = MAX_REGULAR * 2


class HeaderValue(msgspec.Struct, rename="camel"):
    """What a commit says."""

    summary: str = ""
    description: str = ""
    parent_commit: str | None = None


class FileValue(msgspec.Struct):
    """A file with its content."""

    path: str
    content: str
    encoding: Literal["base64", "utf-8"] = "utf-8"


class LargeValue(msgspec.Struct):
    """A file whose content has been uploaded."""

    path: str
    oid: str
    algo: Literal["sha256"] = "sha256"
    size: int | None = None


class PathValue(msgspec.Struct):
    """A path."""

    path: str


class Header(msgspec.Struct, tag_field="key", tag="header"):
    """First line."""

    value: HeaderValue


class File(msgspec.Struct, tag_field="key", tag="file"):
    """Put a file."""

    value: FileValue


class Large(msgspec.Struct, tag_field="key", tag="lfsFile"):
    """Put a large file."""

    value: LargeValue


class DeletedFile(msgspec.Struct, tag_field="key", tag="deletedFile"):
    """Remove a file."""

    value: PathValue


class DeletedFolder(msgspec.Struct, tag_field="key", tag="deletedFolder"):
    """Remove a folder."""

    value: PathValue


_LINE: msgspec.json.Decoder[Header | File | Large | DeletedFile | DeletedFolder] = msgspec.json.Decoder(
    Header | File | Large | DeletedFile | DeletedFolder
)


class Order:
    """A commit as its body asks for it, checked; contents stay in the spooled body until git takes them."""

    def __init__(self, repository: Repository, spool: IO[bytes]) -> None:
        self.header = HeaderValue()
        self.removed: list[str] = []
        self.added: dict[str, None] = {}
        self._repository, self._spool = repository, spool
        self._places: list[int] = []
        missing: list[str] = []
        place, headers = 0, 0
        for raw in self._lines():
            line = _decoded(raw)
            match line:
                case Header():
                    self.header, headers = line.value, headers + 1
                case File() | Large():
                    self.added[names.file_path(line.value.path)] = None
                    self._places.append(place)
                    self._check(line, missing)
                case DeletedFile() | DeletedFolder():
                    path = names.file_path(line.value.path.rstrip("/"))
                    self.removed.append(path if isinstance(line, DeletedFile) else f"{path}/")
            place += len(raw)
        if headers != 1:
            raise Refusal(400, "Invalid commit: one header is needed")
        if missing:
            text = "Your push was rejected because an LFS pointer pointed to a file that does not exist. "
            raise Refusal(400, f"{text}Offending file: - {', '.join(missing[:20])}")

    def _lines(self) -> Iterator[bytes]:
        self._spool.seek(0)
        while raw := self._spool.readline(_MAX_LINE):
            if len(raw) == _MAX_LINE and not raw.endswith(b"\n"):
                raise Refusal(413, f"A file of {MAX_REGULAR} bytes or more must be uploaded as a large file")
            if raw.strip():
                yield raw
            else:
                raise Refusal(400, "Invalid commit: an empty line")

    def _check(self, line: File | Large, missing: list[str]) -> None:
        objects = self._repository.objects
        if isinstance(line, Large):
            if objects.size(names.oid(line.value.oid)) is None:
                missing.append(line.value.path)
            return
        data = _content(line.value)
        if (target := pointed(data)) and objects.size(target[0]) != target[1]:
            missing.append(line.value.path)
        if line.value.path == "README.md":
            try:
                front_matter(data.decode("utf-8", "replace"))
            except FrontMatterError as error:
                raise Refusal(400, f"Invalid metadata in README.md: {error}") from None

    def writes(self) -> Iterator[Written]:
        """The files, one at a time."""
        for place in self._places:
            self._spool.seek(place)
            line = _decoded(self._spool.readline(_MAX_LINE))
            if isinstance(line, File):
                yield Written(line.value.path, _content(line.value))
            elif isinstance(line, Large):
                size = self._repository.objects.size(line.value.oid)
                assert size is not None, "objects are never removed while their repository is there"
                yield Written(line.value.path, pointer(line.value.oid, size))


def _decoded(raw: bytes) -> Header | File | Large | DeletedFile | DeletedFolder:
    try:
        return _LINE.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refusal(400, f"Invalid commit: {error}") from None


def _content(file: FileValue) -> bytes:
    try:
        data = base64.b64decode(file.content, validate=True) if file.encoding == "base64" else file.content.encode()
    except (binascii.Error, ValueError):
        raise Refusal(400, "Invalid commit: content that is not in its encoding") from None
    if len(data) >= MAX_REGULAR:
        raise Refusal(413, f"A file of {MAX_REGULAR} bytes or more must be uploaded as a large file")
    return data
