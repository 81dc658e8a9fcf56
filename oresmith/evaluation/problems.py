"""Which problems are played, and the shop of each: those of a pool of the pipeline, or of anybody's problem file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from oresmith.arena.problems import load_problems
from oresmith.errors import OresmithError
from oresmith.leakage.keys import problem_keys
from oresmith.records import Problem

Pool = Literal["heldout", "dev", "train"]


class Case(NamedTuple):
    """One problem to play."""

    name: str
    """Of the problem in data/cluster, or its id where there is no pipeline."""
    problem: Problem
    shop: str
    """Name of the snapshot whose catalogue it is played in; "" where there is only one."""


class Chosen(NamedTuple):
    """The problems that are played, in the order of play, and what became of the others."""

    cases: list[Case]
    pool: str
    """As in "heldout 2026-06-02", or "given" for a problem file."""
    left_out: dict[str, int]
    """Why -> problems of the pool that cannot be played, or that `rollout.problems` leaves out."""


def problems_of_pool(
    data: Path, pool: Pool, held_out: str | None, limit: int | None, levels: Collection[str] = ()
) -> Chosen:
    """The problems of a pool, whose snapshots' catalogues are indexed.

    Args:
        data: the pipeline's directory: reads cluster/problems.parquet and split/assignments.parquet.
        pool: `dev`, `train` (those that may be trained on), or `heldout`, which takes those of one date.
        held_out: that date.
        limit: most problems; the subset is decided by hash, and a smaller one lies within a larger one.
        levels: difficulties, as in "L1"; empty takes all.

    Raises:
        OresmithError: no tables, no date for `heldout`, or no problem that can be played.
    """
    import polars as pl

    tables = [data / "cluster" / "problems.parquet", data / "split" / "assignments.parquet"]
    for table in tables:
        if not table.is_file():
            raise OresmithError("there is no pool of problems", where=str(table), todo="run `dvc repro split`")
    if pool == "heldout" and held_out is None:
        raise OresmithError(
            "no held-out pool is open", where="rollout.pool with split.held_out", todo="set a date, or pool: dev"
        )
    problems, assigned = map(pl.read_parquet, tables)
    ours = pl.col("pool") == pool
    if pool == "heldout":
        ours &= pl.col("held_out") == held_out
    if pool == "train":
        ours &= pl.col("trainable")
    rows = problems.join(assigned.filter(ours).select("problem"), on="problem", how="inner")
    left_out: Counter[str] = Counter()
    cases = []
    for row in rows.iter_rows(named=True):
        other = bool(levels) and row["difficulty"] not in levels
        fault = "level" if other else _unplayable(row["query"], row["snapshot"], data)
        if fault:
            left_out[fault] += 1
            continue
        cases.append(case_of(row))
    named = f"heldout {held_out}" if pool == "heldout" else pool
    named += f", {' '.join(sorted(levels))}" if levels else ""
    return _chosen(cases, named, left_out, limit, f"rollout.pool: {named}")


def case_of(row: Mapping[str, Any]) -> Case:
    """The case of a row of data/cluster/problems.parquet."""
    problem = Problem(
        problem_id=row["problem_id"],
        query=row["query"],
        category=row["category"],
        difficulty=row["difficulty"],
        reward=_json(row["reward"]),
        voucher=_json(row["voucher"]),
    )
    return Case(row["problem"], problem, row["snapshot"] or "")


def problems_of_file(path: Path, limit: int | None = None) -> Chosen:
    """The problems of anybody's file, named by id, or by their key where they have none.

    Args:
        path: in one of the forms of `oresmith.arena.problems`.
        limit: as in `problems_of_pool`.

    Raises:
        OresmithError: an unreadable file, or no problem in it.
    """
    # By name: problems without an id can be one and the same in two spellings.
    cases = {one.name: one for one in (_named(problem) for problem in load_problems(path))}
    return _chosen(list(cases.values()), "given", Counter(), limit, str(path))


def problem_set_sha256(cases: Iterable[Case]) -> str:
    """Names a set of problems by what they ask for: sha256 over their sorted keys, a line each. Ids do not count."""
    keys = sorted(problem_keys(case.problem).problem for case in cases)
    return hashlib.sha256("".join(f"{key}\n" for key in keys).encode()).hexdigest()


def _named(problem: Problem) -> Case:
    return Case(problem.problem_id or problem_keys(problem).problem, problem, "")


def _unplayable(query: str | None, snapshot: str | None, data: Path) -> str | None:
    if not query:
        return "no_query"
    if snapshot is None or not (data / "index" / snapshot / "catalogue").is_dir():
        return "no_catalogue"
    return None


def _json(text: str | None) -> object:
    return None if text is None else msgspec.json.decode(text)


def _chosen(cases: list[Case], pool: str, left_out: Counter[str], limit: int | None, where: str) -> Chosen:
    ordered = sorted(cases, key=lambda case: (hashlib.sha256(f"rollout\0{case.name}".encode()).digest(), case.name))
    if limit is not None and len(ordered) > limit:
        left_out["limit"] = len(ordered) - limit
        ordered = ordered[:limit]
    if not ordered:
        raise OresmithError(
            "there is no problem to play",
            where=where,
            got=", ".join(f"{why} {count}" for why, count in sorted(left_out.items())) or "an empty pool",
            todo="choose another pool, or give the pool's snapshots a catalogue",
        )
    return Chosen(ordered, pool, dict(sorted(left_out.items())))
