"""What is looked at before anything is sent: the bundle, the token's rights, names, limits, and what stands there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from oresmith.param_release import VERSION
from oresmith.release.layout import PARTS, RELEASE_FILE, SIGNATURE_FILE, inside
from oresmith.release.manifest import File, PartRelease, Published, Release, describe, read_part
from oresmith.release.publish.publication import Publication, State
from oresmith.release.publish.remote import Look, Remote
from oresmith.release.publish.session import open_api, patiently, status_of
from oresmith.release.publish.target import PublishError, Target
from oresmith.validation.versions import parse_version

MOST_FILES = 25_000
"""Large files of one commit (docstring of `create_commit`)."""
MOST_PLAIN_BYTES = 1_000_000_000
"""Of the files that a commit carries itself, together (same source)."""
MOST_FILE_BYTES = 50_000_000_000
"""Of one file: what the Hub takes without asking."""
YANKED_TAG = "yanked/"
"""Tags `yanked/X.Y.Z` name the commit of `main` that took X.Y.Z back."""
_RESERVED = re.compile(r"(.*/)?\.git(ignore|attributes|modules)?(/.*)?")
_THREADS = 4
_LARGE = 10 * 1024 * 1024


def check_bundle(bundle: Path, release: Release, kind: str) -> tuple[PartRelease, dict[str, File]]:
    """Hold every file of a part against the release's manifest.

    Returns:
        The part's own record, and its files by path.

    Raises:
        PublishError: a file is missing, differs, or is none of the release's; or the Hub would not take it.
    """
    folder, part = bundle / kind, release.part(kind)
    stated = {file.path: file for file in part.files}
    with ThreadPoolExecutor(_THREADS) as pool:
        faults = [fault for fault in pool.map(lambda file: _fault(folder, file), part.files) if fault]
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    faults += [f"{path}: not in the manifest" for path in sorted(present - stated.keys() - {SIGNATURE_FILE})]
    if faults:
        raise PublishError(
            "the bundle is not the release that was cut",
            where=str(folder),
            got="; ".join(faults[:3]),
            todo="make it again from the commit that cut the release (`git checkout`, `dvc repro`)",
        )
    record = read_part(folder)
    if (record.version, record.repository, record.kind) != (release.version, part.repository, kind):
        raise PublishError(f"{RELEASE_FILE} of a part belongs to another release", where=str(folder))
    if SIGNATURE_FILE in present:  # made over the manifest, so the manifest cannot list it
        stated[SIGNATURE_FILE] = describe(folder / SIGNATURE_FILE, SIGNATURE_FILE)
    _check_limits(folder, stated)
    return record, stated


def _fault(folder: Path, file: File) -> str | None:
    path = inside(folder, file.path)
    if path.is_symlink() or not path.is_file():
        return f"{file.path}: missing"
    return None if describe(path, file.path) == file else f"{file.path}: other content"


def _check_limits(folder: Path, files: Mapping[str, File]) -> None:
    reserved = [path for path in files if _RESERVED.fullmatch(path)]
    plain = sum(file.bytes for file in files.values() if file.bytes < _LARGE and not file.path.endswith(".parquet"))
    huge = [file.path for file in files.values() if file.bytes > MOST_FILE_BYTES]
    faults = (
        (bool(reserved), "a name that git or the Hub reads as its own", ", ".join(reserved[:3])),
        (len(files) > MOST_FILES, f"more than {MOST_FILES} files for one commit", str(len(files))),
        (plain > MOST_PLAIN_BYTES, f"more than {MOST_PLAIN_BYTES} bytes in small files", str(plain)),
        (bool(huge), f"a file over {MOST_FILE_BYTES} bytes", ", ".join(huge[:3])),
    )
    for broken, what, got in faults:
        if broken:
            raise PublishError(what, where=str(folder), got=got)


def check_rights(target: Target, remotes: list[Remote]) -> None:
    """Ask the Hub who the token belongs to, and whether it may write both repositories.

    Raises:
        PublishError: no valid token, one that only reads, or a repository of another owner.
    """
    api = open_api(target)
    me = patiently(api.whoami, target.patience, "say whose token this is")
    if me.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise PublishError(
            "the token only reads", where=target.endpoint, expected="a token that may write", todo="set HF_TOKEN"
        )
    owners = {str(me.get("name"))} | {str(org.get("name")) for org in me.get("orgs", [])}
    for remote in remotes:
        owner = remote.name.partition("/")[0]
        if owner not in owners:
            raise PublishError(
                f"the token's owner may not write what belongs to {owner}",
                where=str(remote),
                expected=", ".join(sorted(owners)),
                todo="set release.dataset and release.weights to names of yours, or give another token",
            )


def check_writable(remote: Remote) -> None:
    """Ask the Hub whether the token may write a repository that exists.

    Raises:
        PublishError: it may not.
    """
    remote.ask("let us write", lambda: remote.api.auth_check(remote.name, repo_type=remote.kind, write=True))


def check_place(publication: Publication, earlier: Published | None) -> None:
    """Hold what stands in a repository against the release that is to go there. Nothing is changed.

    Raises:
        PublishError: the version was yanked, is below the newest one, its tag has moved, or the repository holds files
            that no release put there.
    """
    look = publication.seen.look
    if look is None:
        return
    check_writable(publication.remote)
    where, version = str(publication.remote), publication.version
    main = publication.remote.record(look.main)
    named = {one.version: one.reason for one in main.yanked} if main else {}
    if version in named or YANKED_TAG + version in look.tags:
        raise PublishError(
            f"{version} was yanked there",
            where=where,
            got=named.get(version, ""),
            todo=f"oresmith release unyank {version}, or publish a new version",
        )
    for other in named:
        if YANKED_TAG + other not in look.tags:
            raise PublishError(
                f"a yank of {other} was interrupted", where=where, todo=f"finish it: oresmith release yank {other}"
            )
    if publication.seen.state >= State.TAGGED:
        _check_unmoved(publication, earlier)
        return
    newest = max((parse_version(tag) for tag in look.tags if re.fullmatch(VERSION, tag)), default=None)
    if newest is not None and newest > parse_version(version):
        raise PublishError(
            f"{version} is below the newest release there",
            where=where,
            expected=f"a version above {'.'.join(map(str, newest))}",
            todo="raise release.version and cut again",
        )
    if main is None and (foreign := sorted(publication.remote.tree(look.main).keys() - {"README.md"})):
        raise PublishError(
            "the repository holds files that no release put there",
            where=where,
            got=", ".join(foreign[:3]),
            todo="publish into a new repository, or remove them from main first",
        )


def _check_unmoved(publication: Publication, earlier: Published | None) -> None:
    """A tag that stands elsewhere than an earlier run wrote down has moved, if the repository is still the same one."""
    remote, look = publication.remote, publication.seen.look
    if earlier is None or look is None or earlier.endpoint != remote.target.endpoint:
        return
    known = (earlier.dataset if remote.kind == PARTS[0] else earlier.model).commit
    if look.tags[publication.version] == known:
        return
    try:
        remote.api.repo_info(remote.name, repo_type=remote.kind, revision=known)
    except Exception as error:
        if status_of(error) == 404:  # a Hub that was set up anew knows nothing of the old commit
            return
        raise
    raise PublishError(
        f"tag {publication.version} has moved",
        where=str(remote),
        expected=known,
        got=look.tags[publication.version],
        todo="find out who moved it; a version tag names one commit for ever",
    )


def look_of(remote: Remote) -> Look:
    """What stands in a repository that must exist.

    Raises:
        PublishError: it does not.
    """
    look = remote.look()
    if look is None:
        raise PublishError("no such repository, or none that this token sees", where=str(remote))
    return look
