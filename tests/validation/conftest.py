"""One finished corpus for all tests here; whoever breaks it breaks a copy."""

from __future__ import annotations

import pytest

from tests.pipeline.project import Project
from tests.validation.build import finished


@pytest.fixture(scope="session")
def corpus_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The demo snapshot up to stage corpus. Not to be changed."""
    return finished(tmp_path_factory.mktemp("finished"))
