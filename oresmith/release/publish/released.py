"""`oresmith publish X.Y.Z`: the frozen release, its bundle, the Hub it goes to, and the note of where it stands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.release.history import find_release
from oresmith.release.layout import BUNDLE, DATASET, MODEL, PUBLISHED_FILE, RELEASES, YANKED_FILE
from oresmith.release.manifest import Published, Release, encode, read_release
from oresmith.release.publish.loading import front_matter
from oresmith.release.publish.publication import Tell
from oresmith.release.publish.publishing import publish
from oresmith.release.publish.session import open_api, patient_requests, patiently
from oresmith.release.publish.target import PublishError, Target, on_this_machine, target_from_environment
from oresmith.stage import write_small

HUB = Path("hub")
"""Where the embedded Hub keeps what it holds, as for `oresmith hub serve`."""
PORT = 8932
"""The embedded Hub's, as for `oresmith hub serve`: what is written down of a publication stays true."""


def publish_release(
    version: str,
    root: Path = Path(),
    *,
    endpoint: str | None = None,
    hub: Path = HUB,
    port: int = PORT,
    private: bool = False,
    dry_run: bool = False,
    tell: Tell = print,
) -> Published | None:
    """Publish a release that was cut, and write down where it stands. Repeated, it ends the same.

    Args:
        version: X.Y.Z.
        root: of the project.
        endpoint: of the Hub; by default HF_ENDPOINT, and the embedded one where that is not set either.
        hub: where the embedded Hub keeps what it holds.
        port: of the embedded Hub.
        private: leave the repositories private.
        dry_run: name every operation and do none.
        tell: takes one line for each operation.

    Raises:
        OresmithError: it was not cut, or is yanked; the bundle is another one; it was published on another Hub;
            the Hub refuses (`publish`).
    """
    known = find_release(version, root)
    if known.yanked is not None:
        raise OresmithError(
            "this release is yanked",
            where=str(known.folder / YANKED_FILE),
            got=known.yanked.reason,
            todo=f"oresmith release unyank {version}, or cut a new version",
        )
    bundle = root / BUNDLE
    made = read_release(bundle)
    if made.version != version or made.content_sha256 != known.release.content_sha256:
        raise OresmithError(
            "the bundle is not the release that was cut",
            where=str(bundle),
            expected=f"{version}, {known.release.content_sha256[:12]}",
            got=f"{made.version}, {made.content_sha256[:12]}",
            todo=f"git checkout the commit that cut {version}, then `dvc repro` (or `dvc checkout`)",
        )
    with open_target(known.release, endpoint, hub=root / hub, port=port, private=private) as target:
        if known.published is not None:
            _check_place(known.published, target)
        found = publish(
            bundle,
            known.release,
            target,
            title=_title(bundle),
            earlier=known.published,
            dry_run=dry_run,
            tell=tell,
        )
    if found is not None:
        write_small(known.folder / PUBLISHED_FILE, encode(found))
        for line in loading_lines(found):
            tell(line)
    return found


@contextmanager
def open_target(
    release: Release, endpoint: str | None = None, *, hub: Path = HUB, port: int = PORT, private: bool = False
) -> Iterator[Target]:
    """The Hub of `endpoint` or HF_ENDPOINT with the user's token; else the embedded one, while the block lasts.

    Args:
        release: names the owners that the embedded Hub knows.
        endpoint: of a Hub that runs; the embedded one's own starts it.
        hub: where the embedded Hub keeps what it holds.
        port: of the embedded Hub.
        private: see `Target`.

    Raises:
        OresmithError: no token, or the embedded Hub cannot start.
    """
    if os.environ.get("HF_ENDPOINT") or endpoint not in (None, f"http://127.0.0.1:{port}"):
        yield target_from_environment(endpoint, private=private)
        return
    from oresmith.release.hub.server import serve

    owners = dict.fromkeys(part.repository.partition("/")[0] for part in (release.dataset, release.model))
    with serve(hub, port=port, owners=tuple(owners)) as served:
        yield Target(served.endpoint, served.token, private)


def _check_place(known: Published, target: Target) -> None:
    """The Hub is that of the note. One of this machine may have another port, where it holds what the note names.

    Raises:
        PublishError: it is another Hub; the note would forget where the release stands.
    """
    noted = known.endpoint.rstrip("/")
    if noted == target.endpoint or (on_this_machine(noted) and target.local and _holds(target, known)):
        return
    note = RELEASES / known.version / PUBLISHED_FILE
    raise PublishError(
        "this release was published on another Hub",
        where=str(note),
        expected=noted,
        got=target.endpoint,
        todo=f"publish it there (--endpoint {noted}); to have it here in place of there, remove {note}",
    )


def _holds(target: Target, known: Published) -> bool:
    """Whether the Hub has the very commits that a note names."""
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    api = open_api(target)

    def look() -> bool:
        try:
            for kind, part in ((DATASET, known.dataset), (MODEL, known.model)):
                api.repo_info(part.repository, repo_type=kind, revision=part.commit)
        except (RepositoryNotFoundError, RevisionNotFoundError):
            return False
        return True

    with patient_requests(target):
        return patiently(look, target.patience, "say whether it holds this release")


def loading_lines(found: Published) -> list[str]:
    """What loads a published release."""
    lines = [
        f'datasets.load_dataset("{found.dataset.repository}", "sft", revision="{found.version}")',
        f'transformers.AutoModelForCausalLM.from_pretrained("{found.model.repository}", revision="{found.version}")',
        f"oresmith verify {found.dataset.repository}@{found.version}",
    ]
    return [f"published {found.version} at {found.endpoint}; with HF_ENDPOINT={found.endpoint} it loads by", *lines]


def _title(bundle: Path) -> str | None:
    """The name of the release, from the card: the collection is called like it."""
    title = front_matter(bundle / "dataset" / "README.md").get("pretty_name")
    return title.strip() or None if isinstance(title, str) else None
