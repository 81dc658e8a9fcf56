"""Contracts of the tables that stages `cluster` and `split` write, as far as the corpus rests on them. Version 1."""

from __future__ import annotations

import pandera.polars as pap
import polars as pl

from oresmith.leakage.edges import EdgeKind
from schemas.check import holds
from schemas.corpus_checks import DATE, NAME, Check, Contract, Strict, Texts, hashed

POOL = r"^(train|dev|heldout|quarantine|benchmark:[A-Za-z0-9._+-]+)$"


class ClusteredProblems(Strict):
    """Every distinct problem stands once, with its keys and its cluster (`data/cluster/problems.parquet`)."""

    problem: str = hashed(unique=True)
    problem_id: str = pap.Field(nullable=True)
    query: str = pap.Field(nullable=True)
    category: str = pap.Field(nullable=True)
    difficulty: str = pap.Field(nullable=True)
    reward: str = pap.Field(nullable=True)
    voucher: str = pap.Field(nullable=True)
    snapshot: str = pap.Field(nullable=True)
    wishes: Texts
    benchmarks: Texts
    cluster: str = hashed()
    query_key: str
    base_key: str
    tokens_key: str
    gold_keys: Texts
    spec_key: str
    constraints: int = pap.Field(ge=0)
    pairs: int = pap.Field(ge=0)
    flags: Texts


class Attempts(Strict):
    """Every trajectory stands once, with its problem where one is known (`data/cluster/attempts.parquet`)."""

    snapshot: str = pap.Field(str_matches=NAME)
    file: str
    line: int = pap.Field(ge=1)
    trajectory_id: str = hashed()
    problem: str = hashed(nullable=True)

    @pap.dataframe_check
    @classmethod
    def one_row_a_place(cls, data: pap.PolarsData) -> Check:
        """A line of a file is one trajectory."""
        return holds(data, pl.struct("snapshot", "file", "line").is_unique())


class Edges(Strict):
    """Every edge joins two problems and says by what (`data/cluster/edges.parquet`)."""

    a: str = hashed()
    b: str = hashed()
    kind: str = pap.Field(isin=[kind.value for kind in EdgeKind])
    value: str

    @pap.dataframe_check
    @classmethod
    def joins_two(cls, data: pap.PolarsData) -> Check:
        """An edge has two ends."""
        return holds(data, pl.col("a") != pl.col("b"))


class Assignments(Strict):
    """Every problem has one pool, and only train or an allowed benchmark trains (`data/split/assignments.parquet`)."""

    problem: str = hashed(unique=True)
    cluster: str = hashed()
    category: str = pap.Field(nullable=True)
    pool: str = pap.Field(str_matches=POOL)
    held_out: str = pap.Field(nullable=True, str_matches=DATE)
    joined: Texts
    new: bool
    benchmarks: Texts
    vault: bool
    trainable: bool
    flagged: bool

    @pap.dataframe_check
    @classmethod
    def held_out_pools_are_dated(cls, data: pap.PolarsData) -> Check:
        """A held-out problem has its pool's date, and no other has one."""
        return holds(data, (pl.col("pool") == "heldout") == pl.col("held_out").is_not_null())

    @pap.dataframe_check
    @classmethod
    def only_open_pools_train(cls, data: pap.PolarsData) -> Check:
        """Nothing held out, quarantined or of dev may be trained on; an allowed benchmark's problem is flagged."""
        open_pool = pl.col("pool").str.contains("^(train|benchmark:.+)$")
        flagged = pl.col("flagged") | (pl.col("benchmarks").list.len() == 0)
        return holds(data, ~pl.col("trainable") | (open_pool & flagged & ~pl.col("vault")))


TABLES: dict[str, Contract] = {
    "cluster/problems": Contract("oresmith.check.problems/1", ClusteredProblems),
    "cluster/attempts": Contract("oresmith.check.attempts/1", Attempts),
    "cluster/edges": Contract("oresmith.check.edges/1", Edges),
    "split/assignments": Contract("oresmith.check.assignments/1", Assignments),
}
"""Table of an earlier stage (data/<name>.parquet) -> its contract."""
