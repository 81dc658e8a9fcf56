"""Fixtures of the tests of training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.project import Project
from tests.training.project import copied, corpus_project, inside


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a certified corpus and the tiny base model. Not to be changed."""
    return corpus_project(tmp_path_factory.mktemp("certified"))


@pytest.fixture
def project(certified: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy of it that is the working directory."""
    made = copied(certified, tmp_path / "project")
    with inside(made):
        yield made
