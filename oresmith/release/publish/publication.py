"""One part of a release on its way into one repository: seven states, each told by what the Hub shows.

    ABSENT -> EMPTY -> OPEN -> STAGED -> TAGGED -> PROMOTED -> PUBLISHED

Nothing is remembered from run to run: a publication looks, takes the one step that leads on, and looks again. A lost
answer, a conflict and a rerun after a crash are therefore the same case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

from oresmith.release.layout import RELEASE_FILE
from oresmith.release.manifest import File, PartRelease
from oresmith.release.publish.remote import Look, Remote, Tree, same_content
from oresmith.release.publish.session import ending_xet, fitting_transport, passes, refusal, rest
from oresmith.release.publish.target import PublishError
from oresmith.release.publish.tombstone import CARD
from oresmith.validation.versions import parse_version

Tell = Callable[[str], None]
_MOST_STEPS = 30


class State(IntEnum):
    """Where a release stands in one repository."""

    ABSENT = 0
    """No such repository, or none that the token may see."""
    EMPTY = 1
    """A repository, without a tag or a staging branch of this version."""
    OPEN = 2
    """A staging branch that starts where `main` stood."""
    STAGED = 3
    """The staging branch's head is the release, file by file."""
    TAGGED = 4
    """The version's tag names the release; `main` does not hold it. Whether it loads is not known yet."""
    PROMOTED = 5
    """`main` holds it, or a newer one; the staging branch is still there."""
    PUBLISHED = 6
    """As PROMOTED, without the staging branch."""


@dataclass(frozen=True)
class Seen:
    """What the Hub shows of a repository, read as a state of this release."""

    state: State
    look: Look | None = None
    superseded: bool = False
    """`main` holds a newer release, which stays there."""


@dataclass
class Publication:
    """One part of a release, the repository it goes to, and what was last seen there."""

    remote: Remote
    folder: Path
    """The part's folder of the bundle."""
    record: PartRelease
    files: Mapping[str, File]
    """Every file of the folder by path, `release.json` included; they are as the manifest says."""
    tell: Tell
    dry_run: bool = False
    seen: Seen = field(default_factory=lambda: Seen(State.ABSENT))

    @property
    def version(self) -> str:
        """The version, which is the tag's name."""
        return self.record.version

    @property
    def staging(self) -> str:
        """Name of the staging branch."""
        return f"staging/{self.version}"

    def observe(self) -> Seen:
        """Look at the Hub.

        Raises:
            PublishError: the tag or the staging branch holds another content under this version.
        """
        look = self.remote.look()
        if look is None:
            self.seen = Seen(State.ABSENT)
        elif self.version in look.tags:
            self.seen = self._tagged(look, look.tags[self.version])
        elif self.staging in look.branches:
            self.seen = self._staged(look, look.branches[self.staging])
        else:
            self.seen = Seen(State.EMPTY, look)
        return self.seen

    def _tagged(self, look: Look, tag: str) -> Seen:
        put, drop = self.difference(tag)
        if put or drop:
            raise PublishError(
                f"tag {self.version} exists with other content, and a tag never moves",
                where=str(self.remote),
                got=_some([*put, *drop]),
                todo="release what has changed under a new version",
            )
        held, superseded = self._held(look.main)
        if not held:
            return Seen(State.TAGGED, look)
        return Seen(State.PROMOTED if self.staging in look.branches else State.PUBLISHED, look, superseded)

    def _held(self, main: str) -> tuple[bool, bool]:
        """Whether `main` holds this release (a tombstone of another one on it or not), or else a newer one."""
        put, drop = self.difference(main)
        if not put and not drop:
            return True, False
        record = self.remote.record(main)
        if record is None:
            return False, False
        if record.version == self.version and record.yanked:
            return {*put, *drop} <= {CARD, RELEASE_FILE}, False
        newer = parse_version(record.version) > parse_version(self.version)
        return newer, newer

    def _staged(self, look: Look, head: str) -> Seen:
        if self.difference(head) == ([], []):
            return Seen(State.STAGED, look)
        record = self.remote.record(head)
        if record is not None and record.version == self.version:
            raise PublishError(
                f"branch {self.staging} holds another release of this version",
                where=str(self.remote),
                expected="one publisher for a version, and one bundle",
                todo=f"if nobody else publishes it, delete the branch {self.staging} there and publish again",
            )
        return Seen(State.OPEN, look)

    def difference(self, commit: str) -> tuple[list[str], list[str]]:
        """Paths that a commit lacks or holds with other content, and paths that the release does not have; sorted."""
        return self.against(self.remote.tree(commit))

    def against(self, tree: Tree) -> tuple[list[str], list[str]]:
        """As `difference`, for any tree."""
        put = [
            path
            for path, file in self.files.items()
            if not same_content(tree.get(path), file.bytes, file.sha256, (self.folder / path).read_bytes)
        ]
        return sorted(put), sorted(path for path in tree if path not in self.files)

    def advance(self, goal: State) -> None:
        """Take step after step until the state is reached; in a dry run, name them.

        Raises:
            PublishError: refused, or given up after bounded tries.
        """
        for _ in range(_MOST_STEPS):
            if self.seen.state >= goal:
                return
            step = STEPS[self.seen.state]
            self.tell(step.say(self))
            if self.dry_run:
                self.seen = replace(self.seen, state=State(self.seen.state + 1))
            else:
                self._take(step)
        raise PublishError("others keep undoing this publication", where=str(self.remote))

    def _take(self, step: Step) -> None:
        before, patience = self.seen.state, self.remote.target.patience
        fault: Exception | None = None
        for attempt in range(patience.tries):
            if attempt:
                rest(patience, attempt - 1, fault)
            try:
                step.do(self)
            except PublishError:
                raise
            except Exception as error:
                if not passes(error) and not _may_be_done(error):
                    raise refusal(error, f"{step.name} ({self.remote})") from error
                fault = error
            if self.observe().state > before:
                return
        if fault is not None:
            raise refusal(fault, f"{step.name} ({self.remote})") from fault
        raise PublishError(f"the Hub took the request to {step.name}, and shows nothing of it", where=str(self.remote))


@dataclass(frozen=True)
class Step:
    """What leads from one state to the next."""

    name: str
    say: Callable[[Publication], str]
    do: Callable[[Publication], None]


def _create(publication: Publication) -> None:
    remote = publication.remote
    remote.api.create_repo(remote.name, repo_type=remote.kind, private=True)


def _branch(publication: Publication) -> None:
    remote, look = publication.remote, _look(publication)
    remote.api.create_branch(remote.name, branch=publication.staging, revision=look.main, repo_type=remote.kind)


def _commit(publication: Publication) -> None:
    head = _look(publication).branches[publication.staging]
    put, drop = publication.difference(head)
    with fitting_transport(publication.remote.target, publication.remote.kind, publication.remote.name) as transport:
        operations = [_add(publication, path, hashed=transport == "lfs") for path in put] + _deletions(drop)
        size = sum(publication.files[path].bytes for path in put)
        limit = publication.remote.target.patience.transfer(size)
        with ending_xet(limit) if transport == "xet" else nullcontext():
            publication.remote.commit(publication.staging, operations, f"Release {publication.version}", head)


def _tag(publication: Publication) -> None:
    remote, head = publication.remote, _look(publication).branches[publication.staging]
    remote.api.create_tag(remote.name, tag=publication.version, revision=head, repo_type=remote.kind)


def _promote(publication: Publication) -> None:
    """The tree of the tag as one commit on `main`: large files are named, not sent again."""
    from huggingface_hub import CommitOperationCopy

    look = _look(publication)
    tag = look.tags[publication.version]
    held = publication.remote.tree(tag)
    put, drop = publication.difference(look.main)
    operations = [
        CommitOperationCopy(path, path, src_revision=tag)
        if held[path].sha256 is not None
        else _add(publication, path, hashed=True)
        for path in put
    ]
    message = f"Release {publication.version}"
    publication.remote.commit("main", operations + _deletions(drop), message, look.main)


def _clean(publication: Publication) -> None:
    remote = publication.remote
    remote.api.delete_branch(remote.name, branch=publication.staging, repo_type=remote.kind)


def _look(publication: Publication) -> Look:
    assert publication.seen.look is not None
    return publication.seen.look


def _add(publication: Publication, path: str, *, hashed: bool) -> Any:
    """A file to send. Xet hashes it while it reads; for LFS the hash that was just checked is given."""
    from huggingface_hub import CommitOperationAdd

    operation = CommitOperationAdd(path, publication.folder / path)
    if hashed:
        operation.upload_info.sha256 = bytes.fromhex(publication.files[path].sha256)
    return operation


def _deletions(paths: Sequence[str]) -> list[Any]:
    from huggingface_hub import CommitOperationDelete

    return [CommitOperationDelete(path, is_folder=False) for path in paths]


def _may_be_done(error: Exception) -> bool:
    """A branch or a repository that went away under our hands: somebody with the same release was faster."""
    from huggingface_hub.errors import RevisionNotFoundError

    return isinstance(error, RevisionNotFoundError)


def _said_commit(publication: Publication) -> str:
    look = publication.seen.look
    tree = publication.remote.tree(look.branches.get(publication.staging, look.main)) if look else {}
    put, drop = publication.against(tree)
    size = sum(publication.files[path].bytes for path in put)
    gone = f", remove {len(drop)} ({_some(drop)})" if drop else ""
    kept = len(publication.files) - len(put)
    return f"{publication.remote}: on {publication.staging} commit {len(put)} files, {size} bytes, keep {kept}{gone}"


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


STEPS = {
    State.ABSENT: Step("create the repository", lambda p: f"{p.remote}: create it, private", _create),
    State.EMPTY: Step("create a branch", lambda p: f"{p.remote}: create branch {p.staging}", _branch),
    State.OPEN: Step("commit", _said_commit, _commit),
    State.STAGED: Step("tag", lambda p: f"{p.remote}: tag that commit {p.version}", _tag),
    State.TAGGED: Step("commit on main", lambda p: f"{p.remote}: commit the same tree on main", _promote),
    State.PROMOTED: Step("delete a branch", lambda p: f"{p.remote}: delete branch {p.staging}", _clean),
}
"""The step that leads on from each state."""
