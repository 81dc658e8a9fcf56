"""Trajectories: what the evidence says of each, held against what is true of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from oresmith.audit.truth_file import FRAME
from oresmith.audit.truth_misses import Listed, listed_rows
from oresmith.audit.truth_rates import (
    AcceptedRates,
    FamilyRates,
    FoundRates,
    Matched,
    OriginRates,
    OutcomeRates,
    SecretRates,
)
from oresmith.errors import OresmithError
from oresmith.intervals import Rate, rate
from oresmith.records import Record

PLACE = ("snapshot", "file", "line")
FOUND = (
    *PLACE,
    "problem_id",
    "origin",
    "full_text",
    "provenance_class",
    "outcome",
    "secret_types",
    "personal_types",
    "path_types",
    "injection_types",
)
"""Columns of the evidence that are judged."""
_HASHED = "sha256:"
"""An id that the evidence does not repeat as it is begins so."""


class RowFigures(Record, frozen=True):
    """Everything about trajectories."""

    origin: OriginRates
    families: dict[str, FamilyRates]
    forgery: FoundRates
    """Forged rows by the provenance class agent-written."""
    forged_verified: Rate
    """Forged rows that the evidence calls server-verified; none may be."""
    secrets: SecretRates
    injections: FoundRates
    outcome: OutcomeRates
    accepted: AcceptedRates


def read_found(data: Path, name: str) -> pl.DataFrame:
    """The columns `FOUND` of one snapshot's evidence.

    Errors: OresmithError where there is none.
    """
    folder = data / "evidence" / name / "table"
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise OresmithError("there is no evidence of this snapshot", where=str(folder), todo="run `dvc repro`")
    return pl.concat([pl.read_parquet(path, columns=list(FOUND)).select(FOUND) for path in paths])


def read_accepted(data: Path) -> pl.DataFrame:
    """Place and `accepted` of every decided row. Errors: OresmithError where the gate has not run."""
    path = data / "gate" / "decisions.parquet"
    if not path.is_file():
        raise OresmithError("there are no decisions of the gate", where=str(path), todo="run `dvc repro`")
    return pl.read_parquet(path, columns=[*PLACE, "accepted"])


def join(
    name: str, planted: pl.DataFrame, found: pl.DataFrame, accepted: pl.DataFrame
) -> tuple[pl.DataFrame, Matched, dict[str, Listed]]:
    """The rows of one snapshot of which both truth and evidence speak, and what is said of the others.

    Args:
        name: of the snapshot.
        planted: columns of `truth_file.FRAME`.
        found: columns `FOUND`.
        accepted: as `read_accepted` gives it, of any snapshots.
    """
    planted = planted.with_columns(pl.lit(name).alias("snapshot"))
    on = list(PLACE)
    rows = found.join(planted, on=on, how="inner").join(accepted, on=on, how="left").sort(on)
    lost = planted.join(found, on=on, how="anti").sort(on)
    extra = found.join(planted, on=on, how="anti").sort(on)
    moved = (
        pl.col("true_problem").is_not_null()
        & pl.col("problem_id").is_not_null()
        & ~pl.col("problem_id").str.starts_with(_HASHED)
        & (pl.col("problem_id") != pl.col("true_problem"))
    )
    misses = {
        "without_evidence": listed_rows(lost, pl.lit(True), "family"),
        "without_truth": listed_rows(extra, pl.lit(True), "origin"),
        "other_problem": listed_rows(rows, moved, "true_problem", "problem_id"),
    }
    counts = {kind: one.count for kind, one in misses.items()}
    return rows.with_columns(**_judged()), Matched(rows=rows.height, **counts), misses


def _judged() -> Mapping[str, pl.Expr]:
    """Flags that the figures are made of; none is ever null, except `success` where nobody knows."""
    forged = pl.col("forged")
    elsewhere = pl.concat_list("personal_types", "path_types")
    return {
        "truly_a": (pl.col("true_origin") == "A") & ~forged,
        "truly_b": (pl.col("true_origin") == "B") & ~forged,
        "full_text": pl.col("full_text").fill_null(False),
        "has_secret": pl.col("planted").list.len() > 0,
        "secret": pl.col("secret_types").list.len() > 0,
        "secret_or_planted": (pl.col("secret_types").list.len() > 0)
        | (pl.col("planted").list.set_intersection(elsewhere).list.len() > 0),
        "injection": pl.col("injection_types").list.len() > 0,
        "agent_written": pl.col("provenance_class") == "agent-written",
        "accepted": pl.col("accepted").fill_null(False),
        "true_outcome": pl.when(pl.col("success")).then(pl.lit("success")).otherwise(pl.lit("failure")),
    }


EMPTY = pl.DataFrame(
    schema={
        **dict.fromkeys(FOUND, pl.String()),
        "line": pl.Int64(),
        "full_text": pl.Boolean(),
        **dict.fromkeys(("secret_types", "personal_types", "path_types", "injection_types"), pl.List(pl.String())),
        **FRAME,
        "accepted": pl.Boolean(),
    }
).with_columns(**_judged())
"""No row, with every column that `join` gives."""


def figures(rows: pl.DataFrame) -> RowFigures:
    """All figures of the rows that `join` gave, of all snapshots together."""
    forged, planted = pl.col("forged"), pl.col("has_secret")
    by_type = _by_type(rows)
    return RowFigures(
        origin=_origin(rows),
        families=_families(rows),
        forgery=_found(rows, forged, pl.col("agent_written")),
        forged_verified=share(rows, forged, pl.col("provenance_class") == "server-verified"),
        secrets=SecretRates(
            recall=share(rows, planted, pl.col("secret_or_planted")),
            recall_named=rate(sum(one.k for one in by_type.values()), sum(one.n for one in by_type.values())),
            by_type=by_type,
            false_positives=share(rows, ~planted, pl.col("secret")),
        ),
        injections=_found(rows, pl.col("injected"), pl.col("injection")),
        outcome=_outcome(rows),
        accepted=_accepted(rows),
    )


def share(rows: pl.DataFrame, among: pl.Expr, hit: pl.Expr) -> Rate:
    """The rows of `among` that are `hit`; both without nulls."""
    n, k = rows.select(n=among.sum(), k=(among & hit).sum()).row(0)
    return rate(k, n)


def _origin(rows: pl.DataFrame) -> OriginRates:
    label, truly_a, truly_b = pl.col("origin"), pl.col("truly_a"), pl.col("truly_b")
    everything, full = pl.col("origin").is_not_null(), pl.col("true_full_text")
    return OriginRates(
        precision=share(rows, label == "A", truly_a),
        recall=share(rows, truly_a & full, label == "A"),
        recall_any_text=share(rows, truly_a, label == "A"),
        precision_b=share(rows, label == "B", truly_b),
        recall_b=share(rows, truly_b, label == "B"),
        unknown=share(rows, everything, label == "unknown"),
        unknown_full_text=share(rows, truly_a & full, label == "unknown"),
        forgers_labelled_a=share(rows, pl.col("forged"), label == "A"),
        full_text=share(rows, everything, pl.col("full_text") == full),
    )


def _families(rows: pl.DataFrame) -> dict[str, FamilyRates]:
    label = pl.col("origin")
    counted = (
        rows.group_by("family")
        .agg(
            n=pl.len(),
            a=(label == "A").sum(),
            b=(label == "B").sum(),
            unknown=(label == "unknown").sum(),
            right=(label == pl.col("true_origin")).sum(),
        )
        .sort("family")
    )
    return {
        family: FamilyRates(
            rows=n,
            labelled_a=rate(a, n),
            labelled_b=rate(b, n),
            labelled_unknown=rate(unknown, n),
            labelled_right=rate(right, n),
        )
        for family, n, a, b, unknown, right in counted.iter_rows()
    }


def _found(rows: pl.DataFrame, planted: pl.Expr, found: pl.Expr) -> FoundRates:
    return FoundRates(
        recall=share(rows, planted, found),
        precision=share(rows, found, planted),
        false_positives=share(rows, ~planted, found),
    )


def _by_type(rows: pl.DataFrame) -> dict[str, Rate]:
    counted = (
        rows.filter("has_secret")
        .select(
            pl.concat_list("secret_types", "personal_types", "path_types").alias("named"),
            pl.col("planted").list.unique().alias("type"),
        )
        .explode("type")
        .with_columns(hit=pl.col("named").list.contains(pl.col("type")))
        .group_by("type")
        .agg(n=pl.len(), k=pl.col("hit").sum())
        .sort("type")
    )
    return {kind: rate(k, n) for kind, n, k in counted.iter_rows()}


def _outcome(rows: pl.DataFrame) -> OutcomeRates:
    known = pl.col("success").is_not_null()
    pairs = rows.filter(known).group_by("true_outcome", "outcome").len().sort("true_outcome", "outcome")
    return OutcomeRates(
        agreement=share(rows, known, pl.col("outcome") == pl.col("true_outcome")),
        unknown=share(rows, known, pl.col("outcome") == "unknown"),
        pairs={f"{true}/{found}": count for true, found, count in pairs.iter_rows()},
    )


def _accepted(rows: pl.DataFrame) -> AcceptedRates:
    accepted = pl.col("accepted")
    return AcceptedRates(
        forged=share(rows, accepted, pl.col("forged")),
        subtask=share(rows, accepted, pl.col("truly_b")),
        with_secret=share(rows, accepted, pl.col("has_secret")),
        with_injection=share(rows, accepted, pl.col("injected")),
        failed=share(rows, accepted & pl.col("success").is_not_null(), ~pl.col("success").fill_null(True)),
    )


def row_misses(rows: pl.DataFrame) -> dict[str, Listed]:
    """Every place where finding and truth part, by kind."""
    label, truly_a, truly_b = pl.col("origin"), pl.col("truly_a"), pl.col("truly_b")
    forged, written, planted = pl.col("forged"), pl.col("agent_written"), pl.col("has_secret")
    full, known = pl.col("true_full_text"), pl.col("success").is_not_null()
    kinds: dict[str, tuple[pl.Expr, Sequence[str]]] = {
        "forger_labelled_a": (forged & (label == "A"), ("family", "provenance_class")),
        "forger_verified": (forged & (pl.col("provenance_class") == "server-verified"), ("family",)),
        "labelled_a_wrongly": ((label == "A") & truly_b, ("family",)),
        "a_not_found": (truly_a & full & (label != "A"), ("family", "origin")),
        "labelled_b_wrongly": ((label == "B") & truly_a & ~full, ("family",)),
        "full_text_differs": (pl.col("full_text") != full, ("family", "true_full_text")),
        "forgery_missed": (forged & ~written, ("family", "provenance_class")),
        "forgery_invented": (~forged & written, ("family",)),
        "secret_missed": (planted & ~pl.col("secret_or_planted"), ("family", "planted")),
        "secret_by_another_type": (_other_type(), ("family", "planted", "secret_types", "personal_types")),
        "secret_invented": (~planted & pl.col("secret"), ("family", "secret_types")),
        "injection_missed": (pl.col("injected") & ~pl.col("injection"), ("family",)),
        "injection_invented": (~pl.col("injected") & pl.col("injection"), ("family", "injection_types")),
        "accepted_wrongly": (
            pl.col("accepted") & (forged | truly_b | planted | pl.col("injected") | ~pl.col("success").fill_null(True)),
            ("family", "true_origin", "forged", "planted", "injected", "success"),
        ),
        "outcome_differs": (known & (pl.col("outcome") != pl.col("true_outcome")), ("true_outcome", "outcome")),
    }
    return {kind: listed_rows(rows, chosen, *told) for kind, (chosen, told) in kinds.items()}


def _other_type() -> pl.Expr:
    named = pl.concat_list("secret_types", "personal_types", "path_types")
    return pl.col("secret_or_planted") & (pl.col("planted").list.set_difference(named).list.len() > 0)
