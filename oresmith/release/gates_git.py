"""Gates of the moment of cutting: the working tree, and the version."""

from __future__ import annotations

from oresmith.errors import OresmithError
from oresmith.release.git import Repository
from oresmith.release.given import Given

COMMITTED = ("dvc.lock", "metrics", "plots")
"""What a cut commits beside the release: DVC's account of how it was made."""


def clean_tree(given: Given) -> str:
    """Whether git has nothing to say of the working tree, but of what the cut commits."""
    repository = Repository(given.root)
    others = [path for path in repository.changed() if path.split("/")[0] not in COMMITTED]
    if others:
        raise OresmithError(
            "the working tree is not clean",
            where=str(others[0]),
            expected=f"no change but to {', '.join(COMMITTED)}",
            got=f"{len(others)} other paths",
            todo="commit them, or put them away",
        )
    return f"clean at {repository.head()[:12]}, but for {', '.join(COMMITTED)}"


def version(given: Given) -> str:
    """Whether the version may follow the newest release, and was not cut elsewhere."""
    from oresmith.release.diff import bundle_side, compare, frozen_side
    from oresmith.release.freezing import tag_of
    from oresmith.release.versions import previous_of
    from oresmith.validation.versions import parse_version

    now = given.params.release.version
    repository, tag = Repository(given.root), tag_of(given.params.release.version)
    cut = repository.commit_of(f"refs/tags/{tag}")
    if cut is not None and not repository.ok("merge-base", "--is-ancestor", cut, "HEAD"):
        raise OresmithError(
            "this version was cut on another branch",
            where=tag,
            got=cut,
            todo=f"git merge {tag}, or delete the tag: git tag --delete {tag}",
        )
    previous = previous_of(given.root, given.params)
    if previous is None:
        return f"{now} is the first release"
    allowed = compare(frozen_side(previous, given.root), bundle_side(given.dataset.parent)).least
    if parse_version(now) < parse_version(allowed):
        raise OresmithError(
            "the version is too low for what has changed",
            where="params.yaml: release.version",
            expected=f"{allowed} or higher, after {previous}",
            got=now,
            todo=f"set release.version to {allowed} and run `dvc repro`",
        )
    return f"{now}, after {previous}: {allowed} at least"
