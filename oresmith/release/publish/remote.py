"""One repository as the Hub shows it: its branches, tags, and the trees of its commits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from oresmith.release.layout import RELEASE_FILE
from oresmith.release.manifest import PartRelease
from oresmith.release.publish.session import fetch, open_api, patiently
from oresmith.release.publish.target import PublishError, Target

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Answer = TypeVar("Answer")
Kind = Literal["dataset", "model"]
ATTRIBUTES = ".gitattributes"
"""The one file that a Hub puts into a repository by itself; no release holds it."""
_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Blob:
    """A file in a tree of the Hub."""

    size: int
    sha256: str | None
    """Where the Hub keeps it as a large file."""
    git_oid: str
    """Git's hash of it, or of its pointer."""


Tree = Mapping[str, Blob]


@dataclass(frozen=True)
class Look:
    """What can be seen of a repository now."""

    branches: Mapping[str, str]
    tags: Mapping[str, str]
    """Name to commit, as for `branches`."""

    @property
    def main(self) -> str:
        """Commit of `main`."""
        return self.branches["main"]


@dataclass
class Remote:
    """A repository of a Hub."""

    target: Target
    kind: Kind
    name: str
    _trees: dict[str, Tree] = field(default_factory=dict)
    _records: dict[str, PartRelease | None] = field(default_factory=dict)

    @property
    def api(self) -> HfApi:
        """The Hub's API."""
        return open_api(self.target)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def ask(self, what: str, work: Callable[[], Answer]) -> Answer:
        """A request that may be repeated."""
        return patiently(work, self.target.patience, f"{what} ({self})")

    def look(self) -> Look | None:
        """What stands there now; None where there is no such repository, or none that this token may see."""
        from huggingface_hub.errors import RepositoryNotFoundError

        try:
            refs = self.ask("list branches and tags", lambda: self.api.list_repo_refs(self.name, repo_type=self.kind))
        except PublishError as error:
            if isinstance(error.__cause__, RepositoryNotFoundError):
                return None
            raise
        branches = {ref.name: ref.target_commit for ref in refs.branches}
        if "main" not in branches:
            raise PublishError("a repository without a branch main", where=str(self))
        return Look(branches, {ref.name: ref.target_commit for ref in refs.tags})

    def private(self) -> bool:
        """Whether strangers see nothing of it."""
        return bool(self.ask("show a repository", lambda: self.api.repo_info(self.name, repo_type=self.kind)).private)

    def tree(self, commit: str) -> Tree:
        """Every file of a commit, `.gitattributes` left out."""
        if commit not in self._trees:
            self._trees[commit] = self.ask("list a tree", lambda: self._tree(commit))
        return self._trees[commit]

    def _tree(self, commit: str) -> Tree:
        from huggingface_hub.hf_api import RepoFile

        found = self.api.list_repo_tree(self.name, recursive=True, revision=commit, repo_type=self.kind)
        return {
            entry.path: Blob(entry.size, entry.lfs.sha256 if entry.lfs else None, entry.blob_id)
            for entry in found
            if isinstance(entry, RepoFile) and entry.path != ATTRIBUTES
        }

    def record(self, commit: str) -> PartRelease | None:
        """The `release.json` of a commit; None where there is none, or none of ours."""
        if commit not in self._records:
            self._records[commit] = self._record(commit)
        return self._records[commit]

    def _record(self, commit: str) -> PartRelease | None:
        blob = self.tree(commit).get(RELEASE_FILE)
        if blob is None or blob.size > _MOST_BYTES:
            return None
        try:
            return msgspec.json.decode(self.read(commit, RELEASE_FILE), type=PartRelease)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def read(self, commit: str, path: str) -> bytes:
        """The bytes of a small file of a commit."""
        from huggingface_hub import hf_hub_url

        url = hf_hub_url(self.name, path, repo_type=self.kind, revision=commit, endpoint=self.target.endpoint)
        return self.ask(f"send {path}", lambda: fetch(url, self.target))

    def commit(self, branch: str, operations: Sequence[Any], message: str, parent: str) -> None:
        """One commit on a branch whose head must be `parent`; not repeated here."""
        self.api.create_commit(
            self.name, operations, commit_message=message, repo_type=self.kind, revision=branch, parent_commit=parent
        )


def same_content(blob: Blob | None, size: int, sha256: str, read: Callable[[], bytes]) -> bool:
    """Whether a file of the Hub has a content, by its hash.

    Args:
        blob: as the Hub shows it; None is never the same.
        size: of the content, in bytes.
        sha256: of the content.
        read: gives the content, for a file that the Hub keeps in git, which names it by another hash.
    """
    if blob is None or blob.size != size:
        return False
    if blob.sha256 is not None:
        return blob.sha256 == sha256
    return blob.git_oid == hashlib.sha1(b"blob %d\0" % size + read(), usedforsecurity=False).hexdigest()
