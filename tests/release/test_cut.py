"""The cut: what is refused, what is committed, and what a kill leaves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oresmith.errors import OresmithError
from oresmith.release.cut import cut
from oresmith.release.freezing import tag_of
from oresmith.release.layout import BUNDLE
from oresmith.release.plan import plan
from tests.pipeline.project import environment
from tests.release.bundle_world import FIRST, VERSION, Project, another, git, rewritten, silent, state, whole
from tests.release.verify_world import edit_json


def test_a_plan_writes_nothing(project: Project) -> None:
    before = project.tree("."), state(project.root)
    plan(project.root)
    assert (project.tree("."), state(project.root)) == before


def test_a_cut_commits_the_release_its_ledger_and_what_dvc_says_of_it_and_nothing_else(project: Project) -> None:
    root = project.root
    (root / "dvc.lock").write_text("schema: '2.0'\nstages: {}\n")
    (root / "metrics/new.json").write_text("{}\n")
    removed = next((root / "metrics").glob("score-*.json"))
    removed.unlink()
    made = cut(VERSION, root, tell=silent)
    assert made is not None and not made.again
    whole(root)
    changed = set(git(root, "diff", "--name-only", "HEAD^", "HEAD").splitlines())
    frozen = {path for path in changed if path.startswith(f"{FIRST}/")}
    assert changed - frozen == {"dvc.lock", "metrics/new.json", f"metrics/{removed.name}", "releases/ledger.jsonl"}
    assert {path.removeprefix(f"{FIRST}/").split("/")[0] for path in frozen} == {
        "release.json",
        "certificate",
        "scores",
        "rejects",
        "dataset.md",
        "model.md",
        "changelog.md",
        "provenance.json",
        "compare.json",
        "params.yaml",
        "columns.json",
    }
    assert (root / "releases/ledger.jsonl").read_bytes() == (root / "data/split/ledger.next.jsonl").read_bytes()
    assert git(root, "cat-file", "-t", tag_of(VERSION)) == "tag"
    assert git(root, "log", "-1", "--format=%an <%ae>") == "A Manager <manager@example.org>"


def test_the_same_inputs_cut_the_same_bytes(finished: Project, tmp_path: Path) -> None:
    trees = []
    for name in ("one", "other"):
        root = another(finished, tmp_path / name).root
        cut(VERSION, root, tell=silent)
        trees.append(git(root, "rev-parse", "HEAD^{tree}"))
    assert trees[0] == trees[1]


def test_a_dry_run_names_every_operation_and_does_none(project: Project) -> None:
    before, told = state(project.root), []
    assert cut(VERSION, project.root, dry_run=True, tell=told.append) is None
    assert state(project.root) == before and not (project.root / FIRST).exists()
    assert f"freeze {FIRST}/certificate/keys.tsv" in told
    assert any("ledger" in line for line in told) and any(tag_of(VERSION) in line for line in told)


def test_cutting_again_changes_nothing(project: Project) -> None:
    cut(VERSION, project.root, tell=silent)
    before = state(project.root)
    again = cut(VERSION, project.root, tell=silent)
    assert again is not None and again.again
    assert state(project.root) == before


def other_version(project: Project) -> None:
    project.write_params(release={"version": "0.3.0"})


def dirty(project: Project) -> None:
    (project.root / "notes.txt").write_text("x")


def staged(project: Project) -> None:
    (project.root / "notes.txt").write_text("x")
    git(project.root, "add", "notes.txt")


def no_identity(project: Project) -> None:
    for key in ("user.name", "user.email"):
        git(project.root, "config", "--unset", key)


def no_bundle(project: Project) -> None:
    shutil.rmtree(project.root / BUNDLE)


def changed_file(project: Project) -> None:
    (project.root / BUNDLE / "dataset/funnel.json").write_text("{}")


def failing_gate(project: Project) -> None:
    path = project.root / BUNDLE / "dataset/funnel.json"
    edit_json(path, lambda funnel: funnel.update(read=funnel["read"] + 98))
    rewritten(project.root)


def missing_score(project: Project) -> None:
    (project.root / BUNDLE / "dataset/scores/second.json").unlink()
    rewritten(project.root)


def other_parameters(project: Project) -> None:
    project.write_params(release={"title": "Another Title"})
    git(project.root, "commit", "--quiet", "--all", "--message", "another title")


def other_code(project: Project) -> None:
    for path in (project.root / BUNDLE).rglob("release.json"):
        edit_json(path, lambda told: told.update(code_tree="0" * 40))


def strange_folder(project: Project) -> None:
    (project.root / FIRST).mkdir()
    (project.root / FIRST / "x").write_text("x")


def strange_tag(project: Project) -> None:
    git(project.root, "tag", tag_of(VERSION))


def other_ledger(project: Project) -> None:
    path = project.root / "data/split/ledger.next.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def promoted_by_hand(project: Project) -> None:
    root = project.root
    (root / "releases/ledger.jsonl").write_bytes((root / "data/split/ledger.next.jsonl").read_bytes())
    git(root, "commit", "--quiet", "--all", "--message", "the ledger by hand")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (other_version, "name another version"),
        (dirty, "clean_tree.*notes.txt"),
        (staged, "clean_tree.*notes.txt"),
        (no_identity, "who commits"),
        (no_bundle, "cannot be read"),
        (changed_file, "has changed"),
        (failing_gate, "98 unexplained"),
        (missing_score, "second.json"),
        (other_parameters, "other parameters.*release"),
        (other_code, "other code"),
        (strange_folder, "git has no tag"),
        (strange_tag, "holds no such release"),
        (other_ledger, "another ledger"),
        (promoted_by_hand, "not at the release before"),
    ],
    ids=lambda value: getattr(value, "__name__", None) if callable(value) else None,
)
def test_a_refusal_says_why_and_changes_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Project], None], said: str
) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    spoil(project)
    before = state(project.root)
    with pytest.raises(OresmithError) as refused:
        cut(VERSION, project.root, tell=silent)
    message = " ".join(str(refused.value).split())
    import re

    assert re.search(said, message), message
    assert state(project.root) == before


def test_a_directory_without_git_is_refused(project: Project) -> None:
    shutil.rmtree(project.root / ".git")
    with pytest.raises(OresmithError, match="git repository"):
        cut(VERSION, project.root, tell=silent)


def test_a_version_that_was_cut_with_other_content_is_refused(project: Project) -> None:
    cut(VERSION, project.root, tell=silent)
    (project.root / BUNDLE / "dataset/README.md").write_text("other")
    rewritten(project.root)
    before = state(project.root)
    with pytest.raises(OresmithError, match="a release never changes"):
        cut(VERSION, project.root, tell=silent)
    assert state(project.root) == before


def test_work_of_the_user_in_the_ledger_is_never_thrown_away(project: Project) -> None:
    cut(VERSION, project.root, tell=silent)
    ledger = project.root / "releases/ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes() + b"{}\n")
    with pytest.raises(OresmithError, match="changed since the cut"):
        cut(VERSION, project.root, tell=silent)
    assert ledger.read_bytes().endswith(b"{}\n")


def with_dvc(project: Project) -> None:
    """The project is one of DVC's, as far as a cut looks."""
    (project.root / ".dvc").mkdir()
    (project.root / "dvc.yaml").write_text("stages: {}\n")
    git(project.root, "add", "dvc.yaml")
    git(project.root, "commit", "--quiet", "--message", "a pipeline")


def test_a_bundle_that_dvc_would_make_again_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with_dvc(project)
    stale = json.dumps({"cards": [{"changed deps": {"data/score": "modified"}}]})
    monkeypatch.setattr("oresmith.release.cut._dvc", lambda root, *arguments: (0, stale, ""))
    before = state(project.root)
    with pytest.raises(OresmithError, match="data/score"):
        cut(VERSION, project.root, tell=silent)
    assert state(project.root) == before


def test_the_cache_is_pushed_where_a_remote_is_set_and_again_after_a_failure(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_dvc(project)
    asked: list[tuple[str, ...]] = []
    answers = {"status": (0, "{}\n", ""), "config": (0, "storage\n", ""), "push": (1, "", "no route to host")}

    def dvc(root: Path, *arguments: str) -> tuple[int, str, str]:
        asked.append(arguments)
        return answers[arguments[0]]

    monkeypatch.setattr("oresmith.release.cut._dvc", dvc)
    told: list[str] = []
    cut(VERSION, project.root, dry_run=True, tell=told.append)
    assert told[-1] == "push the DVC cache to storage" and ("push",) not in asked
    with pytest.raises(OresmithError, match=r"(?s)the release is cut.*no route to host"):
        cut(VERSION, project.root, tell=silent)
    whole(project.root)
    answers["push"] = (0, "", "")
    again = cut(VERSION, project.root, tell=silent)
    assert again is not None and again.again and asked[-1] == ("push",)
    answers["config"] = (0, "\n", "")
    asked.clear()
    cut(VERSION, project.root, tell=silent)
    assert ("push",) not in asked


def killed(project: Project, where: str, moment: str) -> subprocess.CompletedProcess[str]:
    """A cut that kills itself there."""
    command = [sys.executable, "-m", "tests.release.cut_killer", VERSION, where, moment]
    return subprocess.run(
        command, cwd=project.root, env=environment(), capture_output=True, text=True, check=False, timeout=240
    )


def ended(root: Path) -> None:
    """Nothing half is there, and cutting again ends with the whole release."""
    tagged = bool(git(root, "tag", "--list", tag_of(VERSION)))
    in_git = bool(git(root, "ls-tree", "HEAD", FIRST))
    assert tagged == in_git, "half a release"
    assert in_git or not (root / FIRST).exists(), "half a release in the working tree"
    cut(VERSION, root, tell=silent)
    whole(root)


@pytest.mark.parametrize(
    ("verb", "moment", "there"),
    [
        ("write-tree", "after", False),
        ("update-ref", "before", False),
        ("update-ref", "after", True),
        ("reset", "after", True),
    ],
)
def test_a_cut_that_is_killed_leaves_none_or_a_whole_one_and_the_next_ends_it(
    project: Project, verb: str, moment: str, there: bool
) -> None:
    done = killed(project, verb, moment)
    assert done.returncode == -9, done.stderr
    assert bool(git(project.root, "tag", "--list", tag_of(VERSION))) is there
    ended(project.root)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cut_killed_around_each_call_of_git_is_ended_by_the_next(finished: Project, tmp_path: Path) -> None:
    done = killed(another(finished, tmp_path / "counted"), "0", "before")
    assert done.returncode == 0, done.stderr
    calls = int(done.stdout.split()[-1])
    assert calls > 20
    for place in range(calls + 1):  # what is after one call is before the next
        root = tmp_path / str(place)
        made = another(finished, root)
        done = killed(made, str(place or 1), "after" if place else "before")
        assert done.returncode == -9, (place, done.stderr)
        ended(root)
        shutil.rmtree(root)
