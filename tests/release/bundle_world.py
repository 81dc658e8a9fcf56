"""A project that is ready to be released: everything up to `bundle`, in a git repository of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from oresmith.arena.search import Searcher
from oresmith.arena.tools import Toolbox
from oresmith.evaluation.engines.model import model_identity
from oresmith.evaluation.problems import problems_of_pool
from oresmith.leakage.ledger import read_ledger
from oresmith.models.directory import check_directory
from oresmith.params import load_params
from oresmith.release.bundle import write_manifests
from oresmith.release.freezing import tag_of
from oresmith.release.layout import BUNDLE, CARDS, RELEASES
from oresmith.release.manifest import Release, list_files, read_release
from oresmith.stage import DATA
from oresmith.training.expert import Expert
from stages import (
    audit,
    bundle,
    cluster,
    compare,
    corpus,
    evidence,
    gate,
    index,
    normalize,
    rollout,
    score,
    snapshots,
    split,
    validate,
)
from tests.corpus.build import add_world
from tests.pipeline.project import Project
from tests.release.verify_world import GATES, MODELS, HeldoutPlayer, finished_project
from tests.training.project import copied, inside
from tests.worlds import honest, make_world

VERSION, SECOND = "0.1.0", "0.2.0"
CARD = "---\npretty_name: {version}\n---\n# {title}\n"


class Weights(HeldoutPlayer):
    """Plays the newest pool by the policy, and says that it is the weights in data/base."""

    def __init__(self, errs: bool) -> None:
        super().__init__(errs)
        self.close()
        cases = problems_of_pool(DATA, "heldout", load_params().split.held_out, None).cases
        self._place = {case.name: number for number, case in enumerate(cases)}
        self._shops = {shop: Searcher.open(DATA / "index" / shop / "catalogue") for shop in {c.shop for c in cases}}
        self._expert = Expert(cases, {shop: Toolbox(one) for shop, one in self._shops.items()}, 1, "terse")

    def identity(self) -> dict[str, Any]:
        return super().identity() | model_identity(check_directory(DATA / "base"))


def ready(root: Path) -> Project:
    """A first release, bundled and not cut; its snapshot ends a day before its held-out pool opens."""
    project = finished_project(root)
    project.write_params(release={"version": VERSION})
    with inside(project):
        evaluate_and_bundle(project)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "config", "user.name", "A Manager")
    git(root, "config", "user.email", "manager@example.org")
    (root / ".gitignore").write_text("/data/\n")
    (root / "metrics").mkdir(exist_ok=True)
    (root / "dvc.lock").write_text("schema: '2.0'\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "a project")
    return project


def evaluate_and_bundle(project: Project) -> None:
    """Play, score, compare, validate, write cards and put the bundle together, in the project's directory."""
    params = load_params()
    for name in MODELS:
        player = Weights(errs=name == "first")
        rollout.run(params, name, lambda settings, name, model, player=player: player)
        score.run(params, name)
    compare.run(params)
    validate.run(params)
    write_cards(params.release.version)
    bundle.run(params)


def write_cards(version: str) -> None:
    """Cards in outline: what stands on real ones is tested with them."""
    (CARDS / "figures").mkdir(parents=True, exist_ok=True)
    (CARDS / "eval_results").mkdir(exist_ok=True)
    for name in ("dataset", "model", "changelog"):
        (CARDS / f"{name}.md").write_text(CARD.format(version=version, title=name))
    for name in ("croissant", "provenance"):
        (CARDS / f"{name}.json").write_text(json.dumps({"version": version}))
    (CARDS / "figures/funnel.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (CARDS / "eval_results/shopping.yaml").write_text("- value: 0.5\n")


def grown(project: Project) -> None:
    """The second release, in the directory of the first: a snapshot more, and a new held-out pool."""
    world = make_world(29, problems=16)
    lines = [honest(world, problem, place).line for place, problem in enumerate(world.problems.values())]
    add_world(project, "two", world, {"good-2.jsonl": lines})
    project.write_params(release={"version": SECOND}, split={"held_out": "2026-06-01"})
    with inside(project):
        params = load_params()
        entry = params.snapshots[-1]
        snapshots.run(params, entry)
        normalize.run(params, entry.name)
        evidence.run(params, entry.name)
        for stage in (gate, cluster, split, corpus, audit):
            stage.run(params)
        index.run(params, entry.name)
        evaluate_and_bundle(project)


def another(project: Project, root: Path) -> Project:
    """A copy that may be changed, with its repository."""
    return copied(project, root)


def git(root: Path, *arguments: str) -> str:
    """What a git command prints."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def rewritten(root: Path) -> Release:
    """Every list and hash of the bundle fits its files again, as whoever plants a defect would make it."""
    with_params = load_params(root / "params.yaml")
    for path in (root / BUNDLE).rglob("release.json"):
        old = read_release(path) if path.parent == root / BUNDLE else None
        previous = old.previous if old else None
        path.unlink()
    parts = {kind: list_files(root / BUNDLE / kind) for kind in ("dataset", "model")}
    return write_manifests(
        root / BUNDLE, with_params, dataset=parts["dataset"], model=parts["model"], gates=GATES, previous=previous
    )


FIRST = f"{RELEASES}/{VERSION}"
"""The frozen folder of the first release."""


def silent(line: str) -> None:
    """Takes what a command tells."""


def state(root: Path) -> tuple[str, str, str]:
    """Everything that a refusal must leave as it was."""
    return git(root, "rev-parse", "HEAD"), git(root, "status", "--porcelain"), git(root, "for-each-ref")


def whole(root: Path, version: str = VERSION) -> None:
    """The release is in git and in the working tree, and nothing else has changed."""
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "rev-parse", f"{tag_of(version)}^{{commit}}") == git(root, "rev-parse", "HEAD")
    assert git(root, "log", "--format=%s", "-1") == f"Release {version}"
    frozen, made = root / RELEASES / version / "release.json", root / BUNDLE / "release.json"
    assert frozen.read_bytes() == made.read_bytes()
    assert {line.release for line in read_ledger(root / "releases/ledger.jsonl")} >= {version}
    assert not list((root / ".git").glob("oresmith-cut-*"))
