"""A rehearsal clones what is committed, goes from cut to verify there, and leaves the checkout as it is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from oresmith.errors import OresmithError
from oresmith.params import load_params
from oresmith.release import rehearsal
from oresmith.release.history import find_release, known_releases
from oresmith.release.hub import server
from oresmith.release.layout import BUNDLE, RELEASES
from oresmith.release.manifest import read_release
from oresmith.release.rehearsal import AUTHOR, CLONE, rehearse
from stages import bundle
from tests.code_deps import ROOT
from tests.pipeline.project import Project, environment
from tests.release.bundle_world import VERSION, another, git, silent, state
from tests.release.page_stages import real_cards
from tests.release.publish.hubs import free_port
from tests.release.publish.small import small_bundle
from tests.training.project import inside

SMALL = "1.0.0"


@contextmanager
def no_hub(*_: object, **__: object) -> Iterator[server.Served]:
    yield server.Served("http://127.0.0.1:1", "", 0)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A committed project with a bundle of a few small files."""
    root = tmp_path / "project"
    small_bundle(root / BUNDLE)
    shutil.copy(ROOT / ".gitignore", root)
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\n")
    (root / "notes.txt").write_text("committed")
    (root / "dvc.lock").write_text("schema: '2.0'\n")
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "config", "user.name", "A Manager")
    git(root, "config", "user.email", "manager@example.org")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "a project")
    return root


@pytest.fixture
def commands(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What a rehearsal runs in the clone. None of it runs: DVC's checkout is a copy of data/, the rest is noted."""
    noted: list[list[str]] = []

    def note(clone: Path, command: list[str], env: object = None) -> None:
        noted.append(command[2:])
        if command[2] == "dvc":
            shutil.copytree(checkout / "data", clone / "data", dirs_exist_ok=True)

    monkeypatch.setattr(rehearsal, "_run", note)
    monkeypatch.setattr(rehearsal, "cache_of", lambda root: root / ".dvc/cache")
    monkeypatch.setattr(server, "serve", no_hub)
    return noted


def test_it_cuts_publishes_and_verifies_both_parts_in_a_clone_of_the_commit(
    checkout: Path, commands: list[list[str]]
) -> None:
    (checkout / "dvc.lock").write_text("schema: '2.0'\nstages: {}\n")
    before = state(checkout)
    rehearse(checkout, port=7, tell=silent)
    assert commands == [
        ["dvc", "checkout", "--quiet"],
        ["oresmith", "release", "cut", SMALL],
        ["oresmith", "publish", SMALL, "--port", "7"],
        ["oresmith", "verify", f"datasets/acme/things@{SMALL}"],
        ["oresmith", "verify", f"models/acme/things-model@{SMALL}"],
    ]
    clone = checkout / CLONE
    assert git(clone, "rev-parse", "HEAD") == git(checkout, "rev-parse", "HEAD")
    assert (clone / "dvc.lock").read_bytes() == (checkout / "dvc.lock").read_bytes()
    assert {key: git(clone, "config", key) for key in AUTHOR} == AUTHOR
    assert state(checkout) == before and git(checkout, "config", "user.name") == "A Manager"


def test_repeated_it_keeps_the_clone_and_another_bundle_makes_it_anew(
    checkout: Path, commands: list[list[str]]
) -> None:
    told: list[str] = []
    rehearse(checkout, tell=told.append)
    mark = checkout / CLONE / "hub/mark"
    mark.parent.mkdir()
    mark.write_text("of the first")
    first = list(commands)
    commands.clear()
    rehearse(checkout, tell=told.append)
    assert commands == first and mark.exists()  # the checkout as well: an earlier one may have ended halfway
    shutil.rmtree(checkout / BUNDLE)
    made = small_bundle(checkout / BUNDLE, rows=9)
    commands.clear()
    rehearse(checkout, tell=told.append)
    assert commands == first and not mark.exists()
    assert read_release(checkout / CLONE / BUNDLE) == made
    assert f"{CLONE} is not of this bundle: it is made anew" in told


def test_a_clone_of_an_earlier_commit_that_was_never_cut_is_made_anew(
    checkout: Path, commands: list[list[str]]
) -> None:
    rehearse(checkout, tell=silent)
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "mended")
    rehearse(checkout, tell=silent)
    assert git(checkout / CLONE, "rev-parse", "HEAD") == git(checkout, "rev-parse", "HEAD")


def test_a_checkout_without_a_branch_is_rehearsed_on_one_of_the_clones_own(
    checkout: Path, commands: list[list[str]]
) -> None:
    git(checkout, "checkout", "--quiet", "--detach")
    rehearse(checkout, tell=silent)
    assert git(checkout / CLONE, "symbolic-ref", "--short", "HEAD")
    assert git(checkout / CLONE, "rev-parse", "HEAD") == git(checkout, "rev-parse", "HEAD")


@pytest.mark.parametrize("path", ["notes.txt", "new.txt"])
def test_a_dirty_checkout_is_refused_and_the_file_is_named(
    checkout: Path, commands: list[list[str]], path: str
) -> None:
    (checkout / path).write_text("not committed")
    with pytest.raises(OresmithError, match=f"(?s)clones what is committed.*{path}"):
        rehearse(checkout, tell=silent)
    assert not commands and not (checkout / CLONE).exists()


def test_what_a_run_writes_beside_its_data_is_no_dirt(checkout: Path, commands: list[list[str]]) -> None:
    for path in ("dvc.lock", "metrics/new.json", "plots/new.csv"):
        (checkout / path).parent.mkdir(exist_ok=True)
        (checkout / path).write_text("{}")
    rehearse(checkout, tell=silent)
    assert (checkout / CLONE / "metrics/new.json").is_file() and (checkout / CLONE / "plots/new.csv").is_file()


def test_a_version_that_was_cut_here_is_refused(checkout: Path, commands: list[list[str]]) -> None:
    (checkout / RELEASES / SMALL).mkdir(parents=True)
    with pytest.raises(OresmithError, match=f"(?s)cut here already.*oresmith publish {SMALL}"):
        rehearse(checkout, tell=silent)
    assert not commands and not (checkout / CLONE).exists()


def test_a_command_that_refuses_ends_it(checkout: Path) -> None:
    with pytest.raises(OresmithError, match=r"(?s)a step of the rehearsal failed.*oresmith release cut 1\.0\.0"):
        rehearsal._command(checkout, "release", "cut", SMALL)


def test_without_a_bundle_it_says_so(checkout: Path) -> None:
    shutil.rmtree(checkout / BUNDLE)
    with pytest.raises(OresmithError, match="cannot be read"):
        rehearse(checkout, tell=silent)


def dvc(root: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=root,
        env=environment(DVC_NO_ANALYTICS="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def under_dvc(project: Project) -> Path:
    """One stage whose outputs are all of data/, as `dvc repro` would leave it; only its command is none."""
    root = project.root
    shutil.copy(ROOT / ".gitignore", root)
    made = sorted(path.name for path in (root / "data").iterdir() if path.is_dir() and path.name[0] != ".")
    outs = [f"data/{name}" for name in made if name != "observed"]
    pipeline = {"stages": {"bundle": {"cmd": "true", "outs": outs}}}
    (root / "dvc.yaml").write_text(yaml.safe_dump(pipeline))
    dvc(root, "init", "--quiet")
    dvc(root, "commit", "--quiet", "--force", "bundle")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "under DVC")
    return root


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_whole_rehearsal_ends_with_a_published_release_in_the_clone_alone(
    finished: Project, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project = another(finished, tmp_path / "project")
    with inside(project):
        real_cards(VERSION)
        bundle.run(load_params())
    root, port = under_dvc(project), free_port()
    before = state(root)
    for _ in range(2):
        rehearse(root, port=port, tell=silent)
        assert capfd.readouterr().out.count("the release holds") == 2
    assert state(root) == before and not known_releases(root)
    found = find_release(VERSION, root / CLONE)
    assert found.state == "published" and found.published is not None
    assert found.published.endpoint == f"http://127.0.0.1:{port}"
    assert git(root / CLONE, "log", "-1", "--format=%an") == AUTHOR["user.name"]
    assert json.loads((root / CLONE / BUNDLE / "release.json").read_text())["version"] == VERSION
