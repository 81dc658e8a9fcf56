"""The figures of an evaluation, over all problems and by category and difficulty, each with its interval.

Rates count every sample the same and say k of n; means count every problem the same. A sample that was not played or
scored is a failure in every rate and share; means of what only played ones have (turns, tokens, ids) are over those.
"""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import NamedTuple

import numpy as np
import polars as pl

from oresmith.evaluation.bootstrap import SHARE
from oresmith.evaluation.failures import CLASSES
from oresmith.evaluation.means import Mean, mean_of, rate_of
from oresmith.evaluation.passk import AtK, pass_curves
from oresmith.evaluation.power import detectable_by_error, detectable_paired, detectable_unpaired
from oresmith.evaluation.workers import in_order
from oresmith.intervals import DIGITS, Rate
from oresmith.records import Record
from schemas.scores import COUNTS, SHARES

CAR = "rule"
"""Column whose mean is CAR."""
CONSTRAINTS = ("title", "price", "service", "sku & attrs")
PER_GROUP = (CAR, *CONSTRAINTS, "one shop", "budget", "format", "found", "turns")
"""Means that categories and difficulties have, too."""
USED = ("invented", "unseen")
"""Counts of ids of which a rate says in how many rollouts there is any."""


FEW = 1_000
"""Problems whose figures are there sooner than another process has begun."""


class Detectable(Record, frozen=True):
    """The true difference that an evaluation of this size finds in 80 of 100 cases at 5% (`power`); null: none."""

    problems: int
    """Independent ones: leak clusters."""
    different_problems: float | None
    """Between this model and a better one that plays as many other problems."""
    same_problems: float | None
    """Between this model and one on the same problems, one sample each; null with several samples of a problem, where
    only the comparison itself can say."""
    discordant: float | None
    """Share of problems that just one of the two solves, as assumed for `same_problems`: that of models of this rate
    that have nothing in common. Checkpoints of one model have less, and can show smaller differences."""


class Figures(Record, frozen=True):
    """The figures of a group of problems."""

    problems: int
    clusters: int
    rollouts: int
    """Samples that were to be played."""
    asr: Rate
    detectable: Detectable
    means: dict[str, Mean]
    """By column of schemas/scores.py; `rule` is CAR."""
    used: dict[str, Rate]
    """Rollouts that recommend or view an id without having been shown it: `invented` where no product has it."""
    failures: dict[str, Rate]
    """By class (`failures`); those that occur."""
    curve: list[AtK]
    """pass@k and pass^k."""


class Group(NamedTuple):
    """A name and the rows that belong to it."""

    name: str
    rows: pl.DataFrame
    whole: bool
    """All problems, of which all means are taken."""


def all_figures(table: pl.DataFrame, workers: int = 1) -> tuple[Figures, dict[str, Figures], dict[str, Figures]]:
    """The figures of all problems, by category and by difficulty; a problem that states none is in no such group.

    Args:
        table: of schemas/scores.py.
        workers: processes that compute; the figures do not depend on it.
    """
    groups = [Group("all", table, True)]
    places = [("category", name) for name in _values(table, "category")]
    places += [("difficulty", name) for name in _values(table, "difficulty")]
    groups += [Group(f"{by} {name}", table.filter(pl.col(by) == name), False) for by, name in places]
    few = table["problem"].n_unique() < FEW
    whole, *parts = in_order(figures, groups, 1 if few else min(workers, len(groups)))
    found: dict[str, dict[str, Figures]] = {"category": {}, "difficulty": {}}
    for (by, name), part in zip(places, parts, strict=True):
        found[by][name] = part
    return whole, found["category"], found["difficulty"]


def figures(group: Group) -> Figures:
    """The figures of one group. Seeds are names of groups and figures, so that equal rows give equal figures."""
    rows = group.rows.sort("problem", "sample")
    problems = rows.group_by("problem", maintain_order=True)
    sums = problems.agg(pl.col("cluster").first(), pl.len().alias("samples"), pl.col("success").sum())
    samples, clusters = sums["samples"].to_numpy(), sums["cluster"].to_list()
    hits = sums["success"].to_numpy()
    mean = partial(_mean, rows, group.name)

    def rate(name: str, case: pl.Expr) -> Rate:
        cases = problems.agg(case.fill_null(False).sum().alias("cases"))["cases"].to_numpy()
        return rate_of(cases, samples, clusters, seed=f"score {group.name} {name}")

    asr = rate_of(hits, samples, clusters, seed=f"score {group.name} asr")
    success = mean_of(hits / np.maximum(samples, 1), clusters, seed=f"score {group.name} success", limits=SHARE)
    occur = set(rows["failure"].drop_nulls().to_list())
    return Figures(
        problems=len(sums),
        clusters=success.clusters,
        rollouts=len(rows),
        asr=asr,
        detectable=_detectable(success, int(samples.max(initial=1))),
        means={name: mean(name) for name in (*SHARES, *COUNTS) if group.whole or name in PER_GROUP},
        used={name: rate(name, pl.col(name) > 0) for name in USED if group.whole},
        failures={name: rate(name, pl.col("failure") == name) for name in CLASSES if name in occur},
        curve=pass_curves(hits, samples, clusters, seed=f"score {group.name}"),
    )


def _mean(rows: pl.DataFrame, group: str, column: str) -> Mean:
    """The mean over the problems of which the column is known."""
    known = rows.filter(pl.col(column).is_not_null()).group_by("problem", maintain_order=True)
    values = known.agg(pl.col("cluster").first(), pl.col(column).cast(pl.Float64).mean())
    limits = SHARE if column in SHARES else None
    return mean_of(
        values[column].to_numpy(), values["cluster"].to_list(), seed=f"score {group} {column}", limits=limits
    )


def _detectable(success: Mean, samples: int) -> Detectable:
    share, problems = success.value, success.clusters
    if share is None:
        return Detectable(problems=problems, different_problems=None, same_problems=None, discordant=None)
    if samples > 1 and success.error:
        other = detectable_by_error(sqrt(2) * success.error)
        return Detectable(problems=problems, different_problems=_rounded(other), same_problems=None, discordant=None)
    discordant = 2 * share * (1 - share)
    return Detectable(
        problems=problems,
        different_problems=_rounded(detectable_unpaired(problems, share)),
        same_problems=_rounded(detectable_paired(problems, discordant)),
        discordant=_rounded(discordant),
    )


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, DIGITS)


def _values(table: pl.DataFrame, column: str) -> list[str]:
    return sorted(table[column].drop_nulls().unique().to_list())
