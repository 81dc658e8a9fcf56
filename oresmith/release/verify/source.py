"""Opening what is to be verified: a folder, or a tagged revision of a repository, which is fetched first."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.release.layout import DATASET, PARTS, RELEASE_FILE, RELEASES, YANKED_FILE
from oresmith.release.manifest import Yanked, read_record, read_release
from oresmith.release.verify.fetch import fetch, named
from oresmith.release.verify.opened import UNSIGNED, Keys, Kind, Opened

Tell = Callable[[str], None]


@contextmanager
def open_source(
    source: str, *, endpoint: str | None = None, keys: Keys = UNSIGNED, tell: Tell = lambda line: None
) -> Iterator[Opened]:
    """Open a release; what was fetched is gone afterwards.

    Args:
        source: a folder (a bundle, its `dataset` or `model`, a downloaded repository), or `org/name@tag`, with
            `datasets/` or `models/` before it where both exist.
        endpoint: URL of the Hub; by default HF_ENDPOINT, else the Hub.
        keys: who must have signed.
        tell: takes a line on what is fetched.

    Raises:
        OresmithError: neither, no tag, no such repository or revision, or a name in it that no release has.
    """
    folder = Path(source)
    if folder.is_dir():
        yield _of_folder(source, folder, keys)
        return
    repository = named(source)
    if repository is None:
        raise OresmithError(
            "nothing to verify",
            where=source[:200],
            expected="a folder, or org/name@tag",
            todo="name the tag, such as org/name@1.0.0: a branch is no release" if "/" in source else "",
        )
    with tempfile.TemporaryDirectory(prefix="oresmith-verify-") as temporary:
        fetched = fetch(repository, Path(temporary) / "files", endpoint=endpoint, tell=tell)
        kind: Kind = "dataset" if fetched.kind == DATASET else "model"
        yield Opened(source, kind, fetched.folder, {kind: fetched.folder}, repository.tag, fetched.yanked, keys)


def _of_folder(source: str, folder: Path, keys: Keys) -> Opened:
    if all((folder / part).is_dir() for part in PARTS) and (folder / RELEASE_FILE).is_file():
        folders = {part: folder / part for part in PARTS}
        return Opened(source, "bundle", folder, folders, yanked=_yanked(folder), keys=keys)
    kind: Kind = "model" if (folder / "config.json").is_file() else "dataset"
    if kind == "dataset" and not any(
        (folder / name).exists() for name in (RELEASE_FILE, "trajectories", "certificate")
    ):
        raise OresmithError(
            "this folder holds no release",
            where=str(folder),
            expected="dataset/ and model/ with release.json, or one of the two",
        )
    return Opened(source, kind, folder, {kind: folder}, keys=keys)


def _yanked(bundle: Path) -> str | None:
    """Why the version of a project's own bundle was withdrawn, as its frozen folder says."""
    try:
        version = read_release(bundle).version
        path = bundle.resolve().parents[1] / RELEASES / version / YANKED_FILE
        return read_record(path, Yanked).reason if path.is_file() else None
    except (OresmithError, IndexError):
        return None  # the check of the hashes says what is wrong with the bundle
