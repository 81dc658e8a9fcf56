"""Tables of the stages `cluster` and `split`, made from what is normalised: who is in which pool is up to the test."""

from __future__ import annotations

import contextlib
import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from oresmith.arena.problems import ProblemIndex, load_problems
from oresmith.blocks.accounts import Accounts
from oresmith.blocks.writers import TrajectoryReader
from oresmith.corpus.account import CorpusReport
from oresmith.corpus.shards import corpus_files
from oresmith.frozen import read_frozen
from oresmith.leakage.keys import problem_keys
from oresmith.params import load_params
from oresmith.records import Problem, Trajectory
from stages import corpus
from tests.pipeline.project import Project
from tests.worlds import Case, World, decoy, honest

Pool = dict[str, Any]
"""Columns of an assignment: `pool`, and others where they differ from the default; `gold_keys` goes to the problem."""

POOLS = ("train", "train", "dev", "heldout", "benchmark:suite", "quarantine")

TEXT, TEXTS = pa.string(), pa.list_(pa.string())
PROBLEMS = pa.schema(
    [
        *((name, TEXT) for name in ("problem", "problem_id", "query", "category", "difficulty", "reward", "voucher")),
        ("snapshot", TEXT),
        ("benchmarks", TEXTS),
        ("cluster", TEXT),
        ("gold_keys", TEXTS),
    ]
)
ASSIGNMENTS = pa.schema(
    [
        *((name, TEXT) for name in ("problem", "cluster", "category", "pool", "held_out")),
        ("joined", TEXTS),
        ("new", pa.bool_()),
        ("benchmarks", TEXTS),
        ("vault", pa.bool_()),
        ("trainable", pa.bool_()),
        ("flagged", pa.bool_()),
    ]
)
ATTEMPTS = pa.schema(
    [("snapshot", TEXT), ("file", TEXT), ("line", pa.int64()), ("trajectory_id", TEXT), ("problem", TEXT)]
)


def add_world(project: Project, name: str, world: World, files: dict[str, list[bytes]], **declared: Any) -> None:
    """A snapshot of these lines with the world's problems and catalogue; each file is an agent version of its own."""
    agents = {
        f"traces/{file}": {"agent_version": file.partition(".")[0], "validator": "v-1", "runtime": "old"}
        for file in files
    }
    content = {file: b"".join(line + b"\n" for line in lines) for file, lines in files.items()}
    root = project.add_lines(name, content, problems="problems.jsonl", catalogue="catalogue.jsonl", **declared)
    path = root / "provenance.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"files": agents}))
    for stem, rows in (("problems", world.problems), ("catalogue", world.products)):
        (root / f"{stem}.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows.values()))


def cases(world: World, seed: int) -> dict[str, list[bytes]]:
    """One file of each sort of agent over all problems: accepted rows, failures, sub-task rows, lines of no format."""
    problems = list(world.problems.values())
    families: dict[str, list[Case]] = {
        "good": [honest(world, problem, seed) for problem in problems],
        "weak": [honest(world, problem, seed + 1, succeed=False) for problem in problems],
        "show": [decoy(world, problem, seed) for problem in problems],
    }
    lines = {f"{name}-{seed}.jsonl": [case.line for case in found] for name, found in families.items()}
    return lines | {f"odd-{seed}.jsonl": [b"{", b'{"rows": 1}', b"[]"]}


def by_place(place: int) -> Pool:
    """One problem after the other into each pool."""
    pool = POOLS[place % len(POOLS)]
    return {"pool": pool, "benchmarks": ["suite"] if pool.startswith("benchmark") else []}


def assign(project: Project, names: list[str], pool_of: Callable[[int], Pool] = by_place) -> None:
    """Clusters and pools; the pool of a problem is given by its place in the world."""
    places: dict[str | None, int] = {}
    build_tables(project.root, names, lambda problem: pool_of(places.setdefault(problem.problem_id, len(places))))


def records(project: Project) -> dict[str, Trajectory]:
    """The normalised trajectories of the snapshot `one`, by id."""
    reader = TrajectoryReader(project.root / "data/normalize/one/trajectories", Accounts(project.root / "accounts"))
    found = [each.metadata["trajectory"] for shard in range(reader.shards) for each in reader.run(rank=shard)]
    return {record.trajectory_id: record for record in found}


def copied(project: Project, root: Path) -> Project:
    """The same project elsewhere, with what its stages have made."""
    shutil.copytree(project.root, root)
    other = Project(root)
    other.params = copy.deepcopy(project.params)
    return other


def build_corpus(project: Project) -> CorpusReport:
    """Run the stage here, in the project's directory."""
    with contextlib.chdir(project.root):
        return corpus.run(load_params())


def published(project: Project, config: str) -> list[dict[str, Any]]:
    """All rows of a config, JSON columns as text, with the split that they are in."""
    rows: list[dict[str, Any]] = []
    for file in corpus_files(project.root / "data/corpus", [config]):
        rows += [row | {"split": file.split} for row in pq.read_table(file.path).to_pylist()]
    return rows


def name_of(problem: Problem) -> str:
    return problem_keys(problem).problem


def build_tables(root: Path, names: list[str], pool_of: Callable[[Problem], Pool]) -> dict[str, Problem]:
    """Write data/cluster and data/split of a project for its snapshots; returns the problems by name.

    `pool_of` may give `cluster` too; otherwise each problem is a cluster of its own.
    """
    found: dict[str, tuple[Problem, str]] = {}
    attempts: list[dict[str, Any]] = []
    for name in names:
        stored = read_frozen(root / "data/snapshots" / name).problems
        known = load_problems(root / "data/snapshots" / name / stored.stored) if stored else ProblemIndex()
        for problem in known:
            found.setdefault(name_of(problem), (problem, name))
        for path in sorted((root / "data/normalize" / name / "index").glob("*.parquet")):
            for row in pl.read_parquet(path).iter_rows(named=True):
                own = Problem(problem_id=row["problem_id"], query=row["query"])
                problem = known.find(own.problem_id, own.query) or own
                place = {"snapshot": name, **{key: row[key] for key in ("file", "line", "trajectory_id")}}
                nameless = problem.problem_id is None and problem.query is None
                attempts.append(place | {"problem": None if nameless else name_of(problem)})
                if not nameless:
                    found.setdefault(name_of(problem), (problem, name))
    store(root, [problem_rows(problem, snapshot, pool_of(problem)) for problem, snapshot in found.values()], attempts)
    return {key: problem for key, (problem, _) in found.items()}


def store(root: Path, rows: list[tuple[dict[str, Any], dict[str, Any]]], attempts: list[dict[str, Any]]) -> None:
    tables = (
        ("cluster", "problems", PROBLEMS, [problem for problem, _ in rows]),
        ("cluster", "attempts", ATTEMPTS, attempts),
        ("split", "assignments", ASSIGNMENTS, [assignment for _, assignment in rows]),
    )
    for stage, name, schema, content in tables:
        folder = root / "data" / stage
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(content, schema=schema), folder / f"{name}.parquet")


def problem_rows(problem: Problem, snapshot: str, pool: Pool) -> tuple[dict[str, Any], dict[str, Any]]:
    keys = problem_keys(problem)
    assignment = {
        "problem": keys.problem,
        "cluster": keys.problem,
        "category": problem.category,
        "held_out": "2026-05-02" if pool["pool"] == "heldout" else None,
        "joined": [],
        "new": True,
        "benchmarks": [],
        "vault": False,
        "trainable": pool["pool"] == "train",
        "flagged": False,
        **{name: value for name, value in pool.items() if name != "gold_keys"},
    }
    row = {
        "problem": keys.problem,
        "snapshot": snapshot,
        "benchmarks": assignment["benchmarks"],
        "cluster": assignment["cluster"],
        "gold_keys": pool.get("gold_keys", list(keys.gold)),
        "reward": None if problem.reward is None else msgspec.json.encode(problem.reward).decode(),
        "voucher": None if problem.voucher is None else msgspec.json.encode(problem.voucher).decode(),
        **{name: getattr(problem, name) for name in ("problem_id", "query", "category", "difficulty")},
    }
    return row, assignment
