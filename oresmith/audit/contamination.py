"""`contamination.tsv`: every match of the snapshots' problems and trajectories with what is guarded, and what was done.

Guarded are the held-out pools, the named benchmarks and the vault. A problem is told with the number of its attempts; a
trajectory only where it gives away the gold product of another, guarded problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson
import polars as pl

from oresmith.audit import tsv
from oresmith.errors import OresmithError
from oresmith.leakage import ClusterParams, Leak, ProblemKeys, Row, Vault, find_leaks, problem_keys
from oresmith.leakage.ledger import BENCHMARK, HELDOUT, QUARANTINE, VAULT, place_of, states_enough
from oresmith.records import Problem

WITHHELD, QUARANTINED, REJECTED, FLAGGED, ALLOWED = "withheld", "quarantined", "rejected", "flagged", "allowed"
"""What became of a match: not published because of its pool, or of its quarantine; rejected by a stage; published with
a flag, or without one, because the parameters allow it or only a quarantined problem joins the two."""
FACTS = ("problem", "problem_id", "attempts", "pool", "trainable")
"""What is asked of the problem of a match."""


class Match(NamedTuple):
    """One line; the fields are the columns."""

    guarded: str
    """`heldout@<date>`, `benchmark:<name>` or `vault`."""
    subject: str
    """problem or trajectory."""
    id: str
    """Name of the problem, or the trajectory's id."""
    problem_id: str
    """As the source declares it, "" where it does not."""
    attempts: int
    """Rows of the snapshots that the line speaks of."""
    kind: str
    """As `leaks.find_leaks` tells it, or `gold_recommended`, `gold_viewed`."""
    value: str
    """The key, product or similarity in common; never of the vault."""
    guarded_problem: str
    """Name of the guarded problem; never of the vault."""
    action: str


class World(NamedTuple):
    """The problems with their pools, and what of them is guarded."""

    problems: pl.DataFrame
    """Columns of data/cluster/problems.parquet and data/split/assignments.parquet, `cluster` being the component;
    `attempts`: rows of the snapshots."""
    params: ClusterParams
    allowed: frozenset[str]
    """Benchmarks that may be trained on."""
    snapshots: tuple[str, ...]
    """In the order of the parameters."""
    vault: Vault | None = None


def read_world(
    data: Path, params: ClusterParams, allowed: Iterable[str], snapshots: Iterable[str], vault: Vault | None
) -> World:
    """Read the problems that the stages `cluster` and `split` wrote.

    Raises:
        OresmithError: a table is missing or lacks a column, or the two are of different problems.
    """
    try:
        problems = pl.read_parquet(data / "cluster" / "problems.parquet")
        attempts = pl.read_parquet(data / "cluster" / "attempts.parquet", columns=["problem"])
        pools = pl.read_parquet(data / "split" / "assignments.parquet").select(
            "problem", "pool", "held_out", "trainable", pl.col("cluster").alias("assigned")
        )
        counted = attempts.group_by("problem").agg(pl.len().alias("attempts"))
        joined = problems.join(pools, on="problem", how="inner", validate="1:1").join(counted, on="problem", how="left")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise OresmithError(
            "the problems and their pools cannot be read", where=str(data), got=str(error)[:300], todo="run `dvc repro`"
        ) from error
    if not problems.height == pools.height == joined.height:
        raise OresmithError(
            "clusters and pools are of different problems",
            where=str(data / "split" / "assignments.parquet"),
            expected=f"{problems.height} problems",
            got=f"{pools.height}, of which {joined.height} are known",
            todo="run `dvc repro`",
        )
    joined = joined.with_columns(
        pl.col("attempts").fill_null(0).cast(pl.Int64), pl.col("held_out").cast(pl.String)
    ).sort("problem")
    return World(joined, params, frozenset(allowed), tuple(snapshots), vault)


def problem_matches(world: World) -> Iterator[Match]:
    """Matches of the snapshots' problems, guarded set by guarded set."""
    problems = world.problems
    ours = problems.filter(pl.col("snapshot").is_not_null())
    facts = {row["problem"]: row for row in ours.select(*FACTS).iter_rows(named=True)}
    for guarded, members in guarded_sets(problems):
        components = members["cluster"].unique()
        held = [Row(row["problem"], _problem(row)) for row in members.iter_rows(named=True)]
        near = ours.filter(pl.col("cluster").is_in(components.implode()))
        for leak in find_leaks(
            (Row(row["problem"], _problem(row)) for row in near.iter_rows(named=True)), held, world.params
        ):
            yield _match(world, guarded, facts[leak.train_id], leak)
    if world.vault is not None:
        for row in ours.iter_rows(named=True):
            for kind in _vault_kinds(world.vault, problem_keys(_problem(row)), world.params):
                yield _match(world, VAULT, row, Leak(kind=kind, train_id=row["problem"], heldout_id="", value=""))


def guarded_sets(problems: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each guarded set that is not empty, by name: held-out pools by date, then benchmarks."""
    pools = problems.filter(pl.col("pool") == HELDOUT)
    for date in sorted(pools["held_out"].unique().to_list()):
        yield place_of(HELDOUT, date), pools.filter(pl.col("held_out") == date)
    named = problems.filter(pl.col("benchmarks").list.len() > 0)
    for name in sorted({name for names in named["benchmarks"].to_list() for name in names}):
        yield f"{BENCHMARK}{name}", named.filter(pl.col("benchmarks").list.contains(name))


def _problem(row: Mapping[str, Any]) -> Problem:
    reward, voucher = (None if row[name] is None else orjson.loads(row[name]) for name in ("reward", "voucher"))
    return Problem(problem_id=row["problem_id"], query=row["query"], reward=reward, voucher=voucher)


def _match(world: World, guarded: str, fact: Mapping[str, Any], leak: Leak) -> Match:
    allowed = guarded.removeprefix(BENCHMARK) in world.allowed
    if fact["pool"] == QUARANTINE:
        action = QUARANTINED
    elif fact["trainable"] or (fact["pool"] == "dev" and guarded != VAULT):
        action = FLAGGED if allowed else ALLOWED
    else:
        action = WITHHELD
    return Match(
        guarded=guarded,
        subject="problem",
        id=fact["problem"],
        problem_id=fact["problem_id"] or "",
        attempts=fact["attempts"],
        kind=leak.kind,
        value=leak.value,
        guarded_problem=leak.heldout_id,
        action=action,
    )


def _vault_kinds(vault: Vault, keys: ProblemKeys, params: ClusterParams) -> Iterator[str]:
    """The kinds of key by which the vault holds a problem; the keys themselves stay untold."""
    specification = states_enough(keys, params)
    if not vault.holds(keys, specification):
        return
    bare = ProblemKeys(problem=keys.problem)
    for kind in ("query", "base", "tokens", "gold", "spec"):
        only = msgspec.structs.replace(bare, **{kind: getattr(keys, kind)})
        if getattr(keys, kind) and vault.holds(only, specification):
            yield kind


def write_matches(matches: Iterable[Match], path: Path) -> dict[str, dict[str, dict[str, int]]]:
    """Write the table, sorted, each line once.

    Returns:
        Guarded set -> kind -> action -> lines.
    """
    found = sorted(set(matches))
    with path.open("wb") as writer:
        writer.write(tsv.line(Match._fields))
        writer.writelines(map(tsv.line, found))
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for (guarded, kind, action), number in sorted(Counter((m.guarded, m.kind, m.action) for m in found).items()):
        counts.setdefault(guarded, {}).setdefault(kind, {})[action] = number
    return counts
