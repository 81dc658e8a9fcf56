"""The folder of a Hub: its repositories and collections. One server has it at a time."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from oresmith.errors import OresmithError
from oresmith.release.hub import names
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.repository import Repository, Settings

MARK = "oresmith.hub/1"
_LOCK_S = 5.0


class Item(msgspec.Struct, rename={"uid": "_id"}):
    """A member of a collection."""

    uid: str
    id: str
    type: names.Kind
    position: int
    note: dict[str, str] | None = None


class Collection(msgspec.Struct, rename="camel"):
    """Repositories that belong together."""

    slug: str
    title: str
    owner: dict[str, str]
    items: list[Item]
    last_updated: str
    description: str | None = None
    private: bool = False
    position: int = 0
    theme: Literal["orange", "blue", "green", "purple", "pink", "indigo"] = "orange"
    upvotes: int = 0


def stamp(seconds: float | None = None) -> str:
    """A time (now where none is given) in the one form that the clients parse."""
    return datetime.fromtimestamp(time.time() if seconds is None else seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Store:
    """What a Hub holds; `opened` gives one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._making = root / "making"
        self._lock = threading.RLock()
        self._open: dict[Path, Repository] = {}

    def repository(self, kind: names.Kind, owner: str, name: str) -> Repository | None:
        """A repository; None where it is not there.

        Raises:
            Refusal: 400, a name that none can have.
        """
        folder = self._folder(kind, owner, name)
        with self._lock:
            if folder not in self._open:
                if not folder.is_dir():
                    return None
                self._open[folder] = Repository(kind, owner, name, folder)
            return self._open[folder]

    def repositories(self) -> list[Repository]:
        """All of them, by kind and id."""
        found = []
        for folder in sorted((self.root / "repositories").glob("*/*/*/settings.json")):
            plural, owner, name = folder.parts[-4:-1]
            repository = self.repository(names.kind_of(plural), owner, name)
            if repository is not None:
                found.append(repository)
        return found

    def create(self, kind: names.Kind, owner: str, name: str, *, private: bool, user: str) -> Repository:
        """Make a repository: it is there with its first commit, or not at all.

        Raises:
            Refusal: 400 for a bad name, 409 where it exists.
        """
        folder = self._folder(kind, owner, name)
        making = self._making / secrets.token_hex(12)
        with self._lock:
            if folder.exists():
                address = f"/{owner}/{name}" if kind == "model" else f"/{kind}s/{owner}/{name}"
                raise Refusal(409, f"You already created this {kind} repo", url=address, id=f"{owner}/{name}")
            making.mkdir(parents=True)
            Repository.create(making, Settings(secrets.token_hex(12), private, stamp()), user)
            folder.parent.mkdir(parents=True, exist_ok=True)
            making.rename(folder)
            made = self._open[folder] = Repository(kind, owner, name, folder)
        return made

    def delete(self, repository: Repository) -> None:
        """Take a repository away with all it holds; collections forget it."""
        with self._lock:
            self._open.pop(repository.folder, None)
            away = self._making / secrets.token_hex(12)
            away.parent.mkdir(exist_ok=True)
            repository.folder.rename(away)
            for collection in self.collections():
                rest = [item for item in collection.items if (item.type, item.id) != (repository.kind, repository.id)]
                if rest != collection.items:
                    collection.items = rest
                    self.save(collection)
        shutil.rmtree(away, ignore_errors=True)

    def collections(self) -> list[Collection]:
        """All of them, by slug."""
        files = (self.root / "collections").glob("*.json")
        found = [msgspec.json.decode(file.read_bytes(), type=Collection) for file in files]
        return sorted(found, key=lambda collection: collection.slug)

    def collection(self, slug: str) -> Collection | None:
        """A collection; None where it is not there."""
        with suppress(FileNotFoundError):
            return msgspec.json.decode(self._collection_file(slug).read_bytes(), type=Collection)
        return None

    def save(self, collection: Collection) -> None:
        """Keep a collection as it is now."""
        collection.last_updated = stamp()
        for position, item in enumerate(collection.items):
            item.position = position
        file = self._collection_file(collection.slug)
        file.parent.mkdir(exist_ok=True)
        new = file.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(collection))
        new.replace(file)

    def forget(self, collection: Collection) -> None:
        """Take a collection away; its members stay."""
        self._collection_file(collection.slug).unlink(missing_ok=True)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold while a collection is read, changed and saved."""
        with self._lock:
            yield

    def _folder(self, kind: names.Kind, owner: str, name: str) -> Path:
        names.repository(owner, name)
        return self.root / "repositories" / f"{kind}s" / owner / name

    def _collection_file(self, slug: str) -> Path:
        # a slug comes from a request: only its hash is a file name
        return self.root / "collections" / f"{hashlib.sha256(slug.encode('utf-8', 'replace')).hexdigest()}.json"


def slug_of(owner: str, title: str) -> str:
    """The slug of a collection: readable, and the same for the same title."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]
    digest = hashlib.sha256(f"{owner}/{title}".encode("utf-8", "replace")).hexdigest()[:24]
    return f"{owner}/{words}-{digest}" if words else f"{owner}/{digest}"


@contextmanager
def opened(root: Path) -> Iterator[Store]:
    """The store in a folder, alone, for as long as the context lasts; made when absent.

    Raises:
        OresmithError: the folder is something else's, cannot be written, or another server has it.
    """
    with _locked(root):
        yield Store(root)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the folder, marked and cleared."""
    mark = root / "hub.json"
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not mark.exists() and any(path.name != ".lock" for path in root.iterdir()):
            todo = "name an empty or a new folder"
            raise OresmithError("the folder holds something that is no Hub", where=root.as_posix(), todo=todo)
        lock = os.open(root / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(root, error) from None
    try:
        _take(lock, root)
        try:
            if not mark.exists():
                mark.write_text(f'{{"schema": "{MARK}"}}\n')
            elif MARK not in mark.read_text():
                raise OresmithError("another version made this Hub", where=mark.as_posix(), expected=MARK)
            _clear(root)
        except OSError as error:
            raise _unusable(root, error) from None
        yield
    finally:
        os.close(lock)


def _unusable(root: Path, error: OSError) -> OresmithError:
    return OresmithError("the Hub's folder cannot be used", where=root.as_posix(), got=str(error.strerror))


def _take(lock: int, root: Path) -> None:
    """Lock the folder; a server that was killed just now gets a moment to be gone."""
    end = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                todo = "name the one that runs as the endpoint, or stop it"
                raise OresmithError("another Hub serves this folder", where=root.as_posix(), todo=todo) from None
            time.sleep(0.05)
        else:
            return


def _clear(root: Path) -> None:
    """Remove what a killed server was in the middle of: none of it was ever seen."""
    shutil.rmtree(root / "making", ignore_errors=True)
    for incoming in (root / "repositories").glob("*/*/*/incoming"):
        shutil.rmtree(incoming, ignore_errors=True)
    for pattern in ("refs/**/*.lock", "*.lock", "objects/pack/tmp_*"):
        for left in (root / "repositories").glob(f"*/*/*/git/{pattern}"):
            left.unlink(missing_ok=True)  # of a git that was killed: a lock would refuse every later change
