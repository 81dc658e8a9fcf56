"""Files as lists: the tree, single paths, and the history and refs that lead to it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, quote

import msgspec
from starlette.responses import Response

from oresmith.release.hub.api.calls import Call, answer, route
from oresmith.release.hub.api.repositories import REPOSITORY
from oresmith.release.hub.git import Entry
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.repository import Repository
from oresmith.release.hub.store import stamp

PAGE = 1000
"""Entries of one answer, at most and where nothing else is asked for."""

MAX_PATHS = 50_000


class Paths(msgspec.Struct):
    """Paths that are asked about."""

    paths: list[str] = []
    expand: bool = False


def tree(call: Call) -> Response:
    """A folder of a revision, page by page; later pages are of the same commit whatever happened meanwhile."""
    repository = call.repository()
    commit = repository.commit_of(call.part("revision"))
    folder = str(call.request.path_params.get("path", "")).strip("/")
    entries = repository.below(commit, folder, recursive=call.asked("recursive"))
    start, limit = _number(call.query("cursor"), 0), min(_number(call.query("limit"), PAGE) or PAGE, PAGE)
    headers = {"X-Repo-Commit": commit}
    if start + limit < len(entries):
        where = f"{call.hub.base}/api/{repository.kind}s/{repository.id}/tree/{commit}"
        where += f"/{quote(folder)}" if folder else ""
        asked = "&".join(f"{name}={str(call.asked(name)).lower()}" for name in ("recursive", "expand"))
        headers["Link"] = f'<{where}?{asked}&limit={limit}&cursor={start + limit}>; rel="next"'
    page = entries[start : start + limit]
    return answer([_entry(repository, commit, entry, call.asked("expand")) for entry in page], headers=headers)


def paths_info(call: Call) -> Response:
    """What lies at each of some paths; those that are not there are left out."""
    repository, asked = call.repository(), _paths(call)
    commit = repository.commit_of(call.part("revision"))
    known = repository.git.tree(commit)
    found = [known[path.strip("/")] for path in asked.paths if path.strip("/") in known]
    return answer([_entry(repository, commit, entry, asked.expand) for entry in found])


def refs(call: Call) -> Response:
    """Branches and tags, each with its commit."""
    found: dict[str, list[dict[str, str]]] = {"branches": [], "converts": [], "tags": [], "pullRequests": []}
    for ref, commit in call.repository().git.refs():
        place = "branches" if ref.startswith("refs/heads/") else "tags"
        found[place].append({"name": ref.split("/", 2)[2], "ref": ref, "targetCommit": commit})
    return answer(found)


def commits(call: Call) -> Response:
    """History, newest first, page by page."""
    repository = call.repository()
    start = repository.commit_of(call.part("revision"))
    page, limit = _number(call.query("p"), 0), min(_number(call.query("limit"), PAGE) or PAGE, PAGE)
    found = list(repository.git.history(start))
    headers = {"X-Repo-Commit": start, "X-Total-Count": str(len(found))}
    if (page + 1) * limit < len(found):
        where = f"{call.hub.base}/api/{repository.kind}s/{repository.id}/commits/{start}"
        headers["Link"] = f'<{where}?p={page + 1}&limit={limit}>; rel="next"'
    rows = [
        {
            "id": commit.id,
            "authors": [{"user": commit.author}],
            "date": stamp(commit.time),
            "title": commit.title,
            "message": commit.message,
        }
        for commit in found[page * limit : (page + 1) * limit]
    ]
    return answer(rows, headers=headers)


def _entry(repository: Repository, commit: str, entry: Entry, expand: bool) -> dict[str, Any]:
    kind = "directory" if entry.folder else "file"
    facts: dict[str, Any] = {"type": kind, "oid": entry.blob, "size": entry.size, "path": entry.path}
    if entry.oid is not None:
        facts["lfs"] = {"oid": entry.oid, "size": entry.size, "pointerSize": entry.pointer_size}
    if expand and (last := repository.last_commit(commit, entry.path)):
        facts["lastCommit"] = {"id": last.id, "title": last.title, "date": stamp(last.time)}
    return facts


def _paths(call: Call) -> Paths:
    if "json" in call.request.headers.get("content-type", ""):
        return call.json(Paths)
    try:
        form = parse_qs(call.body.decode("utf-8", "replace"), max_num_fields=MAX_PATHS)
    except ValueError:
        raise Refusal(400, f"More than {MAX_PATHS} paths") from None
    return Paths(form.get("paths", []), form.get("expand", [""])[0].lower() == "true")


def _number(text: str | None, default: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refusal(400, "cursor, limit and p are numbers")
    return int(text)


ROUTES = [
    route("GET", REPOSITORY + "/tree/{revision:hub_part}", tree),
    route("GET", REPOSITORY + "/tree/{revision:hub_part}/{path:hub_rest}", tree),
    route("POST", REPOSITORY + "/paths-info/{revision:hub_part}", paths_info),
    route("GET", REPOSITORY + "/refs", refs),
    route("GET", REPOSITORY + "/commits/{revision:hub_part}", commits),
]
