"""The smoke profile goes all the way: every stage on the tiny model, and a bundle in which verify finds nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.code_deps import ROOT
from tests.pipeline.project import environment

WANTED = ("oresmith", "stages", "schemas", "cards", "releases", "snapshots", "profiles")
FILES = ("dvc.yaml", "params.yaml", ".dvcignore", ".gitignore")


def run(where: Path, *words: str) -> str:
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    plain = environment(PATH=search, DVC_NO_ANALYTICS="1", PYTHONPATH=str(where))
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=where, env=plain, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_make_release_with_the_smoke_profile_ends_with_a_bundle_that_holds(tmp_path: Path) -> None:
    for name in WANTED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copyfile(ROOT / name, tmp_path / name)
    run(tmp_path, "dvc", "init", "--no-scm", "--quiet")
    run(tmp_path, "oresmith", "profile", "smoke")
    where = tmp_path / "runs/smoke"
    run(where, "dvc", "repro", "--quiet")
    assert "the release holds" in run(where, "oresmith", "verify", "data/bundle")
