"""Changes: what a commit would need, the commit, branches and tags."""

from __future__ import annotations

import base64
import re
import tempfile
from fnmatch import fnmatchcase
from typing import IO, Any

import msgspec
from anyio import to_thread
from starlette.responses import Response

from oresmith.release.hub import names
from oresmith.release.hub.api.calls import Call, answer, route, streamed
from oresmith.release.hub.api.order import Order
from oresmith.release.hub.api.repositories import REPOSITORY
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.repository import LARGE, MAX_REGULAR, Repository

MAX_COMMIT = 1500 << 20
"""Bytes of a commit's body: 1 GB of files that go through git, in base64."""
_SPOOLED = 8 << 20
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Candidate(msgspec.Struct):
    """A file that somebody wants to commit."""

    path: str
    size: int
    sample: str = ""
    """Its first bytes in base64."""


class Preupload(msgspec.Struct, rename="camel"):
    """The files of a commit to be."""

    files: list[Candidate]
    git_ignore: str = ""


async def commit(call: Call) -> Response:
    """Put one commit on a branch; the body goes to disk before anything is looked at."""
    repository = await to_thread.run_sync(lambda: call.repository(write=True))
    if call.asked("create_pr"):
        raise Refusal(501, "This Hub has no pull requests")
    came = 0
    with tempfile.SpooledTemporaryFile(_SPOOLED, dir=str(repository.folder)) as spool:
        async for piece in call.request.stream():
            came += len(piece)
            if came > MAX_COMMIT:
                raise Refusal(413, f"A commit of more than {MAX_COMMIT} bytes")
            spool.write(piece)
        return await to_thread.run_sync(lambda: _commit(call, repository, spool))


def _commit(call: Call, repository: Repository, spool: IO[bytes]) -> Response:
    order, branch = Order(repository, spool), names.ref_name(call.part("revision"))
    parent, user = order.header.parent_commit, call.writer(repository.owner).user
    if parent is not None and not re.fullmatch(r"[0-9a-f]{7,40}", parent):
        raise Refusal(400, "Invalid parent commit")
    text = f"{_line(order.header.summary)}\n\n{_CONTROLS.sub(' ', order.header.description)}".strip() or "commit"
    made = repository.commit(
        branch,
        parent=parent,
        writes=order.writes(),
        added=list(order.added),
        removed=order.removed,
        user=user,
        message=text,
    )
    where = f"{call.hub.base}{repository.address}/commit/{made}"
    return answer({"success": True, "commitOid": made, "commitUrl": where, "hookOutput": ""})


def _line(text: str) -> str:
    return " ".join(_CONTROLS.sub(" ", text).split())[:500]


def preupload(call: Call) -> Response:
    """For each file: through git or beside it, and what lies at its path now."""
    repository, asked = call.repository(write=True), call.json(Preupload)
    at = repository.commit_of(call.part("revision"))
    known = repository.git.tree(at)
    ignored = [line for line in map(str.strip, asked.git_ignore.splitlines()) if line and not line.startswith("#")]
    files: list[dict[str, Any]] = []
    for file in asked.files:
        names.file_path(file.path)
        mode = "lfs" if _is_large(file) else "regular"
        row: dict[str, Any] = {"path": file.path, "uploadMode": mode, "shouldIgnore": _is_ignored(file.path, ignored)}
        if (entry := known.get(file.path)) and not entry.folder:
            row["oid"] = entry.oid or entry.blob
        files.append(row)
    return answer({"files": files, "commitOid": at})


def _is_large(file: Candidate) -> bool:
    if file.size >= MAX_REGULAR or file.path.rpartition("/")[2].lower().rpartition(".")[2] in LARGE:
        return True
    try:
        return b"\0" in base64.b64decode(file.sample)
    except ValueError:
        return True


def _is_ignored(path: str, patterns: list[str]) -> bool:
    """By the plain patterns of a .gitignore: a name, a folder, `*`; no `!`."""
    parts = path.split("/")
    tried = parts + ["/".join(parts[: at + 1]) for at in range(len(parts))]
    return any(fnmatchcase(part, pattern.strip("/")) for pattern in patterns for part in tried if len(pattern) < 200)


class NewTag(msgspec.Struct):
    """A tag."""

    tag: str
    message: str | None = None


class NewBranch(msgspec.Struct, rename="camel"):
    """A branch."""

    starting_point: str | None = None


def add_tag(call: Call) -> Response:
    """Name a commit; the path holds where."""
    repository, asked = call.repository(write=True), call.json(NewTag)
    user, target = call.writer(repository.owner).user, repository.commit_of(call.part("revision"))
    message = _CONTROLS.sub(" ", asked.message or "").strip() or None
    repository.add_tag(names.ref_name(asked.tag), target, message, user)
    return answer({"success": True})


def drop_tag(call: Call) -> Response:
    """Take a tag away."""
    call.repository(write=True).drop(f"refs/tags/{names.ref_name(call.part('revision'))}")
    return answer({"success": True})


def add_branch(call: Call) -> Response:
    """Start a branch."""
    repository, asked = call.repository(write=True), call.json(NewBranch)
    start = repository.commit_of(asked.starting_point or "main")
    repository.add_branch(names.ref_name(call.part("revision")), start)
    return answer({"success": True})


def drop_branch(call: Call) -> Response:
    """Take a branch away; never main."""
    repository, branch = call.repository(write=True), names.ref_name(call.part("revision"))
    if branch == "main":
        raise Refusal(403, "Cannot delete the main branch")
    repository.drop(f"refs/heads/{branch}")
    return answer({"success": True})


ROUTES = [
    route("POST", REPOSITORY + "/preupload/{revision:hub_part}", preupload),
    streamed("POST", REPOSITORY + "/commit/{revision:hub_part}", commit),
    route("POST", REPOSITORY + "/tag/{revision:hub_part}", add_tag),
    route("DELETE", REPOSITORY + "/tag/{revision:hub_part}", drop_tag),
    route("POST", REPOSITORY + "/branch/{revision:hub_part}", add_branch),
    route("DELETE", REPOSITORY + "/branch/{revision:hub_part}", drop_branch),
]
