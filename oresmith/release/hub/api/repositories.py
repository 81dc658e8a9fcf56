"""Who one is, and repositories as a whole: create, delete, show, ask about."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from starlette.responses import Response

from oresmith.release.hub import names
from oresmith.release.hub.api.calls import Call, answer, route
from oresmith.release.hub.cards import FrontMatterError, front_matter
from oresmith.release.hub.git import Entry
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.store import stamp

REPOSITORY = "/api/{kind:hub_kind}/{owner:hub_part}/{name:hub_part}"


class Named(msgspec.Struct):
    """A repository in a body."""

    name: str
    organization: str | None = None
    type: str | None = None
    visibility: Literal["public", "private"] | None = None
    private: bool | None = None


class Shown(msgspec.Struct):
    """New settings."""

    visibility: Literal["public", "private"] | None = None
    private: bool | None = None
    gated: str | bool | None = None


class Front(msgspec.Struct, rename="camel"):
    """A card to be checked."""

    content: str
    repo_type: str | None = None


def whoami(call: Call) -> Response:
    """The account of the token."""
    account = call.account()
    if account is None:
        raise Refusal(401, "Invalid username or password.")
    orgs = [
        {"type": "org", "id": owner, "name": owner, "fullname": owner, "roleInOrg": account.role, "isEnterprise": False}
        for owner in account.spaces
        if owner != account.user
    ]
    token = {"displayName": "oresmith", "role": account.role, "createdAt": stamp(0)}
    who = {"type": "user", "id": account.user, "name": account.user, "fullname": account.user, "isPro": False}
    return answer(who | {"orgs": orgs, "auth": {"type": "access_token", "accessToken": token}})


def create(call: Call) -> Response:
    """Make a repository."""
    asked, account = call.json(Named), call.account()
    if account is None:
        raise Refusal(401, "Invalid username or password.")
    owner, name = _whole(asked, account.user)
    kind = names.kind_of(f"{asked.type or 'model'}s")
    call.writer(owner)
    private = asked.visibility == "private" or bool(asked.private)
    try:
        made = call.hub.store.create(kind, owner, name, private=private, user=account.user)
    except Refusal as refusal:
        if "url" in refusal.body:
            refusal.body["url"] = call.hub.base + refusal.body["url"]
        raise
    return answer({"url": call.hub.base + made.address, "name": made.id, "id": made.id})


def _whole(asked: Named, user: str) -> tuple[str, str]:
    """Owner and name of a body. Errors: Refusal 400; nothing of a name is left out."""
    if "/" not in asked.name:
        return names.repository(asked.organization or user, asked.name)
    owner, _, name = asked.name.rpartition("/")
    if asked.organization not in (None, owner):
        raise Refusal(400, "The name of a repository names another owner than its organization")
    return names.repository(owner, name)


def delete(call: Call) -> Response:
    """Take a repository away."""
    asked, account = call.json(Named), call.account()
    if account is None:
        raise Refusal(401, "Invalid username or password.")
    owner, name = _whole(asked, account.user)
    found = call.hub.store.repository(names.kind_of(f"{asked.type or 'model'}s"), owner, name)
    if found is None or (found.settings.private and owner not in account.spaces):
        raise Refusal(404, "Repository not found", "RepoNotFound")
    call.writer(owner)
    call.hub.store.delete(found)
    return answer("OK")


def settings(call: Call) -> Response:
    """Hide or show a repository."""
    repository, asked = call.repository(write=True), call.json(Shown)
    if asked.gated not in (None, False):
        raise Refusal(400, "This Hub has no gated repositories")
    private = asked.private if asked.visibility is None else asked.visibility == "private"
    if private is not None:
        repository.show(private=private)
    return answer({"private": repository.settings.private, "gated": False})


def may_read(call: Call) -> Response:
    """Whether the caller may read."""
    call.repository()
    return answer({"ok": True})


def may_write(call: Call) -> Response:
    """Whether the caller may write."""
    call.repository(write=True)
    return answer({"ok": True})


def info(call: Call) -> Response:
    """A repository at a revision: card data and files."""
    repository = call.repository()
    commit = repository.commit_of(call.request.path_params.get("revision", "main"))
    tree = repository.git.tree(commit)
    try:
        card = front_matter(repository.readme(commit))
    except FrontMatterError:
        card = {}
    tags = card.get("tags")
    facts: dict[str, Any] = {
        "_id": repository.settings.uid,
        "id": repository.id,
        "author": repository.owner,
        "sha": commit,
        "lastModified": stamp(next(repository.git.history(commit, 1)).time),
        "createdAt": repository.settings.created,
        "private": repository.settings.private,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [str(tag) for tag in tags] if isinstance(tags, list) else [],
        "cardData": card,
        "siblings": [_sibling(entry, blobs=call.asked("blobs")) for entry in tree.values() if not entry.folder],
        "usedStorage": sum(entry.size for entry in tree.values()),
    }
    if repository.kind == "model":
        facts |= {key: card.get(key) for key in ("pipeline_tag", "library_name", "model-index")}
        facts["modelId"] = repository.id
    return answer(facts)


def _sibling(entry: Entry, *, blobs: bool) -> dict[str, Any]:
    if not blobs:
        return {"rfilename": entry.path}
    facts: dict[str, Any] = {"rfilename": entry.path, "size": entry.size, "blobId": entry.blob}
    if entry.oid is not None:
        facts["lfs"] = {"sha256": entry.oid, "size": entry.size, "pointerSize": entry.pointer_size}
    return facts


def validate_yaml(call: Call) -> Response:
    """Check the front matter of a card."""
    content = call.json(Front).content
    try:
        found = front_matter(content)
    except FrontMatterError as error:
        return answer({"errors": [{"message": str(error)}], "warnings": []}, 400)
    warning = {"message": "empty or missing yaml metadata in repo card"}
    return answer({"errors": [], "warnings": [] if found else [warning]})


ROUTES = [
    route("GET", "/api/whoami-v2", whoami),
    route("POST", "/api/repos/create", create),
    route("DELETE", "/api/repos/delete", delete),
    route("POST", "/api/validate-yaml", validate_yaml),
    route("PUT", REPOSITORY + "/settings", settings),
    route("GET", REPOSITORY + "/auth-check", may_read),
    route("GET", REPOSITORY + "/auth-check/write", may_write),
    route("GET", REPOSITORY, info),
    route("GET", REPOSITORY + "/revision/{revision:hub_part}", info),
]
