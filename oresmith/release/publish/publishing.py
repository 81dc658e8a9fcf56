"""`publish`: a release goes from a bundle to two repositories of a Hub, whole or not at all."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import cast

from oresmith.release.layout import DATASET, MODEL, PARTS
from oresmith.release.manifest import Published, PublishedRepository, Release
from oresmith.release.publish.loading import check_loaders, load_back
from oresmith.release.publish.preflight import check_bundle, check_place, check_rights
from oresmith.release.publish.publication import Publication, State, Tell
from oresmith.release.publish.remote import Kind, Remote
from oresmith.release.publish.session import open_api, passes, patient_requests, patiently, status_of
from oresmith.release.publish.target import PublishError, Target

_LONGEST_TITLE = 59


def publish(
    bundle: Path,
    release: Release,
    target: Target,
    *,
    title: str | None = None,
    earlier: Published | None = None,
    dry_run: bool = False,
    tell: Tell = print,
) -> Published | None:
    """Put a release on a Hub; repeated after any interruption it ends the same.

    Both repositories come to TAGGED (`publication.State`) and are loaded back by the tag before either is shown, listed
    in the collection, or seen on `main`.

    Args:
        bundle: the bundle (`data/bundle`), with the folders `dataset` and `model`.
        release: its manifest, as `releases/X.Y.Z/release.json` has it; every file of the bundle is held against it.
        target: the Hub and the token.
        title: of the collection that holds both repositories; by default the name of the dataset.
        earlier: what an earlier run on the same Hub wrote down; a tag that has moved since is refused.
        dry_run: name every operation and do none.
        tell: takes one line for each operation.

    Returns:
        Where the release stands; None for a dry run.

    Raises:
        PublishError: refused before anything is uploaded (rights, names, limits, a bundle that is not the release, a
            version that exists with other content), or given up after bounded tries. One more run goes on.
    """
    checked = {kind: check_bundle(bundle, release, kind) for kind in PARTS}
    check_loaders(bundle)
    with patient_requests(target):
        parts = []
        for kind in PARTS:
            remote = Remote(target, cast(Kind, kind), release.part(kind).repository)
            parts.append(Publication(remote, bundle / kind, *checked[kind], tell, dry_run))
        check_rights(target, [part.remote for part in parts])
        for part in parts:
            part.observe()
            check_place(part, earlier)
        for part in parts:
            part.advance(State.TAGGED)
        for part in parts:
            if part.seen.state == State.TAGGED:
                _load(part)
        for part in parts:
            _show(part)
        collection = _collect(parts, title or release.dataset.repository.partition("/")[2])
        for goal in (State.PROMOTED, State.PUBLISHED):
            for part in parts:
                part.advance(goal)
    return None if dry_run else _published(release, target, parts, collection)


def _load(part: Publication) -> None:
    part.tell(f"{part.remote}: load it back by tag {part.version}")
    if not part.dry_run:
        load_back(part.remote, part.folder, part.version)


def _show(part: Publication) -> None:
    """Make a repository visible, where it is not and shall be; one that is not there yet would be made private."""
    remote = part.remote
    if remote.target.private or (part.seen.look is not None and not remote.private()):
        return
    part.tell(f"{remote}: make it public")
    if not part.dry_run:
        remote.ask(
            "change the visibility",
            lambda: remote.api.update_repo_settings(remote.name, repo_type=remote.kind, private=False),
        )


def _collect(parts: list[Publication], title: str) -> str:
    """Put both repositories into one collection of the dataset's owner; returns its slug."""
    owner, first = parts[0].remote.name.partition("/")[0], parts[0]
    title = title[:_LONGEST_TITLE].strip()
    first.tell(f"collection {owner}/{title}: holds both repositories")
    if first.dry_run:
        return ""
    target = first.remote.target
    slug = patiently(lambda: _collection(target, owner, title), target.patience, "keep a collection")
    for part in parts:
        patiently(partial(_item, slug, part.remote), target.patience, "list a repository in a collection")
    return slug


def _collection(target: Target, owner: str, title: str) -> str:
    from huggingface_hub.errors import HfHubHTTPError

    try:
        made = open_api(target).create_collection(title, namespace=owner, private=target.private)
    except HfHubHTTPError as error:
        slug = _named_slug(error) if status_of(error) == 409 else None
        if slug is None:
            raise
        return slug
    return made.slug


def _named_slug(error: Exception) -> str | None:
    """The collection that a conflict names: the one that is there."""
    try:
        return str(error.response.json()["slug"])  # type: ignore[attr-defined]
    except (ValueError, KeyError, TypeError):
        return None


def _item(slug: str, remote: Remote) -> None:
    api, kind = remote.api, remote.kind
    try:
        api.add_collection_item(slug, remote.name, kind)
    except Exception as error:
        if not passes(error):
            raise
        if not any((item.item_id, item.item_type) == (remote.name, kind) for item in api.get_collection(slug).items):
            raise


def _published(release: Release, target: Target, parts: list[Publication], collection: str) -> Published:
    stands: dict[str, PublishedRepository] = {}
    for part in parts:
        look = part.seen.look
        if look is None:
            raise PublishError("the repository is gone", where=str(part.remote))
        stands[part.remote.kind] = PublishedRepository(
            repository=part.remote.name,
            commit=look.tags[part.version],
            main=None if part.seen.superseded else look.main,
        )
    return Published(
        version=release.version,
        endpoint=target.endpoint,
        dataset=stands[DATASET],
        model=stands[MODEL],
        collection=collection or None,
    )
