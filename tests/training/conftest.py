"""Fixtures of the tests of training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oresmith.training.rowset import RowSet
from oresmith.training.step import OpenStep
from tests.pipeline.project import Project
from tests.training.players import StopBeforeTrainingError
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


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[RowSet]:
    """The rows that steps were to train on: each ends there, as if it was killed."""
    rows: list[RowSet] = []

    def fit(step: OpenStep, found: RowSet) -> None:
        rows.append(found)
        raise StopBeforeTrainingError

    monkeypatch.setattr(OpenStep, "fit", fit)
    return rows
