"""Files as bytes: downloads, and uploads of large ones by LFS in one piece or in parts."""

from __future__ import annotations

import re
import secrets
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from oresmith.release.hub import names
from oresmith.release.hub.api.calls import Call, answer, route
from oresmith.release.hub.hub import GUARDED, IMAGES, Hub, span
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.repository import Repository

LFS = "application/vnd.git-lfs+json"
REPOSITORIES = ("/{kind:hub_datasets}/{owner:hub_part}/{name:hub_part}", "/{owner:hub_part}/{name:hub_part}")
MAX_PARTS = 10_000


class Wanted(msgspec.Struct):
    """A large file that somebody has."""

    oid: str
    size: int


class Batch(msgspec.Struct):
    """Large files to be uploaded."""

    operation: Literal["upload"]
    objects: list[Wanted]
    transfers: tuple[str, ...] = ("basic",)


class Parts(msgspec.Struct):
    """The end of an upload in parts."""

    oid: str


def resolve(call: Call) -> Response:
    """A file of a revision: from git at once, a large one by a signed address at another origin."""
    repository = call.repository()
    commit = repository.commit_of(call.part("revision"))
    entry = repository.entry(commit, call.part("path"))
    if entry.folder:
        raise Refusal(404, "Entry not found", "EntryNotFound", commit=commit)
    name = entry.path.rpartition("/")[2]
    headers = {
        "X-Repo-Commit": commit,
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"inline; filename*=UTF-8''{quote(name, safe='')}",
        **GUARDED,
    }
    if entry.oid is not None:
        address = f"{call.hub.files}/objects{_prefix(repository)}/{entry.oid}"
        signature = call.hub.sign("get", repository.settings.uid, entry.oid)
        headers |= {
            "X-Linked-Size": str(entry.size),
            "X-Linked-Etag": f'"{entry.oid}"',
            "Location": f"{address}?media={_ending(name)}&signature={signature}",
        }
        return Response(status_code=302, headers=headers)
    headers["ETag"] = f'"{entry.blob}"'
    media = IMAGES.get(_ending(name), "text/plain")
    data = b"" if call.request.method == "HEAD" else repository.git.blob(entry.blob)
    if call.request.method == "HEAD":
        return Response(status_code=200, headers=headers | {"Content-Length": str(entry.size)}, media_type=media)
    return _ranged(data, call.request.headers.get("range"), headers, media)


def _ranged(data: bytes, asked: str | None, headers: dict[str, str], media: str) -> Response:
    start, end = span(asked, len(data))
    if (start, end) == (0, len(data)):
        return Response(data, headers=headers, media_type=media)
    headers |= {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}
    return Response(data[start:end], 206, headers=headers, media_type=media)


def _ending(name: str) -> str:
    ending = name.rpartition(".")[2].lower()
    return ending if ending in IMAGES else "bin"


def batch(call: Call) -> Response:
    """For each large file: that it is there, or where it goes."""
    repository, asked = call.repository(write=True), call.json(Batch)
    multipart, rows = "multipart" in asked.transfers, []
    for wanted in asked.objects:
        names.oid(wanted.oid)
        row: dict[str, Any] = {"oid": wanted.oid, "size": wanted.size, "authenticated": True}
        if not 0 <= wanted.size < 1 << 50:
            row["error"] = {"code": 422, "message": "a size that no file has"}
        elif repository.objects.size(wanted.oid) != wanted.size:
            in_parts = multipart and wanted.size > call.hub.part_bytes
            upload = _in_parts(call.hub, repository, wanted) if in_parts else _whole(call.hub, repository, wanted)
            verify = {"href": f"{call.hub.base}{repository.address}.git/info/lfs/verify"}
            row["actions"] = {"upload": upload, "verify": verify}
        rows.append(row)
    return answer({"transfer": "multipart" if multipart else "basic", "objects": rows}, media=LFS)


def _prefix(repository: Repository) -> str:
    return f"/{repository.kind}s/{repository.id}"


def _whole(hub: Hub, repository: Repository, wanted: Wanted) -> dict[str, Any]:
    signature = hub.sign("put", repository.settings.uid, wanted.oid, wanted.size)
    address = f"{hub.files}/objects{_prefix(repository)}/{wanted.oid}"
    return {"href": f"{address}?size={wanted.size}&signature={signature}"}


def _in_parts(hub: Hub, repository: Repository, wanted: Wanted) -> dict[str, Any]:
    step = max(hub.part_bytes, -(-wanted.size // MAX_PARTS))
    upload, count = secrets.token_hex(8), -(-wanted.size // step)
    address = f"{hub.files}/objects{_prefix(repository)}/{wanted.oid}"
    header = {"chunk_size": str(step)}
    for number in range(1, count + 1):
        size = min(step, wanted.size - (number - 1) * step)
        signature = hub.sign("part", repository.settings.uid, upload, number, size)
        header[str(number)] = f"{address}/parts/{upload}/{number}?size={size}&signature={signature}"
    signature = hub.sign("join", repository.settings.uid, upload, count, wanted.oid, wanted.size)
    end = f"{hub.base}/objects{_prefix(repository)}/{wanted.oid}/parts/{upload}"
    return {"href": f"{end}?parts={count}&size={wanted.size}&signature={signature}", "header": header}


def verify(call: Call) -> Response:
    """Whether an uploaded file is there."""
    repository, asked = call.repository(write=True), call.json(Wanted)
    if repository.objects.size(names.oid(asked.oid)) != asked.size:
        raise Refusal(404, "The object has not been uploaded")
    return answer({"message": "OK"}, media=LFS)


def join(call: Call) -> Response:
    """Make a large file of its parts."""
    repository, oid, upload = _addressed(call), names.oid(call.part("oid")), call.part("upload")
    count, size = _size(call, "parts"), _size(call)
    call.hub.require_signed(call.query("signature"), "join", repository.settings.uid, upload, count, oid, size)
    if call.json(Parts).oid != oid:
        raise Refusal(400, "Another oid than the address has")
    repository.objects.join(upload, count, oid, size)
    return answer({"success": True})


def _addressed(call: Call) -> Repository:
    """The repository of a signed address: the signature is looked at after, and says who was allowed."""
    return call.hub.addressed(call.kind(), call.part("owner"), call.part("name"))


def _size(call: Call, name: str = "size") -> int:
    text = call.query(name) or ""
    if not re.fullmatch(r"[0-9]{1,16}", text):
        raise Refusal(403, "SignatureDoesNotMatch")
    return int(text)


ROUTES: list[Route] = [
    route(
        "POST", "/objects/{kind:hub_kind}/{owner:hub_part}/{name:hub_part}/{oid:hub_part}/parts/{upload:hub_part}", join
    ),
]
for _repository in REPOSITORIES:
    ROUTES += [
        route("GET HEAD", _repository + "/resolve/{revision:hub_part}/{path:hub_rest}", resolve),
        route("POST", _repository + ".git/info/lfs/objects/batch", batch),
        route("POST", _repository + ".git/info/lfs/verify", verify),
    ]
