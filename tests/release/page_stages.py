"""`dvc repro` for the test of docs/releasing.md: the stages of the small project, in its directory, without DVC.

The first time they make the first release's cards and bundle; once a release was cut, a snapshot and a pool more.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import yaml

from oresmith.params import load_params
from oresmith.release.history import versions_of
from oresmith.release.layout import CARDS
from stages import bundle, cards
from tests.pipeline.project import Project
from tests.release import bundle_world


def real_cards(version: str) -> None:
    """The stage, in place of cards in outline."""
    params = load_params()
    assert params.release.version == version
    shutil.rmtree(CARDS, ignore_errors=True)
    cards.run(params)


def main() -> None:
    """Do what the page's `dvc repro` does."""
    assert sys.argv[1:] == ["repro"], sys.argv
    root = Path.cwd()
    project = Project(root)
    project.params = yaml.safe_load((root / "params.yaml").read_text())
    bundle_world.write_cards = real_cards
    if versions_of(root):
        bundle_world.grown(project)
    else:
        real_cards(bundle_world.VERSION)
        bundle.run(load_params())


if __name__ == "__main__":
    main()
