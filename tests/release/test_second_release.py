"""A second release: what it keeps of the first, its plan, differences, states, and the commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from typer import Typer
from typer.testing import CliRunner

from oresmith import cli_release
from oresmith.errors import OresmithError
from oresmith.leakage.ledger import read_ledger
from oresmith.release.cut import cut
from oresmith.release.diff import bundle_side, compare, frozen_side
from oresmith.release.history import find_release, known_releases
from oresmith.release.layout import BUNDLE, PUBLISHED_FILE, RELEASES, YANKED_FILE
from oresmith.release.life import unyank_release, yank_release
from oresmith.release.manifest import Published, PublishedRepository, Yanked, encode, read_release
from oresmith.release.plan import plan
from tests.release.bundle_world import FIRST, SECOND, VERSION, Project, another, git, rewritten, silent, whole
from tests.training.project import inside


def test_a_plan_names_version_gates_and_difference(finished: Project, second: Project) -> None:
    first = plan(finished.root)
    assert first.allowed and first.least is None and first.diff is None and first.state is None
    later = plan(second.root)
    assert later.allowed, [gate for gate in later.gates if gate.state == "failed"]
    assert (later.previous, later.least, later.version) == (VERSION, SECOND, SECOND)
    assert later.diff is not None and later.diff.counts["added"] > 0


def test_a_version_too_low_for_the_change_is_refused_by_plan_and_cut(second: Project, tmp_path: Path) -> None:
    project = another(second, tmp_path / "project")
    project.write_params(release={"version": "0.1.1"})
    git(project.root, "commit", "--quiet", "--all", "--message", "too low")
    path = project.root / BUNDLE / "dataset/params.yaml"
    stated = yaml.safe_load(path.read_text())
    stated["release"]["version"] = "0.1.1"
    path.write_text(yaml.safe_dump(stated, sort_keys=False))
    rewritten(project.root)
    found = {gate.name: gate for gate in plan(project.root).gates}
    assert found["version"].state == "failed" and "0.2.0 or higher" in found["version"].detail
    with pytest.raises(OresmithError, match=r"0\.2\.0 or higher"):
        cut("0.1.1", project.root, tell=silent)


def test_a_second_release_keeps_every_assignment_and_uploads_no_old_shard_again(second: Project) -> None:
    root = second.root
    old, new = find_release(VERSION, root).release, read_release(root / BUNDLE)
    shards = {file.path: file.sha256 for file in old.dataset.files if file.path.split("/")[0] in CORPUS}
    later = {file.path: file.sha256 for file in new.dataset.files}
    assert shards and {path: later.get(path) for path in shards} == shards
    assert {path.split("/")[1].split("-")[0] for path in later if path.startswith("heldout/")} == {
        "heldout_2026_05_02",
        "heldout_2026_06_01",
    }
    assert new.previous == VERSION


CORPUS = ("trajectories", "sft", "kto", "grpo", "subtask", "heldout", "heldout_gold", "rejects")


def test_a_second_cut_appends_to_the_ledger_and_leaves_the_first_release_alone(second: Project, tmp_path: Path) -> None:
    project = another(second, tmp_path / "project")
    root = project.root
    before, first = (root / "releases/ledger.jsonl").read_bytes(), git(root, "rev-parse", f"HEAD:{FIRST}")
    cut(SECOND, root, tell=silent)
    whole(root, SECOND)
    assert (root / "releases/ledger.jsonl").read_bytes().startswith(before)
    assert [line.release for line in read_ledger(root / "releases/ledger.jsonl")][-1] == SECOND
    assert git(root, "rev-parse", f"HEAD:{FIRST}") == first
    assert [one.version for one in known_releases(root)] == [VERSION, SECOND]


def test_a_difference_names_rows_with_their_reasons_parameters_scores_and_files(second: Project) -> None:
    found = compare(frozen_side(VERSION, second.root), bundle_side(second.root / BUNDLE))
    assert found.counts == {"added": len(found.rows), "removed": 0, "edited": 0, "moved": 0}
    assert {row.reason for row in found.rows} == {"snapshot two is new"}
    assert found.parameters["split.held_out"] == ("2026-05-02", "2026-06-01")
    assert found.parameters["snapshots[two].path"] == ("absent", "snapshots/two")
    assert [score.difference.partition(":")[0] for score in found.scores] == ["not comparable"] * 2
    assert found.files["kept"] > 0 and found.code is None
    back = compare(bundle_side(second.root / BUNDLE), frozen_side(VERSION, second.root))
    assert {row.reason for row in back.rows} == {"snapshot two is gone"} and back.least == "1.0.0"


def test_a_row_that_a_gate_now_rejects_is_told_with_the_reason(second: Project, tmp_path: Path) -> None:
    root = another(second, tmp_path / "project").root
    keys = root / FIRST / "certificate/keys.tsv"
    header, *lines = keys.read_text().splitlines(keepends=True)
    import polars as pl

    rejected = pl.read_parquet(root / BUNDLE / "dataset/rejects/*.parquet").filter(
        pl.col("trajectory_id").is_not_null()
    )
    row, reason = rejected["trajectory_id"][0], rejected["reason"][0]
    cells = next(line for line in lines if line.split("\t")[1] == "trajectories").split("\t")
    keys.write_text(header + "".join(lines) + "\t".join([row, *cells[1:]]))
    found = compare(frozen_side(VERSION, root), bundle_side(root / BUNDLE))
    assert [(one.row_id, one.reason) for one in found.rows if one.change == "removed"] == [
        (row, f"is rejected: {reason}")
    ]
    assert found.least == "1.0.0"


def test_scores_of_the_same_problems_are_tested_in_pairs(second: Project, tmp_path: Path) -> None:
    root = another(second, tmp_path / "project").root
    old, new = root / FIRST / "scores", root / BUNDLE / "dataset/scores"
    for name in ("first", "second"):
        for ending in ("json", "parquet"):
            shutil.copy(old / f"first.{ending}", old / f"{name}.{ending}") if name == "second" else None
            shutil.copy(old / f"first.{ending}", new / f"first.{ending}")
    original = find_release(VERSION, second.root).folder / "scores"
    for ending in ("json", "parquet"):
        shutil.copy(original / f"second.{ending}", new / f"second.{ending}")
    found = {
        one.model: one.difference for one in compare(frozen_side(VERSION, root), bundle_side(root / BUNDLE)).scores
    }
    assert found["first"] == "the same rows"
    assert found["second"].startswith("+50.0 points (") and found["second"].endswith("8 problems, swaps p = 0.5000")


def test_states_are_told_by_what_exists(project: Project) -> None:
    root = project.root
    cut(VERSION, root, tell=silent)
    folder = root / FIRST
    assert find_release(VERSION, root).state == "cut"
    place = PublishedRepository(repository="o/n", commit="0" * 40, main=None)
    told = Published(version=VERSION, endpoint="http://127.0.0.1:1", dataset=place, model=place, collection=None)
    (folder / PUBLISHED_FILE).write_bytes(encode(told))
    assert find_release(VERSION, root).state == "published"
    (folder / YANKED_FILE).write_bytes(encode(Yanked(version=VERSION, reason="a leak")))
    assert find_release(VERSION, root).state == "yanked"
    with pytest.raises(OresmithError, match=r"0\.1\.0"):
        find_release("9.9.9", root)


def test_a_release_that_was_never_published_is_yanked_in_its_record_alone_and_back(project: Project) -> None:
    root = project.root
    cut(VERSION, root, tell=silent)
    with pytest.raises(OresmithError, match="not yanked"):
        unyank_release(VERSION, root, tell=silent)
    yank_release(VERSION, "two rows leak", root, dry_run=True, tell=silent)
    assert find_release(VERSION, root).state == "cut"
    for _ in range(2):
        yank_release(VERSION, "two rows leak", root, tell=silent)
    assert find_release(VERSION, root).yanked == Yanked(version=VERSION, reason="two rows leak")
    with pytest.raises(OresmithError, match="another reason"):
        yank_release(VERSION, "something else", root, tell=silent)
    for reason, got in (("", "0 char"), ("a\nb", r"U\+000A"), ("x" * 501, "501 char"), ("x\u202e", r"U\+202E")):
        with pytest.raises(OresmithError, match=f"(?s)one line.*{got}"):
            yank_release(VERSION, reason, root, tell=silent)
    unyank_release(VERSION, root, tell=silent)
    assert find_release(VERSION, root).state == "cut"


def run(root: Path, *arguments: str) -> tuple[int, str]:
    """A command as typer runs it, in the project."""
    app = Typer()
    cli_release.register(app)
    app.command()(lambda: None)
    with inside(Project(root)):
        done = CliRunner().invoke(app, ["release", *arguments])
    return done.exit_code, done.stdout


def test_the_commands_print_tables_and_json(second: Project, tmp_path: Path) -> None:
    root = another(second, tmp_path / "project").root
    code, out = run(root, "plan", "--rows", "1")
    assert code == 0 and "snapshot two is new" in out and f"oresmith release cut {SECOND}" in out
    code, out = run(root, "plan", "--json")
    told = json.loads(out)
    assert code == 0 and told["allowed"] and told["least"] == SECOND
    (root / "notes.txt").write_text("x")
    assert run(root, "plan")[0] == 1
    (root / "notes.txt").unlink()
    assert json.loads(run(root, "list", "--json")[1])[0]["state"] == "cut"
    assert VERSION in run(root, "list")[1]
    assert json.loads(run(root, "diff", VERSION, "bundle", "--json")[1])["least"] == SECOND
    assert "snapshot two is new" in run(root, "diff", VERSION, "bundle")[1]
    assert run(root, "diff", VERSION, "bundle")[1].startswith(f"{VERSION} -> bundle: ")
    assert run(root, "diff", "bundle", VERSION)[1].startswith(f"bundle -> {VERSION}: ")
    code, out = run(root, "cut", SECOND, "--dry-run")
    assert code == 0 and "freeze" in out and not (root / RELEASES / SECOND).exists()
