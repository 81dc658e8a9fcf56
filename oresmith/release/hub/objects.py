"""The large files of one repository: each under its sha256, put there by a rename once it is whole and right."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from pathlib import Path

from oresmith.release.hub.refusal import Refusal

PIECE = 1 << 20
"""Bytes that are read, hashed and written at a time."""
Reader = Callable[[memoryview], int | None]
"""Fills a buffer as `io.RawIOBase.readinto` does; 0 is the end."""


class Objects:
    """Large files by sha256.

    Args:
        folder: of the repository; made when the first one comes.
        incoming: where files lie while they come; on the same file system.
    """

    def __init__(self, folder: Path, incoming: Path) -> None:
        self.folder, self.incoming = folder, incoming

    def path(self, oid: str) -> Path:
        """Where a file lies, if it is there; `oid` must be a checked one."""
        return self.folder / oid[:2] / oid

    def size(self, oid: str) -> int | None:
        """Bytes of a file; None where it is not there."""
        try:
            return self.path(oid).stat().st_size
        except FileNotFoundError:
            return None

    def receive(self, read: Reader, oid: str, size: int) -> None:
        """Take a whole file.

        Raises:
            Refusal: 400, it is another one, or of another size.
        """
        self.incoming.mkdir(parents=True, exist_ok=True)
        coming = self.incoming / secrets.token_hex(12)
        try:
            digest, came = _store(read, coming, size)
            if (digest, came) != (oid, size):
                raise Refusal(400, "BadDigest: what came has not the sha256 or size that was announced")
            self._put(coming, oid)
        finally:
            coming.unlink(missing_ok=True)

    def receive_part(self, read: Reader, upload: str, number: int, size: int) -> str:
        """Take one part of a file; gives its sha256.

        Args:
            read: gives the bytes.
            upload: names the upload; hexadecimal digits of ours.
            number: of the part, from 1.
            size: bytes that it must have.

        Raises:
            Refusal: 400, it has another size.
        """
        folder = self._parts(upload)
        folder.mkdir(parents=True, exist_ok=True)
        coming = folder / f".{number}.{secrets.token_hex(6)}"
        try:
            digest, came = _store(read, coming, size)
            if came != size:
                raise Refusal(400, "IncompleteBody: the part is shorter than announced")
            coming.rename(folder / str(number))
        finally:
            coming.unlink(missing_ok=True)
        return digest

    def join(self, upload: str, parts: int, oid: str, size: int) -> None:
        """Make a file of its parts, and take it as `receive` does.

        Raises:
            Refusal: 400, a part is missing, or the whole is another one.
        """
        if self.size(oid) == size:
            return  # the answer to an earlier call was lost
        folder = self._parts(upload)
        digest, whole = hashlib.sha256(), folder / ".whole"
        try:
            with whole.open("wb") as target:
                for number in range(1, parts + 1):
                    with (folder / str(number)).open("rb") as part:
                        while piece := part.read(PIECE):
                            digest.update(piece)
                            target.write(piece)
            if digest.hexdigest() != oid or whole.stat().st_size != size:
                raise Refusal(400, "BadDigest: the parts do not make the file that was announced")
            self._put(whole, oid)
        except FileNotFoundError:
            raise Refusal(400, "InvalidPart: a part has not been uploaded") from None
        finally:
            whole.unlink(missing_ok=True)
        for number in range(1, parts + 1):
            (folder / str(number)).unlink(missing_ok=True)

    def _parts(self, upload: str) -> Path:
        return self.incoming / f"parts-{upload}"

    def _put(self, whole: Path, oid: str) -> None:
        target = self.path(oid)
        target.parent.mkdir(parents=True, exist_ok=True)
        whole.replace(target)


def _store(read: Reader, target: Path, size: int) -> tuple[str, int]:
    """Write what comes, at most `size` bytes, and hash it on the way; gives sha256 and bytes."""
    digest, came, buffer = hashlib.sha256(), 0, memoryview(bytearray(min(PIECE, size) or 1))
    with target.open("xb", buffering=0) as file:
        while came < size and (count := read(buffer[: size - came])):
            piece = buffer[:count]
            digest.update(piece)
            while piece:
                piece = piece[file.write(piece) :]
            came += count
    return digest.hexdigest(), came
