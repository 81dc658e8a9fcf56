"""A small project with a certified corpus and the tiny base model, made once, and the stages of training run in it."""

from __future__ import annotations

import contextlib
import copy
import shutil
from collections.abc import Iterator
from pathlib import Path

from oresmith.params import load_params
from stages import audit, base, cluster, corpus, evidence, gate, normalize, snapshots, split
from tests.corpus.build import add_world
from tests.pipeline.project import Project
from tests.worlds import honest, make_world

SNAPSHOT = "one"
TRAIN = {
    "rank": 4,
    "alpha": 8,
    "threads": 1,
    "max_tokens": 2200,  # takes the first turn of each conversation alone: the tiny tokenizer writes long rows
    "min_rows": 4,
    "save_dtype": "float32",
    "checkpoint_steps": 1,
    "packing": "none",
}
FIT = {"batch": 2, "microbatch": 1, "max_steps": 2, "learning_rate": 0.01}


def corpus_project(root: Path, problems: int = 24, *, failures: bool = False) -> Project:
    """All stages up to `audit`, and `base` with the tiny model; a seed of every pool among the problems.

    `failures` adds a trajectory of each problem that recommends another product.
    """
    project = Project(root)
    world = make_world(7, problems=problems)
    lines = [honest(world, problem, place).line for place, problem in enumerate(world.problems.values())]
    files = {"good-1.jsonl": lines}
    if failures:
        weak = [honest(world, problem, 99, succeed=False) for problem in world.problems.values()]
        files["weak-1.jsonl"] = [case.line for case in weak]
    add_world(project, SNAPSHOT, world, files)
    (root / "releases").mkdir()
    (root / "releases/ledger.jsonl").write_text("")
    project.write_params(
        evidence={"tokenizer": "none"},
        split={"held_out": "2026-05-02", "heldout_share": 0.2, "dev_share": 0.2},
        base={"model": "tiny", "dtype": "float32"},
        train=TRAIN,
        sft=FIT,
    )
    with inside(project):
        params = load_params()
        for entry in params.snapshots:
            snapshots.run(params, entry)
        normalize.run(params, SNAPSHOT)
        evidence.run(params, SNAPSHOT)
        for stage in (gate, cluster, split, corpus, audit, base):
            stage.run(params)
    return project


def copied(project: Project, root: Path) -> Project:
    """The same project elsewhere, with what its stages have made."""
    shutil.copytree(project.root, root, dirs_exist_ok=True)
    other = Project(root)
    other.params = copy.deepcopy(project.params)
    return other


@contextlib.contextmanager
def inside(project: Project) -> Iterator[None]:
    """The project's directory is the working directory."""
    with contextlib.chdir(project.root):
        yield
