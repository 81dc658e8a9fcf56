"""`yank` and `unyank` on a Hub: `main` goes back to the newest release that stands, and says what was taken back.

Told by the Hub, per repository: *standing* (no tombstone of the version on `main`, no tag `yanked/X.Y.Z`), *buried*
(`main` names it) and *yanked* (the tag names that commit). The tag outlives later releases, and nothing is deleted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec

from oresmith.param_release import VERSION
from oresmith.release.layout import PARTS, RELEASE_FILE
from oresmith.release.manifest import PartRelease, Release, Yanked, encode
from oresmith.release.publish.preflight import YANKED_TAG, check_rights, check_writable, look_of
from oresmith.release.publish.publication import Tell
from oresmith.release.publish.remote import Blob, Kind, Look, Remote, same_content
from oresmith.release.publish.session import passes, patient_requests, refusal, rest
from oresmith.release.publish.target import PublishError, Target
from oresmith.release.publish.tombstone import CARD, bury
from oresmith.validation.versions import parse_version


@dataclass(frozen=True)
class Main:
    """What `main` of a repository shall hold."""

    base: str | None
    """Commit of the release whose tree it is; None where none stands."""
    written: Mapping[str, bytes]
    """Files that differ from that tree: the card and `release.json`, with tombstones."""
    message: str


def yank(release: Release, reason: str, target: Target, *, dry_run: bool = False, tell: Tell = print) -> None:
    """Take a release off `main` of both repositories; its tag stays and loads.

    `main` gets one commit: the tree of the newest release that is not yanked, with a tombstone on its card and in its
    `release.json` (`PartRelease.yanked`). The tag `yanked/X.Y.Z` names that commit for good.

    Args:
        release: the one that is yanked (version and repositories).
        reason: one line, shown on the card and by `verify`.
        target: the Hub and the token.
        dry_run: name every operation and do none.
        tell: takes one line for each operation.

    Raises:
        PublishError: the version is not there, is yanked for another reason, or the Hub refuses.
    """
    if not reason.strip() or not reason.isprintable():
        raise PublishError("a reason is one line of text", where="--reason", got=repr(reason[:80]))
    with patient_requests(target):
        for remote in _remotes(release, target):
            _yank(remote, Yanked(version=release.version, reason=reason), dry_run, tell)


def unyank(release: Release, target: Target, *, dry_run: bool = False, tell: Tell = print) -> None:
    """The inverse of `yank`: `main` holds the newest release that stands, this one counted; the tombstone's tag goes.

    Raises:
        PublishError: as `yank`.
    """
    with patient_requests(target):
        for remote in _remotes(release, target):
            _unyank(remote, release.version, dry_run, tell)


def _remotes(release: Release, target: Target) -> list[Remote]:
    remotes = [Remote(target, cast(Kind, kind), release.part(kind).repository) for kind in PARTS]
    check_rights(target, remotes)
    for remote in remotes:
        if release.version not in look_of(remote).tags:
            raise PublishError(f"{release.version} is not published there", where=str(remote))
        check_writable(remote)
    return remotes


def _yank(remote: Remote, one: Yanked, dry_run: bool, tell: Tell) -> None:
    tag, look = YANKED_TAG + one.version, look_of(remote)
    if tag in look.tags:
        reason = _named(remote, look.tags[tag]).get(one.version)
        if reason != one.reason:
            raise PublishError(
                f"{one.version} is yanked already",
                where=str(remote),
                got=reason or "",
                todo=f"oresmith release unyank {one.version}, then yank it for another reason",
            )
        main = remote.record(look.main)
        if main is None or main.version != one.version or main.yanked:
            return  # else an unyank was interrupted, and `main` holds it again
    change = _Change(remote, f"Yank {one.version}", lambda named: {**named, one.version: one}, one.version)
    change.settle_main(dry_run, tell)
    if tag in look.tags:
        return
    tell(f"{remote}: tag that commit {tag}")

    def make_tag(look: Look) -> None:
        if one.version not in _named(remote, look.main):
            raise PublishError("main has moved meanwhile", where=str(remote), todo="run it again")
        remote.api.create_tag(remote.name, tag=tag, revision=look.main, repo_type=remote.kind)

    if not dry_run:
        _until(remote, "tag", make_tag, lambda look: tag in look.tags)


def _named(remote: Remote, commit: str) -> dict[str, str]:
    """Yanked versions that a commit names, with the reasons."""
    record = remote.record(commit)
    return {one.version: one.reason for one in record.yanked} if record else {}


def _unyank(remote: Remote, version: str, dry_run: bool, tell: Tell) -> None:
    tag = YANKED_TAG + version
    change = _Change(
        remote, f"Unyank {version}", lambda named: {key: one for key, one in named.items() if key != version}, version
    )
    change.settle_main(dry_run, tell)
    if tag in look_of(remote).tags:
        tell(f"{remote}: delete tag {tag}")
        if not dry_run:
            _until(
                remote,
                "delete a tag",
                lambda _: remote.api.delete_tag(remote.name, tag=tag, repo_type=remote.kind),
                lambda look: tag not in look.tags,
            )


@dataclass(frozen=True)
class _Change:
    """A change of what `main` names as yanked."""

    remote: Remote
    title: str
    names: Callable[[Mapping[str, Yanked]], Mapping[str, Yanked]]
    """From what `main` names to what it shall name."""
    version: str

    def wanted(self, look: Look) -> Main:
        """What `main` shall hold, from what the repository shows."""
        record = self.remote.record(look.main)
        named = self.names({one.version: one for one in record.yanked} if record else {})
        taken = {tag.removeprefix(YANKED_TAG) for tag in look.tags if tag.startswith(YANKED_TAG)}
        if self.version not in named:
            taken.discard(self.version)
        standing = [tag for tag in look.tags if re.fullmatch(VERSION, tag) and tag not in taken | named.keys()]
        tombs = tuple(sorted(named.values(), key=lambda one: parse_version(one.version)))
        newest = max(standing, key=parse_version, default=None)
        source = look.tags[newest or self.version]
        stands = self.remote.record(source)
        if stands is None:
            raise PublishError(f"a release without {RELEASE_FILE}", where=str(self.remote), got=newest or self.version)
        written = _written(self.remote, source, stands, tombs, newest is not None)
        back = f", back to {newest}" if newest else ", nothing is left"
        return Main(source if newest else None, written, self.title + back)

    def settle_main(self, dry_run: bool, tell: Tell) -> None:
        """One commit on `main`, where it does not hold that already."""
        look = look_of(self.remote)
        wanted = self.wanted(look)
        if not _operations(self.remote, look, wanted):
            return
        tell(f"{self.remote}: commit on main: {wanted.message}")
        if dry_run:
            return

        def commit(look: Look) -> None:
            wanted = self.wanted(look)
            self.remote.commit("main", _operations(self.remote, look, wanted), wanted.message, look.main)

        _until(
            self.remote,
            "commit on main",
            commit,
            lambda look: not _operations(self.remote, look, self.wanted(look)),
        )


def _written(
    remote: Remote, source: str, stands: PartRelease, tombs: tuple[Yanked, ...], whole: bool
) -> dict[str, bytes]:
    if not tombs:
        return {}
    title = f"# {remote.name.partition('/')[2]}\n".encode()
    card = remote.read(source, CARD) if whole and CARD in remote.tree(source) else title
    return {CARD: bury(card, tombs), RELEASE_FILE: encode(msgspec.structs.replace(stands, yanked=tombs))}


def _operations(remote: Remote, look: Look, wanted: Main) -> list[Any]:
    """What makes `main` what it shall be; large files are named, not sent again."""
    from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete

    have = remote.tree(look.main)
    base: Mapping[str, Blob] = remote.tree(wanted.base) if wanted.base else {}
    same = {path: blob for path, blob in base.items() if path not in wanted.written}
    found: list[Any] = [
        CommitOperationAdd(path, content)
        for path, content in sorted(wanted.written.items())
        if not same_content(have.get(path), len(content), hashlib.sha256(content).hexdigest(), partial(bytes, content))
    ]
    found += [
        CommitOperationCopy(path, path, src_revision=wanted.base)
        for path, blob in sorted(same.items())
        if have.get(path) != blob
    ]
    gone = sorted(have.keys() - same.keys() - wanted.written.keys())
    return found + [CommitOperationDelete(path, is_folder=False) for path in gone]


def _until(remote: Remote, name: str, do: Callable[[Look], Any], done: Callable[[Look], bool]) -> None:
    """Act and look, a bounded number of times, until the Hub shows it."""
    patience, fault = remote.target.patience, None
    for attempt in range(patience.tries):
        if attempt:
            rest(patience, attempt - 1, fault)
        look = look_of(remote)
        if done(look):
            return
        try:
            do(look)
        except PublishError:
            raise
        except Exception as error:
            if not passes(error):
                raise refusal(error, f"{name} ({remote})") from error
            fault = error
    if done(look_of(remote)):
        return
    raise refusal(fault or PublishError("nothing of it is shown"), f"{name} ({remote})")
