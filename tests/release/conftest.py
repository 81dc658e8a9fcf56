"""Projects that are ready to be released, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from oresmith.release.cut import cut
from tests.release.bundle_world import VERSION, Project, another, git, grown, ready, silent


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose first release is bundled and not cut. Not to be changed."""
    return ready(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A copy of it."""
    return another(finished, tmp_path / "project")


@pytest.fixture(scope="session")
def second(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The first release is cut; the second, with a snapshot more and another pool, is bundled. Not to be changed."""
    made = another(finished, tmp_path_factory.mktemp("second") / "project")
    cut(VERSION, made.root, tell=silent)
    grown(made)
    git(made.root, "add", "params.yaml", "snapshots", "metrics", "plots")
    git(made.root, "commit", "--quiet", "--message", "a second snapshot")
    return made
