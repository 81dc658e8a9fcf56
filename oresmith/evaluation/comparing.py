"""Evaluations held against each other on the same problems; refused where they were made under different conditions.

What is claimed is tested: ASR and CAR over all problems, of each model against the first and against the one before it
(or of the pairs that are asked for), with Holm's correction over all tests of the run. By category differences have
their intervals and are not tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from oresmith.arena.titles import Titling
from oresmith.errors import OresmithError, shown
from oresmith.evaluation.figures import CAR
from oresmith.evaluation.multiple import holm
from oresmith.evaluation.paired import Comparison, compare_paired
from oresmith.evaluation.power import ALPHA
from oresmith.evaluation.scored import Scored, load_scores, score_folder
from oresmith.records import Record
from schemas.scores import SCORES_SCHEMA

TESTED = {"asr": "success", "car": CAR}
"""Figure -> its column."""
_NAMES = {"titles": "title threshold", "tools": "tool schema", "problems": "problem set"}
NOT_RECORDED = "not recorded"


class Difference(Record, frozen=True):
    """One figure of two models; above 0 the second is better."""

    figure: str
    """asr or car."""
    group: str
    """all, or a category."""
    n: int
    """Problems."""
    clusters: int
    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    method: str
    """How low and high were found: key of `bootstrap.METHODS`."""
    only_first: int | None
    """Problems that only the first solves; null unless each has one sample."""
    only_second: int | None
    detectable: float | None
    test: str | None
    """`mcnemar` or `swaps`; null where nothing is tested."""
    p: float | None
    p_holm: float | None
    """Corrected for all tests of the run: what a claim goes by."""
    claim: str | None
    """better, worse, or none (the difference could be chance); null where nothing is tested."""
    forced: list[str]
    """The conditions in which the two differ, where the comparison was forced all the same."""


class Pair(Record, frozen=True):
    """Two models."""

    first: str
    second: str
    forced: list[str]
    unpaired: dict[str, int]
    """Problems that only one of them was given, of a forced comparison; no figure holds them."""
    noted: list[str]
    """What else differs and does not bar a comparison."""
    differences: list[Difference]


class Comparisons(Record, frozen=True):
    """All comparisons of a run."""

    models: list[str]
    tests: int
    """That the correction is over."""
    alpha: float
    pairs: list[Pair]


def compare(
    scored: Sequence[Scored], *, forced: bool = False, pairs: Sequence[tuple[int, int]] | None = None
) -> Comparisons:
    """Compare each evaluation with the first, and with the one before it.

    Args:
        scored: evaluations, the base first; of one there is nothing to compare.
        forced: compare under different conditions, too; every number then says so.
        pairs: places of the evaluations that are compared, in place of those.

    Raises:
        OresmithError: conditions differ or are not known to be equal, and nothing is forced; or no problem in common.
    """
    in_turn = ((first, second) for second in range(1, len(scored)) for first in (0, second - 1))
    places = dict.fromkeys(in_turn if pairs is None else pairs)
    chosen = [(scored[first], scored[second]) for first, second in places]
    if not forced:
        for first, second in chosen:
            refuse_difference(first, second)
    found = [_pair(first, second) for first, second in chosen]
    tested = [one for pair in found for one in pair.differences if one.p is not None]
    corrected = iter(holm([one.p for one in tested if one.p is not None]))
    return Comparisons(
        models=[one.scores.model for one in scored],
        tests=len(tested),
        alpha=ALPHA,
        pairs=[
            msgspec.structs.replace(
                pair,
                differences=[one if one.p is None else _decided(one, next(corrected)) for one in pair.differences],
            )
            for pair in found
        ],
    )


def compare_folders(
    first: Path,
    second: Path,
    *,
    forced: bool = False,
    problems: Path | None = None,
    catalogue: Path | None = None,
    titling: Titling | None = None,
    workers: int = 1,
) -> Comparisons:
    """Compare two directories of anybody: of scores, or of rollouts, which are scored first.

    Args:
        first: the base.
        second: what is held against it.
        forced: as for `compare`.
        problems: problem file, for rollouts.
        catalogue: product documents, for rollouts.
        titling: the wish for title similarity, for rollouts.
        workers: processes.

    Raises:
        OresmithError: as `compare`, `load_scores` and `score_folder`; or rollouts without problems and catalogue.
    """
    found = []
    for folder in (first, second):
        if _holds_scores(folder):
            found.append(load_scores(folder))
        elif problems is None or catalogue is None:
            raise OresmithError(
                "there are no scores",
                where=str(folder),
                todo="give the problems and the catalogue of the rollouts, or score them with `oresmith rescore`",
            )
        else:
            found.append(score_folder(folder, problems, catalogue, titling=titling, workers=workers))
    return compare(found, forced=forced)


def refuse_difference(first: Scored, second: Scored) -> None:
    """Refuse two evaluations whose conditions are not known to be equal.

    Raises:
        OresmithError: naming what differs.
    """
    found = conditions_apart(first.scores.conditions, second.scores.conditions)
    if found:
        raise OresmithError(
            "the models were not evaluated under the same conditions",
            where=f"{first.scores.model} and {second.scores.model}",
            got="; ".join(found),
            todo="play both under one configuration, or force the comparison: every number of it then says so",
        )


def conditions_apart(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """The conditions that differ, or that are not recorded and so not known to be equal, each with both values."""
    apart = []
    for name in sorted(first.keys() | second.keys()):
        one, other = _condition(name, first.get(name)), _condition(name, second.get(name))
        unknown = name != "titles" and None in (first.get(name), second.get(name))
        if unknown or one != other:
            apart.append(f"{_NAMES.get(name, name)}: {_told(name, one)} and {_told(name, other)}")
    return apart


def _holds_scores(folder: Path) -> bool:
    try:
        manifest = msgspec.json.decode((folder / "manifest.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    return isinstance(manifest, dict) and manifest.get("schema") == SCORES_SCHEMA


def _condition(name: str, value: Any) -> Any:
    """What decides of a condition; a shop's name does not, only what is in it."""
    if name == "shops" and isinstance(value, dict):
        return sorted(map(_text, value.values()))
    return value


def _text(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def _told(name: str, value: Any) -> str:
    if value is None:
        return "none" if name == "titles" else NOT_RECORDED
    if isinstance(value, dict) and value.keys() == {"id", "sha256"}:
        return f"{value['id']} ({str(value['sha256'])[:12]})"
    return shown((value if isinstance(value, str) else _text(value))[:200])


def _pair(first: Scored, second: Scored) -> Pair:
    names = [first.scores.model, second.scores.model]
    forced = conditions_apart(first.scores.conditions, second.scores.conditions)
    shared = set(first.table["key"]) & set(second.table["key"])
    if not shared:
        raise OresmithError("the models share no problem", where=" and ".join(names))
    one, other = (side.table.filter(pl.col("key").is_in(sorted(shared))) for side in (first, second))
    unpaired = {
        name: side.table["key"].n_unique() - len(shared)
        for name, side in zip(("first", "second"), (first, second), strict=True)
    }
    found = [_difference(figure, "all", one, other, forced) for figure in TESTED]
    for category in sorted(one["category"].drop_nulls().unique().to_list()):
        keys = one.filter(pl.col("category") == category)["key"].unique()
        of_category = pl.col("key").is_in(keys.to_list())
        found.append(_difference("asr", category, one.filter(of_category), other.filter(of_category), forced))
    noted = [name for name in sorted(first.scores.noted) if first.scores.noted[name] != second.scores.noted.get(name)]
    return Pair(
        first=names[0],
        second=names[1],
        forced=forced,
        unpaired={name: count for name, count in unpaired.items() if count},
        noted=noted,
        differences=found,
    )


def _difference(figure: str, group: str, first: pl.DataFrame, second: pl.DataFrame, forced: list[str]) -> Difference:
    found = compare_paired(
        _samples(first, TESTED[figure]),
        _samples(second, TESTED[figure]),
        dict(zip(first["key"].to_list(), first["cluster"].to_list(), strict=True)),
        seed=f"compare {group} {figure}",
    )
    tested = group == "all"
    copied = {
        name: getattr(found, name) for name in Comparison.__struct_fields__ if name in Difference.__struct_fields__
    }
    return Difference(
        **copied
        | {
            "figure": figure,
            "group": group,
            "test": found.test if tested else None,
            "p": found.p if tested else None,
            "p_holm": None,
            "claim": None,
            "forced": forced,
        }
    )


def _samples(rows: pl.DataFrame, column: str) -> dict[str, list[float]]:
    grouped = rows.group_by("key", maintain_order=True).agg(pl.col(column).cast(pl.Float64))
    return dict(zip(grouped["key"].to_list(), grouped[column].to_list(), strict=True))


def _decided(one: Difference, p: float) -> Difference:
    claim = "none" if p > ALPHA or not one.difference else "better" if one.difference > 0 else "worse"
    return msgspec.structs.replace(one, p_holm=p, claim=claim)
