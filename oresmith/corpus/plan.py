"""What becomes of every trajectory: decided from the small tables, before one streaming pass writes the rows.

A row has one of three fates: it is published (`place`), it is withheld because of its problem's pool (`withheld`), or
it is rejected (`stage`, `reasons`). Rows of place `kto` stay rejects: that config shows them a second time.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from oresmith.corpus.problems import NO_PROBLEM, read_columns
from oresmith.corpus.rank import RANKED_BY, with_ranks
from oresmith.errors import OresmithError
from oresmith.leakage.ledger import DEV, TRAIN
from oresmith.param_data import Corpus
from oresmith.reasons import Reason, in_order

PLACE = ["snapshot", "file", "line"]
TRAJECTORIES, SUBTASK, KTO = "trajectories", "subtask", "kto"
FACTS = [
    "trajectory_id",
    "problem_id",
    "category",
    "outcome",
    "outcome_source",
    "scorer",
    "score",
    "origin",
    "origin_votes",
    "recommend_origin",
    "provenance_class",
    *RANKED_BY,
    "tokens",
    "tokenizer",
    "n_steps",
    "n_calls",
    "agent_version",
    "run_id",
    "validator",
    "miner",
    "race_id",
    "runtime",
    "format",
    "licence",
]
"""Columns of the evidence that a published row carries or ranking reads."""
_DECIDING = ["offset", "call_sequence"]
MEASURED: dict[str, pl.DataType] = {
    "row_bytes": pl.Int64(),
    "recommends": pl.List(pl.String()),
    "views_since": pl.Int64(),
    "unfit": pl.String(),
}
"""What only the dialogue itself can say: see `steps.Measurer`."""


def load_rows(data: Path, names: list[str], problems: pl.DataFrame) -> pl.DataFrame:
    """Every row of evidence of the snapshots with its decision, its problem and that problem's `use`.

    Args:
        data: the pipeline's data directory.
        names: of the snapshots, in order.
        problems: `problems.read_problems`.

    Returns:
        Rows in (snapshot order, file, line), numbered by `n`; `order` is the place of the snapshot.

    Raises:
        OresmithError: a table is missing, or two are not of the same rows.
    """
    evidence = pl.concat(
        [
            read_columns(
                (data / "evidence" / name / "table").glob("*.parquet"),
                [*PLACE, *FACTS, *_DECIDING],
                f"rows of evidence of snapshot {name}",
            ).with_columns(pl.lit(place, pl.Int64).alias("order"))
            for place, name in enumerate(names)
        ]
    )
    decisions = read_columns(data / "gate" / "decisions.parquet", [*PLACE, "accepted", "reasons"], "decisions")
    attempts = read_columns(data / "cluster" / "attempts.parquet", [*PLACE, "problem"], "attempts")
    rows = _same_rows(_same_rows(evidence, decisions, "gate"), attempts, "cluster")
    known = problems.select(
        "problem",
        "use",
        "cluster",
        "pool",
        "benchmarks",
        "flagged",
        pl.col("query").alias("problem_query"),
        pl.col("category").alias("problem_category"),
    )
    rows = rows.join(known, on="problem", how="left").sort("order", "file", "line")
    lost = rows.filter(pl.col("problem").is_not_null() & pl.col("use").is_null())
    if lost.height:
        raise _other_rows(f"the problem {lost['problem'][0]} of a trajectory has no pool", "split")
    return (
        rows.with_columns(
            pl.col("use").fill_null(NO_PROBLEM), pl.coalesce("problem_category", "category").alias("category")
        )
        .with_row_index("n")
        .with_columns(pl.col("n").cast(pl.Int64))
    )


def _same_rows(rows: pl.DataFrame, other: pl.DataFrame, stage: str) -> pl.DataFrame:
    joined = rows.join(other, on=PLACE, how="inner", validate="1:1")
    if not rows.height == other.height == joined.height:
        raise _other_rows(f"{rows.height} rows of evidence, {other.height} rows, {joined.height} in common", stage)
    return joined


def _other_rows(got: str, stage: str) -> OresmithError:
    return OresmithError(
        f"evidence and stage {stage} are of different rows",
        where=f"data/{stage}",
        expected="one row a trajectory",
        got=got,
        todo="run `dvc repro`",
    )


def candidates(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that a config may take, by `kind`: accepted ones of train and dev, and two sorts of rejects of train."""
    train = pl.col("use") == TRAIN
    only = pl.col("reasons").list.len() == 1
    reason = pl.col("reasons").list.first()
    kind = (
        pl.when(pl.col("accepted") & pl.col("use").is_in([TRAIN, DEV]))
        .then(pl.lit(TRAJECTORIES))
        .when(train & only & (reason == Reason.ORIGIN_SUBTASK.value))
        .then(pl.lit(SUBTASK))
        .when(train & only & (reason == Reason.OUTCOME.value))
        .then(pl.lit(KTO))
    )
    return rows.with_columns(kind.alias("kind")).filter(pl.col("kind").is_not_null())


def decide(rows: pl.DataFrame, chosen: pl.DataFrame, params: Corpus) -> pl.DataFrame:
    """Decide the fate of every row.

    Args:
        rows: `load_rows`.
        chosen: `candidates` of them with the columns `MEASURED`.
        params: caps and guards.

    Returns:
        `rows` with `place` (train, dev, subtask, kto or null), `withheld` (label or null), `stage` (that rejects the
        row: gate, corpus or null), `reasons` (all of them), `left_out` (why a candidate is not in its view or config
        although it may stay in another: a code or null), and what the reasons rest on: `rank`, `cluster_rank`,
        `viewed_heldout_gold` and the columns `MEASURED`.
    """
    judged = _with_faults(chosen, params)
    published = _capped(judged.filter(pl.col("kind") == TRAJECTORIES), params)
    known = published.filter(pl.col("place").is_not_null())["trajectory_id"].implode()
    judged = judged.with_columns(pl.col("trajectory_id").is_in(known).alias("known"))
    lifted = _lifted(judged.filter(pl.col("kind") == SUBTASK))
    undesirable = _undesirable(judged.filter(pl.col("kind") == KTO), params)
    decided = pl.concat([published, lifted, undesirable], how="diagonal")
    added = rows.join(decided.select("n", *_ADDED), on="n", how="left", maintain_order="left")
    accepted = pl.col("accepted")
    withheld = pl.when(accepted & ~pl.col("use").is_in([TRAIN, DEV])).then(pl.col("use"))
    rejected_here = accepted & (pl.col("faults").list.len().fill_null(0) > 0)
    stage = (
        pl.when(rejected_here)
        .then(pl.lit("corpus"))
        .when(~accepted & (pl.col("place").is_null() | (pl.col("place") == KTO)))
        .then(pl.lit("gate"))
    )
    extended = pl.col("reasons").list.concat(pl.col("faults").fill_null([]))
    reasons = _ordered(extended)
    return added.with_columns(withheld.alias("withheld"), stage.alias("stage"), reasons.alias("reasons")).drop("faults")


_ADDED = [
    "kind",
    "place",
    "faults",
    "left_out",
    "rank",
    "cluster_rank",
    "viewed_heldout_gold",
    *MEASURED,
]


def _ordered(codes: pl.Expr) -> pl.Expr:
    several = codes.list.len() > 1
    return (
        pl.when(several)
        .then(codes.map_elements(lambda found: in_order(list(found)), pl.List(pl.String)))
        .otherwise(codes)
    )


def _with_faults(chosen: pl.DataFrame, params: Corpus) -> pl.DataFrame:
    """Add `faults` (reason codes of guards and limits) and `viewed_heldout_gold`."""
    views = pl.col("views_since")
    recommends = pl.col("recommends").list.len() > 0
    gold = [recommends] if params.heldout_gold_recommended == "reject" else []
    gold += [views.is_not_null()] if params.heldout_gold_viewed == "reject" else []
    faulty = [
        (Reason.HELDOUT_GOLD, pl.any_horizontal(pl.lit(False), *gold)),
        (Reason.ROW_TOO_LARGE, pl.col("row_bytes") > params.max_row_bytes),
    ]
    fired = [pl.when(condition).then(pl.lit(reason.value)) for reason, condition in faulty]
    return chosen.with_columns(
        # Against the pools of the row's own time: a pool that opens later must not rewrite rows that are published.
        (views <= pl.col("order")).fill_null(False).alias("viewed_heldout_gold"),
        pl.concat_list(fired).list.drop_nulls().alias("faults"),
    )


def _sound() -> pl.Expr:
    return pl.col("faults").list.len() == 0


def _fit() -> pl.Expr:
    return pl.col("left_out").is_null()


def _capped(rows: pl.DataFrame, params: Corpus) -> pl.DataFrame:
    """`trajectories`: under the caps; `left_out` is why the row is in no view."""
    rows = _ranked(rows, _sound(), params.cap_per_problem, params.cap_per_cluster)
    rows = rows.with_columns(pl.when(_over()).then(pl.concat_list("over")).otherwise("faults").alias("faults"))
    return rows.with_columns(
        pl.when(_sound()).then("use").alias("place"), pl.when(_sound()).then("unfit").alias("left_out")
    )


def _lifted(rows: pl.DataFrame) -> pl.DataFrame:
    """`subtask`: no caps, but one row an id; `left_out` is why a row stays a reject of the gate."""
    rows = rows.with_columns(pl.col("faults").list.first().alias("left_out"))
    rows = _mark_repeated(rows, ["trajectory_id"], Reason.DUPLICATE)
    rows = rows.with_columns(
        pl.when(_sound() & ~_fit()).then(pl.concat_list("left_out")).otherwise("faults").alias("faults")
    )
    return _ranked(rows, _fit()).with_columns(pl.when(_fit()).then(pl.lit(SUBTASK)).alias("place"))


def _undesirable(rows: pl.DataFrame, params: Corpus) -> pl.DataFrame:
    """Rows of `kto`: fit for a view, each once, under caps of their own; nothing here changes the gate's reject."""
    rows = rows.with_columns(pl.coalesce(pl.col("faults").list.first(), "unfit").alias("left_out"))
    rows = _mark_repeated(rows, ["trajectory_id"], Reason.DUPLICATE)
    rows = _mark_repeated(rows, ["problem", "call_sequence"], Reason.DUPLICATE_CALLS)
    rows = _ranked(rows, _fit(), params.cap_per_problem, params.cap_per_cluster)
    rows = rows.with_columns(pl.coalesce("left_out", "over").alias("left_out"))
    none = pl.lit(None, pl.List(pl.String))
    return rows.with_columns(pl.when(_fit()).then(pl.lit(KTO)).alias("place"), none.alias("faults"))


def _over() -> pl.Expr:
    return pl.col("over").is_not_null()


def _ranked(rows: pl.DataFrame, among: pl.Expr, *caps: int | None) -> pl.DataFrame:
    """Rank some of the rows; the others have no rank."""
    named = rows.with_columns(pl.col("trajectory_id").alias("row_id"))
    return pl.concat([with_ranks(named.filter(among), *caps), named.filter(~among)], how="diagonal")


def _mark_repeated(rows: pl.DataFrame, keys: list[str], reason: Reason) -> pl.DataFrame:
    """Leave out fit rows that `trajectories` holds already, or whose keys a fit row before them has (by `n`).

    A null key equals nothing.
    """
    complete = pl.all_horizontal([pl.col(key).is_not_null() for key in keys]) & _fit()
    first = pl.when(complete).then("n").min().over(keys)
    again = complete & (pl.col("known") | (pl.col("n") != first))
    return rows.with_columns(pl.when(again).then(pl.lit(reason.value)).otherwise("left_out").alias("left_out"))
