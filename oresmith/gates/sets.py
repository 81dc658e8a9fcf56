"""Set gates: what a row means beside the others. They work snapshot by snapshot, in the order of the parameters.

A later snapshot never displaces or rejects a row that an earlier one had accepted: the newcomer is rejected. Within a
snapshot the first row by (file, line) stays, so neither worker count nor input order matters.
"""

from __future__ import annotations

import polars as pl

from oresmith.param_data import Gate
from oresmith.reasons import Reason, in_order

VOTES = ["agent_version", "problem", "validator", "outcome"]
SEEN = [*VOTES, "identity", "content", "trajectory_id", "call_sequence", "accepted"]
"""Columns of decided rows that later snapshots are compared with."""


def decide_snapshot(rows: pl.DataFrame, seen: pl.DataFrame, gate: Gate) -> pl.DataFrame:
    """Apply the set gates to one snapshot.

    Args:
        rows: evidence of the snapshot with `reasons` from the row gates.
        seen: the decided rows of all earlier snapshots (columns `SEEN`), possibly empty.
        gate: thresholds.

    Returns:
        `rows` in (file, line) order with `reasons` completed and `accepted` added.
    """
    rows = _in_place_order(rows)
    rows = _mark(rows, _conflicting(rows, seen), Reason.ID_CONFLICT)
    if gate.rejected_before == "reject":
        rows = _mark(rows, _open(rows) & _rejected_before(rows, seen), Reason.REJECTED_BEFORE)
    rows = _mark(rows, _open(rows) & _repeated(rows, seen, ["trajectory_id"]), Reason.DUPLICATE)
    if gate.unanimity_min_validators:
        rows = _unanimity(rows, seen, gate.unanimity_min_validators)
    if gate.duplicate_calls == "reject":
        rows = _mark(rows, _open(rows) & _repeated(rows, seen, ["problem", "call_sequence"]), Reason.DUPLICATE_CALLS)
    ordered = pl.col("reasons").map_elements(lambda codes: in_order(list(codes)), return_dtype=pl.List(pl.String))
    several = pl.col("reasons").list.len() > 1
    return rows.with_columns(
        pl.when(several).then(ordered).otherwise(pl.col("reasons")).alias("reasons"),
        (pl.col("reasons").list.len() == 0).alias("accepted"),
    )


def _in_place_order(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows by file and line; evidence is written in that order, and then nothing is copied."""
    order = rows.select(pl.struct("file", "line").rank("ordinal").alias("place"))["place"]
    return rows if order.is_sorted() else rows.sort("file", "line")


def _open(rows: pl.DataFrame) -> pl.Series:
    """Rows that no gate has rejected so far: only these can be duplicates of each other."""
    return rows["reasons"].list.len() == 0


def _mark(rows: pl.DataFrame, hit: pl.Series, reason: Reason) -> pl.DataFrame:
    added = pl.when(hit).then(pl.concat_list(pl.col("reasons"), pl.lit(reason.value))).otherwise(pl.col("reasons"))
    return rows.with_columns(added.alias("reasons"))


def _conflicting(rows: pl.DataFrame, seen: pl.DataFrame) -> pl.Series:
    """Rows whose declared identity stands for another content, here or in an earlier snapshot."""
    pairs = pl.concat([rows.select("identity", "content"), seen.select("identity", "content")])
    several = pairs.group_by("identity").agg(pl.col("content").n_unique().alias("n")).filter(pl.col("n") > 1)
    return rows["identity"].is_in(several["identity"].implode())


def _rejected_before(rows: pl.DataFrame, seen: pl.DataFrame) -> pl.Series:
    """Rows whose content stands rejected in an earlier snapshot and accepted in none."""
    fates = seen.group_by("content").agg(pl.col("accepted").any())
    return rows["content"].is_in(fates.filter(~pl.col("accepted"))["content"].implode())


def _repeated(rows: pl.DataFrame, seen: pl.DataFrame, keys: list[str]) -> pl.Series:
    """Open rows whose key an earlier snapshot accepted, or an open row before them in this snapshot holds.

    A null key (no problem known, no calls) equals nothing.
    """
    complete = pl.all_horizontal([pl.col(key).is_not_null() for key in keys])
    earlier = seen.filter(pl.col("accepted") & complete).select(keys).unique().with_columns(pl.lit(True).alias("_old"))
    marked = (
        rows.select(*keys, _open(rows).alias("_open"), complete.alias("_complete"))
        .join(earlier, on=keys, how="left", maintain_order="left")
        .with_columns(pl.col("_open").cast(pl.Int64).cum_sum().over(keys).alias("_place"))
    )
    again = pl.col("_old").fill_null(False) | (pl.col("_place") > 1)
    return marked.select((again & pl.col("_complete")).alias("again"))["again"]


def _unanimity(rows: pl.DataFrame, seen: pl.DataFrame, minimum: int) -> pl.DataFrame:
    """Every known outcome of an agent version on a problem must be a success, by at least `minimum` validators.

    Rows without a declared agent version, validator or problem cannot be grouped: they pass a minimum of 1 (nobody
    disagrees) and fall to a larger one.
    """
    group = ["agent_version", "problem"]
    votes = pl.concat([rows.select(VOTES), seen.select(VOTES)]).drop_nulls().filter(pl.col("outcome") != "unknown")
    tally = votes.group_by(group).agg(
        (pl.col("outcome") == "success").all().alias("_agree"), pl.col("validator").n_unique().alias("_validators")
    )
    joined = rows.select(group).join(tally, on=group, how="left", maintain_order="left")
    rows = _mark(rows, _open(rows) & ~joined["_agree"].fill_null(True), Reason.NOT_UNANIMOUS)
    return _mark(rows, _open(rows) & (joined["_validators"].fill_null(1) < minimum), Reason.TOO_FEW_VALIDATORS)
