"""Collections: repositories that belong together."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
from starlette.responses import Response

from oresmith.release.hub import names
from oresmith.release.hub.accounts import may_read
from oresmith.release.hub.api.calls import Call, answer, route
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.store import Collection, Item, slug_of, stamp

SLUG = "/api/collections/{owner:hub_part}/{slug:hub_part}"
_MOST_ITEMS = 500


class NewCollection(msgspec.Struct):
    """A collection to be made."""

    title: str
    namespace: str
    description: str | None = None
    private: bool = False


class Changed(msgspec.Struct):
    """What of a collection changes."""

    title: str | None = None
    description: str | None = None
    private: bool | None = None
    theme: str | None = None
    position: int | None = None


class ItemId(msgspec.Struct):
    """A repository."""

    id: str
    type: str


class NewItem(msgspec.Struct):
    """A member to be taken in."""

    item: ItemId
    note: str | None = None


class ChangedItem(msgspec.Struct):
    """What of a member changes."""

    note: str | None = None
    position: int | None = None


def create(call: Call) -> Response:
    """Make a collection; the answer of 409 names the one that has the title."""
    asked = call.json(NewCollection)
    call.writer(asked.namespace)
    names.repository(asked.namespace, "collection")
    title = _title(asked.title)
    slug = slug_of(asked.namespace, title)
    with call.hub.store.changing():
        if call.hub.store.collection(slug) is not None:
            raise Refusal(409, "A collection with this title exists already", slug=slug)
        owner = {"type": "user", "name": asked.namespace, "fullname": asked.namespace, "avatarUrl": ""}
        made = Collection(slug, title, owner, [], stamp(), _short(asked.description), asked.private)
        call.hub.store.save(made)
    return answer(_shown(call, made))


def get(call: Call) -> Response:
    """A collection."""
    return answer(_shown(call, _found(call)))


def listed(call: Call) -> Response:
    """Collections that the caller may see, of one owner or with one member where that is asked."""
    owner, item, account = call.query("owner"), call.query("item"), call.account()
    seen = [
        collection
        for collection in call.hub.store.collections()
        if (not collection.private or may_read(account, collection.owner["name"]))
        and owner in (None, collection.owner["name"])
        and (item is None or any(f"{member.type}s/{member.id}" == item for member in collection.items))
    ]
    shown = [_shown(call, collection) for collection in seen]
    for row in shown:
        del row["position"]  # the clients count themselves, and take no second value
    return answer(shown)


def change(call: Call) -> Response:
    """Change title, text or visibility; the slug stays."""
    asked = call.json(Changed)
    with call.hub.store.changing():
        found = _found(call, write=True)
        if asked.title is not None:
            found.title = _title(asked.title)
        if asked.description is not None:
            found.description = _short(asked.description)
        if asked.private is not None:
            found.private = asked.private
        call.hub.store.save(found)
    return answer({"success": True, "data": _shown(call, found)})


def delete(call: Call) -> Response:
    """Take a collection away."""
    with call.hub.store.changing():
        call.hub.store.forget(_found(call, write=True))
    return answer({"success": True})


def add(call: Call) -> Response:
    """Take a repository in."""
    asked = call.json(NewItem)
    owner, _, name = asked.item.id.partition("/")
    kind = names.kind_of(f"{asked.item.type}s")
    with call.hub.store.changing():
        found = _found(call, write=True)
        there = call.hub.store.repository(kind, owner, name)
        if there is None or (there.settings.private and not may_read(call.account(), owner)):
            raise Refusal(404, "Repository not found", "RepoNotFound")
        if any((member.type, member.id) == (kind, there.id) for member in found.items):
            raise Refusal(409, "The collection holds it already")
        if len(found.items) >= _MOST_ITEMS:
            raise Refusal(400, f"A collection holds {_MOST_ITEMS} at most")
        note = _short(asked.note)
        found.items.append(Item(secrets.token_hex(12), there.id, kind, 0, {"text": note} if note else None))
        call.hub.store.save(found)
    return answer(_shown(call, found))


def change_item(call: Call) -> Response:
    """Change a member's note or place."""
    asked = call.json(ChangedItem)
    with call.hub.store.changing():
        found, item = _member(call)
        if asked.note is not None:
            item.note = {"text": _short(asked.note) or ""} if asked.note else None
        if asked.position is not None:
            found.items.remove(item)
            found.items.insert(max(asked.position, 0), item)
        call.hub.store.save(found)
    return answer({"success": True})


def drop_item(call: Call) -> Response:
    """Take a member out."""
    with call.hub.store.changing():
        found, item = _member(call)
        found.items.remove(item)
        call.hub.store.save(found)
    return answer({"success": True})


def _found(call: Call, *, write: bool = False) -> Collection:
    found = call.hub.store.collection(f"{call.part('owner')}/{call.part('slug')}")
    if found is None or (found.private and not may_read(call.account(), found.owner["name"])):
        raise Refusal(404, "Collection not found")
    if write:
        call.writer(found.owner["name"])
    return found


def _member(call: Call) -> tuple[Collection, Item]:
    found = _found(call, write=True)
    for item in found.items:
        if item.uid == call.part("item"):
            return found, item
    raise Refusal(404, "The collection does not hold it")


def _shown(call: Call, collection: Collection) -> Any:
    """As the caller sees it: without members that are hidden from it."""
    account, body = call.account(), msgspec.to_builtins(collection)
    kept = []
    for item in body["items"]:
        owner, _, name = item["id"].partition("/")
        there = call.hub.store.repository(item["type"], owner, name)
        if there is not None and (not there.settings.private or may_read(account, owner)):
            kept.append(item | {"author": owner, "private": there.settings.private, "repoType": item["type"]})
    return body | {"items": kept}


def _title(text: str) -> str:
    title = " ".join(text.split())[:60]
    if not title:
        raise Refusal(400, "A collection needs a title")
    return title


def _short(text: str | None) -> str | None:
    return None if text is None else text[:500]


ROUTES = [
    route("POST", "/api/collections", create),
    route("GET", "/api/collections", listed),
    route("GET", SLUG, get),
    route("PATCH", SLUG, change),
    route("DELETE", SLUG, delete),
    route("POST", SLUG + "/items", add),
    route("PATCH", SLUG + "/items/{item:hub_part}", change_item),
    route("DELETE", SLUG + "/items/{item:hub_part}", drop_item),
]
