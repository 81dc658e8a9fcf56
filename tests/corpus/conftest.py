"""A small world whose stages are done once, and copies of it for tests that change something."""

from __future__ import annotations

import pytest

from tests.corpus.build import add_world, assign, build_corpus, cases, copied
from tests.pipeline.project import Project
from tests.worlds import make_world


@pytest.fixture(scope="package")
def world():
    return make_world(7, problems=12)


@pytest.fixture(scope="package")
def base(tmp_path_factory, world):
    """A project whose stages up to `split` are done."""
    project = Project(tmp_path_factory.mktemp("base"))
    add_world(project, "one", world, cases(world, 1))
    project.write_params(evidence={"tokenizer": "none"})
    project.run("snapshots", "normalize", "evidence", "gate")
    assign(project, ["one"])
    return project


@pytest.fixture(scope="package")
def done(base, tmp_path_factory):
    project = copied(base, tmp_path_factory.mktemp("done") / "project")
    build_corpus(project)
    return project


@pytest.fixture
def fresh(base, tmp_path):
    return copied(base, tmp_path / "project")
