"""Fetching one tagged revision of a repository: every name is checked before a file of that name is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from oresmith.errors import OresmithError
from oresmith.release.layout import DATASET, MODEL, RELEASE_FILE, safe_path
from oresmith.release.publish.session import patient_requests, patiently
from oresmith.release.publish.target import Patience, Target, read_token

MOST_FILES, MOST_BYTES = 100_000, 2 * 10**12
"""Of a repository that is fetched."""
MOST_RECORD = 64 * 1024 * 1024
"""Bytes of a `release.json` that is looked at before the files are fetched."""
Answer = TypeVar("Answer")
PATIENCE = Patience(timeout=60.0, tries=5)
YANKED_TAG = "yanked/"
"""Before a version: the tag of the commit that took it off `main`."""
_BLOCK = 1 << 20
_NAMED = re.compile(
    r"(?:(?P<type>datasets|models)/)?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95})"
    r"@(?P<tag>[A-Za-z0-9][A-Za-z0-9._+-]{0,99})"
)


class Repository(NamedTuple):
    """A revision, as a user names it."""

    kind: str | None
    """`dataset` or `model`; None: whichever there is."""
    name: str
    """`org/name`."""
    tag: str


class _Revision(NamedTuple):
    """A commit of a repository; `api` is `huggingface_hub.HfApi`."""

    api: Any
    kind: str
    name: str
    commit: str

    def url(self, path: str) -> str:
        """Where a file's bytes are."""
        from huggingface_hub import hf_hub_url

        endpoint = self.api.endpoint
        return hf_hub_url(self.name, path, repo_type=self.kind, revision=self.commit, endpoint=endpoint)

    def headers(self) -> dict[str, str]:
        """Of a request for a file's bytes, as they are stored."""
        from huggingface_hub.utils._headers import build_hf_headers

        return {**build_hf_headers(token=self.api.token), "accept-encoding": "identity"}


class _Yanked(msgspec.Struct):
    version: str
    reason: str


class _Named(msgspec.Struct):
    path: str


class _Tombstone(msgspec.Struct):
    """As much of a `release.json` as is read here."""

    files: list[_Named] = []
    yanked: list[_Yanked] = []


class Fetched(NamedTuple):
    """A revision on this machine."""

    kind: str
    folder: Path
    commit: str
    yanked: str | None
    """Why the release was withdrawn."""


def named(source: str) -> Repository | None:
    """Read `org/name@tag`; None for anything else."""
    match = _NAMED.fullmatch(source)
    if match is None:
        return None
    kind = {"datasets": DATASET, "models": MODEL, None: None}[match["type"]]
    return Repository(kind, match["name"], match["tag"])


def fetch(repository: Repository, folder: Path, *, endpoint: str | None, tell: Callable[[str], None]) -> Fetched:
    """Fetch every file of a revision.

    Args:
        repository: what.
        folder: takes the files; must not exist.
        endpoint: URL of the Hub; None for that of the environment.
        tell: takes a line.

    Raises:
        OresmithError: it is not there, cannot be read, or holds a name that no release has.
    """
    from huggingface_hub import HfApi, constants

    token = read_token()
    target = Target(endpoint or constants.ENDPOINT, token or "", patience=PATIENCE)
    with patient_requests(target):
        api = HfApi(endpoint=target.endpoint, token=token or False)
        found = _asked(lambda: _find(api, repository), f"find {repository.name}@{repository.tag}")
        sizes = _asked(lambda: _listed(found), f"list the files of {found.name}")
        told = f"{len(sizes)} files, {sum(sizes.values()) / 1e6:,.1f} MB"
        tell(f"fetching {found.kind} {found.name}@{repository.tag} from {api.endpoint}: {told}")
        folder.mkdir(parents=True)
        if sizes.get(RELEASE_FILE, MOST_RECORD) < MOST_RECORD:
            _refuse_tombstone(repository, sizes, _asked(partial(_record, found), f"read {RELEASE_FILE}"))
        for path, size in sizes.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            _asked(partial(_download, found, path, folder / path, size), f"fetch {path}")
        yanked = _asked(lambda: _yanked(found, repository.tag), f"read the tags of {found.name}")
    return Fetched(found.kind, folder, found.commit, yanked)


def _asked(work: Callable[[], Answer], what: str) -> Answer:
    return patiently(work, PATIENCE, what, "look at --endpoint (HF_ENDPOINT) and the Hub, and verify it again")


def _find(api: Any, repository: Repository) -> _Revision:
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    there = []
    kinds = [repository.kind] if repository.kind else [DATASET, MODEL]
    for kind in kinds:
        try:
            info = api.repo_info(repository.name, repo_type=kind, revision=repository.tag)
        except RepositoryNotFoundError:
            continue
        except RevisionNotFoundError:
            there.append(kind)
            continue
        return _Revision(api, kind, repository.name, str(info.sha))
    if there:
        raise OresmithError(
            "no such tag", where=f"{' and '.join(there)} {repository.name}", got=repository.tag, todo="name one it has"
        )
    raise OresmithError(
        "there is no such repository, or this token may not see it",
        where=repository.name,
        expected=" or ".join(kinds),
        todo="look at --endpoint (HF_ENDPOINT) and, for a private one, at HF_TOKEN",
    )


def _listed(revision: _Revision) -> dict[str, int]:
    """Path -> bytes of all files. A path leads nowhere but below the folder, on any file system."""
    from huggingface_hub.hf_api import RepoFile

    sizes: dict[str, int] = {}
    folded: set[str] = set()
    api, name, total = revision.api, revision.name, 0
    for entry in api.list_repo_tree(name, repo_type=revision.kind, revision=revision.commit, recursive=True):
        if not isinstance(entry, RepoFile):
            continue
        if not safe_path(entry.path) or entry.path.casefold() in folded:
            raise OresmithError("a name that no release has, or one twice", where=name, got=repr(entry.path[:200]))
        folded.add(entry.path.casefold())
        sizes[entry.path] = int(entry.size)
        total += sizes[entry.path]
        if len(sizes) > MOST_FILES or total > MOST_BYTES:
            raise OresmithError("the repository is too large", where=name, expected=f"{MOST_FILES:,} files at most")
    return sizes


def _download(revision: _Revision, path: str, target: Path, size: int) -> None:
    """Stream one file; what it must be is in release.json, and the check of the hashes looks there."""
    from huggingface_hub.utils._http import get_session, hf_raise_for_status

    got = 0
    url, headers = revision.url(path), revision.headers()
    with target.open("wb") as writer, get_session().stream("GET", url, headers=headers) as reply:
        hf_raise_for_status(reply)
        for block in reply.iter_bytes(_BLOCK):
            got += len(block)
            if got > size:
                break
            writer.write(block)
    if got != size:
        raise ConnectionError(f"{path}: {size:,} bytes are listed, {got:,} came")


def _yanked(revision: _Revision, tag: str) -> str | None:
    """Why a release was withdrawn: its tombstone is in `release.json` of the commit that `yanked/VERSION` names."""
    refs = revision.api.list_repo_refs(revision.name, repo_type=revision.kind)
    commits = [ref.target_commit for ref in refs.tags if ref.name == f"{YANKED_TAG}{tag}"]
    if not commits:
        return None
    stated = _record(revision._replace(commit=commits[0])).yanked
    reasons = [one.reason for one in stated if one.version == tag]
    return reasons[-1][:1000] if reasons else "the reason cannot be read"


def _record(revision: _Revision) -> _Tombstone:
    """`release.json` of a commit; one that cannot be read says nothing."""
    from huggingface_hub.utils._http import get_session

    reply = get_session().get(revision.url(RELEASE_FILE), headers=revision.headers())
    try:
        return msgspec.json.decode(reply.content, type=_Tombstone)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Tombstone()


def _refuse_tombstone(repository: Repository, sizes: Mapping[str, int], record: _Tombstone) -> None:
    """What `main` holds once the last release was withdrawn, named as such before its files are missed one by one."""
    if record.yanked and any(file.path not in sizes for file in record.files):
        one = record.yanked[-1]
        raise OresmithError(
            "this revision is a tombstone: what it held was withdrawn",
            where=f"{repository.name}@{repository.tag}",
            got=f"{one.version[:40]}: {one.reason[:1000]}",
            todo="verify the tag of a version: it stays, and loads",
        )
