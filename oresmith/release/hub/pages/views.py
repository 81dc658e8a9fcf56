"""The pages: all repositories, one at a revision, a file, a history, a collection."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from oresmith.release.hub.accounts import may_read
from oresmith.release.hub.api.calls import Call, route
from oresmith.release.hub.api.files import REPOSITORIES
from oresmith.release.hub.cards import FrontMatterError, front_matter, split_card
from oresmith.release.hub.git import Entry
from oresmith.release.hub.hub import IMAGES
from oresmith.release.hub.pages.markdown import render, visible
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.repository import Repository
from oresmith.release.hub.store import stamp

MAX_SHOWN = 512 << 10
"""Bytes of a file that its page shows."""
_MAX_ROWS = 2000
_VERSION = re.compile(r"\d{1,9}")


def index(call: Call) -> Response:
    """Everything that the caller may see."""
    account = call.account()
    seen = [
        repository
        for repository in call.hub.store.repositories()
        if not repository.settings.private or may_read(account, repository.owner)
    ]
    collections = [
        collection
        for collection in call.hub.store.collections()
        if not collection.private or may_read(account, collection.owner["name"])
    ]
    return _page(call, "index.html.jinja", repositories=seen, collections=collections)


def collection(call: Call) -> Response:
    """The members of a collection."""
    account = call.account()
    found = call.hub.store.collection(f"{call.part('owner')}/{call.part('slug')}")
    if found is None or (found.private and not may_read(account, found.owner["name"])):
        raise Refusal(404, "Collection not found")
    items = []
    for item in found.items:
        there = call.hub.store.repository(item.type, *item.id.split("/", 1))
        if there is not None and (not there.settings.private or may_read(account, there.owner)):
            items.append((there, item.note))
    return _page(call, "collection.html.jinja", collection=found, items=items)


def folder(call: Call) -> Response:
    """A repository at a revision: its card at the top, its files, its versions."""
    repository, revision, commit = _at(call)
    path = str(call.request.path_params.get("path", "")).strip("/")
    entries = sorted(repository.below(commit, path, recursive=False), key=lambda entry: (not entry.folder, entry.path))
    try:
        card = front_matter(repository.readme(commit))
    except FrontMatterError:
        card = {}
    body = split_card(repository.readme(commit))[1] if not path else ""
    return _page(
        call,
        "repository.html.jinja",
        repository=repository,
        revision=revision,
        commit=commit,
        path=path,
        entries=[(entry, repository.last_commit(commit, entry.path)) for entry in entries[:_MAX_ROWS]],
        more=max(len(entries) - _MAX_ROWS, 0),
        card=Markup(render(body, repository.address, revision)),  # noqa: S704 (`render` lets no HTML through)
        facts={key: _short(value) for key, value in list(card.items())[:40]},
        versions=_versions(repository),
        use=_use(repository, revision, card),
    )


def file(call: Call) -> Response:
    """A file: as text, as a picture, or as facts alone."""
    repository, revision, commit = _at(call)
    entry = repository.entry(commit, call.part("path").strip("/"))
    if entry.folder:
        return RedirectResponse(_to(repository, "tree", revision, entry.path))
    picture = entry.path.rpartition(".")[2].lower() in IMAGES
    return _page(
        call,
        "file.html.jinja",
        repository=repository,
        revision=revision,
        commit=commit,
        entry=entry,
        picture=picture,
        text=None if picture else _text(repository, entry),
        last=repository.last_commit(commit, entry.path),
    )


def history(call: Call) -> Response:
    """The commits up to a revision."""
    repository, revision, commit = _at(call)
    made = list(repository.git.history(commit, _MAX_ROWS))
    named: dict[str, list[str]] = {}
    for ref, target in repository.git.refs():
        named.setdefault(target, []).append(ref.split("/", 2)[2])
    return _page(
        call, "history.html.jinja", repository=repository, revision=revision, commit=commit, made=made, named=named
    )


def one_commit(call: Call) -> Response:
    """A commit, as the tree that it made."""
    repository, revision, _ = _at(call)
    return RedirectResponse(_to(repository, "tree", revision))


def style(call: Call) -> Response:
    """How the pages look."""
    return Response(_templates().get_template("style.css.jinja").render(), media_type="text/css")


def _at(call: Call) -> tuple[Repository, str, str]:
    """Repository, revision as named, and its commit."""
    repository, revision = call.repository(), str(call.request.path_params.get("revision", "main"))
    return repository, revision, repository.commit_of(revision)


def _text(repository: Repository, entry: Entry) -> str | None:
    """What a file holds, where that is text and not much."""
    if entry.oid is not None or entry.size > MAX_SHOWN:
        return None
    data = repository.git.blob(entry.blob)
    return None if b"\0" in data else visible(data.decode("utf-8", "replace"), lines=True)


def _versions(repository: Repository) -> list[tuple[str, str]]:
    """Tags with their commits, the highest version first."""
    tags = [(ref.split("/", 2)[2], commit) for ref, commit in repository.git.refs() if ref.startswith("refs/tags/")]
    return sorted(tags, key=lambda tag: [int(number) for number in _VERSION.findall(tag[0])], reverse=True)


def _use(repository: Repository, revision: str, card: dict[str, Any]) -> str:
    """Lines that load it."""
    at = json.dumps(revision)
    if repository.kind == "model":
        return (
            "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
            f'model = AutoModelForCausalLM.from_pretrained("{repository.id}", revision={at})\n'
            f'tokenizer = AutoTokenizer.from_pretrained("{repository.id}", revision={at})'
        )
    configs = card.get("configs")
    named = [row.get("config_name") for row in configs if isinstance(row, dict)] if isinstance(configs, list) else []
    plain = [f'"{name}", ' for name in named if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", name)]
    calls = [f'load_dataset("{repository.id}", {name}revision={at})' for name in plain[:20] or [""]]
    return "\n".join(["from datasets import load_dataset", *calls])


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return visible(text if len(text) <= 200 else f"{text[:200]}…")


def _to(repository: Repository, verb: str, revision: str, path: str = "") -> str:
    """Address of something of a repository."""
    address = f"{repository.address}/{verb}/{quote(revision, safe='')}"
    return f"{address}/{quote(path)}" if path else address


@lru_cache(maxsize=1)
def _templates() -> Environment:
    loader = FileSystemLoader(Path(__file__).parent)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {
        "visible": visible,
        "stamp": lambda seconds: stamp(seconds)[:16].replace("T", " "),
        "bytes": _bytes,
    }
    made.globals["to"] = _to
    return made


def _bytes(size: int) -> str:
    """A size as people read it."""
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _page(call: Call, template: str, status: int = 200, **facts: Any) -> Response:
    policy = (
        f"default-src 'none'; style-src 'self'; img-src 'self' {call.hub.files}; base-uri 'none'; form-action 'none'"
    )
    headers = {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    text = _templates().get_template(template).render(base=call.hub.base, **facts)
    return Response(text, status, headers=headers, media_type="text/html")


def _paged(view: Callable[[Call], Response]) -> Callable[[Call], Response]:
    """The view, whose refusals are pages too."""

    def shown(call: Call) -> Response:
        try:
            return view(call)
        except Refusal as refusal:
            nobody = refusal.status == 401
            message = "No public repository has this address." if nobody else refusal.message
            return _page(call, "refused.html.jinja", 404 if nobody else refusal.status, message=message)

    return shown


ROUTES: list[Route] = [
    route("GET", "/", _paged(index)),
    route("GET", "/static/style.css", style),
    route("GET", "/collections/{owner:hub_part}/{slug:hub_part}", _paged(collection)),
]
for _repository in REPOSITORIES:
    ROUTES += [
        route("GET", _repository, _paged(folder)),
        route("GET", _repository + "/tree/{revision:hub_part}", _paged(folder)),
        route("GET", _repository + "/tree/{revision:hub_part}/{path:hub_rest}", _paged(folder)),
        route("GET", _repository + "/blob/{revision:hub_part}/{path:hub_rest}", _paged(file)),
        route("GET", _repository + "/commits/{revision:hub_part}", _paged(history)),
        route("GET", _repository + "/commit/{revision:hub_part}", _paged(one_commit)),
    ]
