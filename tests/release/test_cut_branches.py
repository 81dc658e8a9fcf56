"""A cut goes to a branch, and a version that was cut on another one is not cut twice."""

from __future__ import annotations

import pytest

from oresmith.errors import OresmithError
from oresmith.release.cut import cut
from oresmith.release.freezing import tag_of
from oresmith.release.plan import plan
from tests.release.bundle_world import VERSION, Project, git, silent, state, whole


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_cut_without_a_branch_is_refused_and_says_what_to_do(project: Project, dry_run: bool) -> None:
    root = project.root
    git(root, "checkout", "--quiet", "--detach")
    before = state(root)
    with pytest.raises(OresmithError, match=r"(?s)no branch is checked out.*git switch BRANCH"):
        cut(VERSION, root, dry_run=dry_run, tell=silent)
    assert state(root) == before
    git(root, "switch", "--quiet", "--create", "releases")
    assert cut(VERSION, root, tell=silent) is not None
    whole(root)


def test_a_version_that_was_cut_on_another_branch_stops_plan_and_cut_until_it_is_merged(project: Project) -> None:
    root, tag = project.root, tag_of(VERSION)
    git(root, "switch", "--quiet", "--create", "other")
    cut(VERSION, root, tell=silent)
    git(root, "switch", "--quiet", "main")
    told = {gate.name: gate for gate in plan(root).gates}["version"]
    assert told.state == "failed" and f"git merge {tag}" in told.detail and "delete the tag" in told.detail
    with pytest.raises(OresmithError, match=rf"(?s)another branch.*git merge {tag}, or delete the tag"):
        cut(VERSION, root, tell=silent)
    git(root, "merge", "--quiet", tag)
    again = cut(VERSION, root, tell=silent)
    assert again is not None and again.again
    whole(root)


def test_a_tag_that_is_deleted_lets_the_version_be_cut_here(project: Project) -> None:
    root = project.root
    git(root, "switch", "--quiet", "--create", "other")
    cut(VERSION, root, tell=silent)
    git(root, "switch", "--quiet", "main")
    git(root, "tag", "--delete", tag_of(VERSION))
    made = cut(VERSION, root, tell=silent)
    assert made is not None and not made.again
    whole(root)
