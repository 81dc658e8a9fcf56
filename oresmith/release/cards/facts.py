"""What the templates of the cards walk through: names, texts, the shape of files. No number is taken from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import polars as pl

from oresmith.errors import OresmithError
from oresmith.params import Params
from oresmith.reasons import SENTENCES
from oresmith.release.cards.frontmatter import CERTIFICATE, ordered
from oresmith.release.cards.rowfigures import having
from oresmith.release.cards.sources import chain, recipe_path, released, rollout_split, tag_of
from oresmith.release.cards.values import Values, pointer
from oresmith.release.layout import ROLLOUTS

ROWS = "trajectories/*.parquet"
SPREAD = (
    "snapshot",
    "race_id",
    "validator",
    "runtime",
    "scorer",
    "outcome_source",
    "judge_status",
    "judge_era",
    "origin",
    "provenance_class",
)
"""Columns of which the card counts the values."""
VALUES_SHOWN = 12
WHAT = {
    "trajectories": "an accepted trajectory, with its evidence",
    "sft": "the same, ready for supervised training",
    "kto": "the same with rejects whose only reason is the outcome, labelled",
    "grpo": "a problem with its reward",
    "subtask": "a trajectory whose program made the calls; it passes every other gate",
    "heldout": "a held-out problem",
    "heldout_gold": "a held-out problem with its reward",
    ROLLOUTS: "an evaluated model's attempt at a held-out problem",
    "rejects": "a line that was not taken: place, reasons and evidence",
}


class Spread(NamedTuple):
    """The values of a column."""

    shown: list[str | None]
    """The most frequent ones, then by text; null last among equals."""
    more: bool
    """Whether there are others."""


def shared_context(params: Params, values: Values) -> dict[str, Any]:
    """What every card reads: the release's names, the certificate, the models."""
    return {
        "release": params.release,
        "tag": tag_of(params.release.version),
        "waivers": params.release.waivers,
        "models": [entry.name for entry in params.models],
        "released": released(params).name,
        "cert": CERTIFICATE,
        "certificate": certificate_of(values),
        "having": having,
        "quoted": lambda text: quote(str(text), safe=""),
    }


def certificate_of(values: Values) -> Any:
    """The certificate, as far as a card walks through it. Errors: OresmithError where it has another shape."""
    found = values.document(CERTIFICATE)
    try:
        shape = {"clusters": {"pools": dict}, "claims": list, "contamination": dict, "benchmarks": dict, "counts": dict}
        if isinstance(found["clusters"]["pools"], dict) and all(name in found for name in shape):
            return found
    except (LookupError, TypeError):
        pass
    raise OresmithError("no certificate", where=CERTIFICATE, todo="run `dvc repro`")


def dataset_context(params: Params, values: Values, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What the dataset card and the report read beside `shared_context`.

    Args:
        params: of the project.
        values: the dataset's files.
        provenance: content of provenance.json.

    Raises:
        OresmithError: a file is missing or of another shape.
    """
    snapshots = {entry.name: entry for entry in params.snapshots}
    inputs = provenance["predicate"]["buildDefinition"]["resolvedDependencies"]
    told = [one | {"place": place} for place, one in enumerate(inputs) if one["name"] in snapshots]
    played = [name for name, entry in snapshots.items() if entry.source == "arena"]
    scores = values.document(f"scores/{released(params).name}.json")
    table = _table(values, [*SPREAD, "licence"])
    return {
        "shapes": shapes(params, values),
        "funnel": values.document("funnel.json"),
        "sentences": SENTENCES,
        "rows": ROWS,
        "snapshots": told,
        "spreads": {column: spread(table, column) for column in SPREAD},
        "licences": spread(table, "licence", most=table.height).shown,
        "played": played,
        "collected": [name for name in snapshots if name not in played],
        "titles": scores.get("conditions", {}).get("titles"),
        "misfiled": certificate_of(values).get("misfiled"),
    }


def splits(params: Params, values: Values) -> dict[str, list[str]]:
    """Config -> its published splits, in the order of the card."""
    counts = certificate_of(values)["counts"]
    found: dict[str, Sequence[str]] = {
        config: [split for split, told in of.items() if told.get("rows")] for config, of in counts.items()
    }
    if params.rollout.pool == "heldout" and params.split.held_out:
        found[ROLLOUTS] = [rollout_split(params)]
    order = {"train": 0, "validation": 1, "dev": 1}
    return ordered(
        {config: sorted(names, key=lambda name: (order.get(name, 2), name)) for config, names in found.items()}
    )


def shapes(params: Params, values: Values) -> list[dict[str, Any]]:
    """A line for each split: its names, and where its numbers stand (None for what it does not have)."""
    validation = values.document("validation.json")["configs"]
    places = {(one["config"], one["split"]): place for place, one in enumerate(validation)}
    found = []
    for config, names in splits(params, values).items():
        for split in names:
            place = places.get((config, split))
            told = validation[place] if place is not None else {}
            keys = {
                field: pointer("configs", place, field) if place is not None and told.get(field) is not None else None
                for field in ("problems", "clusters", "bytes")
            }
            rows = (CERTIFICATE, pointer("counts", config, split, "rows"))
            if config == ROLLOUTS:
                rows = (f"{ROLLOUTS}/*.parquet", "rows")
            variable = config if len(names) == 1 else f"{config}_{split}"
            told_of: dict[str, Any] = {"config": config, "split": split, "variable": variable, "what": WHAT[config]}
            found.append(told_of | {"file": rows[0], "rows": rows[1]} | keys)
    return found


def model_context(params: Params, values: Values, root: Path) -> dict[str, Any]:
    """What the model card reads beside `shared_context`.

    Args:
        params: of the project.
        values: the model's files.
        root: the project, for the steps that made the model.
    """
    names = [entry.name for entry in params.models]
    scores = {name: values.document(f"scores/{name}.json") for name in names}
    steps = [{"name": name, "file": recipe_path(name), "told": told} for name, told in chain(params, root)]
    tasks = {}
    for name in names:
        if values.known(f"lmeval/{name}.json"):
            tasks[name] = values.document(f"lmeval/{name}.json")
    categories = sorted({category for one in scores.values() for category in one["by_category"]})
    return {
        "facts": values.document("oresmith_model.json"),
        "scores": scores,
        "categories": categories,
        "steps": steps,
        "pairs": pairs(values),
        "tasks": tasks,
        "pool": params.rollout.pool,
        "held_out": params.split.held_out,
    }


def pairs(values: Values) -> list[dict[str, Any]]:
    """The comparisons, each with its place in compare.json."""
    return [pair | {"place": place} for place, pair in enumerate(values.document("compare.json")["pairs"])]


def spread(table: pl.DataFrame, column: str, most: int = VALUES_SHOWN) -> Spread:
    """The values of a text column, the most frequent first."""
    counts = table[column].value_counts().rows()
    found = sorted(counts, key=lambda pair: (-pair[1], pair[0] is None, pair[0] or ""))
    return Spread([value for value, _ in found[:most]], len(found) > most)


def _table(values: Values, columns: Sequence[str]) -> pl.DataFrame:
    import pyarrow.parquet as pq

    try:
        tables = [pq.ParquetFile(path).read(columns=list(columns)) for path in values.paths(ROWS)]
        return pl.concat([pl.DataFrame(pl.from_arrow(table)) for table in tables])
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise OresmithError("the rows cannot be read", where=ROWS, got=str(error)[:200]) from error
