"""Stage `split`: the pool of every problem. What an earlier release decided holds; clusters move as a whole or not.

Reads data/cluster/, releases/ledger.jsonl (lines of earlier releases only) and, where named, the vault.
Writes data/split/ (assignments.parquet, ledger.next.jsonl: the lines that this release adds) and metrics/split.json.
Exit codes: 0, 2 for a refusal (an unreadable or conflicting ledger, an unreadable vault).
Example: python -m stages.split
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.blocks.atomic import stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.errors import OresmithError
from oresmith.leakage.clusters import ClusterParams
from oresmith.leakage.ledger import encode_ledger, place_of, read_ledger
from oresmith.leakage.pools import Assignment, Fact, PoolParams, Split, assign, pool_counts, trainable
from oresmith.leakage.table import I64, KeyTable
from oresmith.leakage.vault import Vault
from oresmith.params import Params, load_params
from oresmith.records import Problem
from oresmith.stage import DATA, builtins, guarded, write_metrics
from schemas.clusters import ASSIGNMENTS, SPLIT_SCHEMA

LEDGER = Path("releases/ledger.jsonl")


class Grouped(NamedTuple):
    """The clusters as `cluster` stored them."""

    params: ClusterParams
    table: KeyTable
    label: I64
    aliases: dict[str, str]


class Figures(msgspec.Struct):
    """What is read of clusters.json."""

    aliases: dict[str, str]
    params: ClusterParams


def run(params: Params) -> Split:
    """Assign every problem and publish the assignments whole."""
    rows = read_problems()
    grouped = read_clusters(rows)
    facts = {
        name: Fact(category=category, wishes=tuple(wishes))
        for name, category, wishes in rows.select("problem", "category", "wishes").iter_rows()
    }
    split = assign(
        grouped,
        facts,
        read_ledger(LEDGER),
        params.release.version,
        params=pool_params(params),
        vault=read_vault(params),
    )
    with stage_output(
        DATA / "split",
        "split",
        schema=SPLIT_SCHEMA,
        params=builtins(params.split) | {"release": params.release.version},
        observed=DATA / "observed" / "split.json",
    ) as staged:
        table = pa.Table.from_pylist(assignment_rows(split, facts, params), schema=ASSIGNMENTS)
        pq.write_table(table, staged.path / "assignments.parquet", compression="zstd")
        (staged.path / "ledger.next.jsonl").write_bytes(encode_ledger(split.lines))
    write_metrics("split", summary(split, params))
    return split


def read_problems() -> pl.DataFrame:
    """The problems table of `cluster`."""
    path = DATA / "cluster" / "problems.parquet"
    if not path.is_file():
        raise OresmithError("there are no clusters", where=str(path), todo="run `dvc repro`")
    return pl.read_parquet(path)


def read_clusters(rows: pl.DataFrame) -> Grouped:
    """The clusters, with keys derived again and held against the stored ones."""
    columns = rows.select("problem_id", "query", "category", "reward", "voucher").iter_rows(named=True)
    table = KeyTable.read(
        Problem(**(row | {key: msgspec.json.decode(row[key]) if row[key] else None for key in ("reward", "voucher")}))
        for row in columns
    )
    names = rows["problem"].to_list()
    if table.names() != names:
        raise OresmithError(
            "the stored problems do not have the keys that are stored with them",
            where=str(DATA / "cluster" / "problems.parquet"),
            todo="run stage cluster again",
        )
    place = {name: number for number, name in enumerate(names)}
    label = np.array([place[cluster_id] for cluster_id in rows["cluster"].to_list()], dtype=np.int64)
    figures = msgspec.json.decode((DATA / "cluster" / "clusters.json").read_bytes(), type=Figures)
    return Grouped(figures.params, table, label, figures.aliases)


def pool_params(params: Params) -> PoolParams:
    """The library's parameters."""
    split = params.split
    return PoolParams(
        heldout_share=split.heldout_share, dev_share=split.dev_share, held_out=split.held_out, seed=split.seed
    )


def read_vault(params: Params) -> Vault | None:
    """The vault, where the parameters name one."""
    if params.split.vault is None or params.split.vault_secret is None:
        return None
    return Vault.load(params.split.vault, params.split.vault_secret)


def assignment_rows(split: Split, facts: dict[str, Fact], params: Params) -> list[dict[str, Any]]:
    """One row a problem."""
    allowed = params.split.allow_benchmark
    return [
        {
            "problem": one.problem,
            "cluster": one.cluster,
            "category": facts[one.problem].category,
            "pool": one.pool,
            "held_out": one.held_out,
            "joined": list(one.joined),
            "new": one.new,
            "benchmarks": list(one.benchmarks),
            "vault": one.vault,
            "trainable": trainable(one, allowed),
            "flagged": trainable(one, allowed) and bool(one.benchmarks),
        }
        for one in split.assignments
    ]


def summary(split: Split, params: Params) -> dict[str, Any]:
    """What DVC shows as metrics: problems and clusters by pool, side by side."""
    clusters: dict[str, set[str]] = {}
    for one in split.assignments:
        clusters.setdefault(place_of(one.pool, one.held_out), set()).add(one.cluster)
    quarantined: list[Assignment] = [one for one in split.assignments if one.pool == "quarantine"]
    return {
        "release": params.release.version,
        "problems": pool_counts(split),
        "clusters": {pool: len(ids) for pool, ids in sorted(clusters.items())},
        "new": sum(one.new for one in split.assignments),
        "inherited": sum(not one.new for one in split.assignments),
        "trainable": sum(trainable(one, params.split.allow_benchmark) for one in split.assignments),
        "quarantined_between": dict(sorted(Counter(" + ".join(one.joined) for one in quarantined).items())),
    }


def main() -> None:
    """Check all parameters, then assign."""
    end_with_parent()
    split = run(load_params())
    print("split: " + ", ".join(f"{pool} {count}" for pool, count in pool_counts(split).items()))


if __name__ == "__main__":
    guarded(main)
