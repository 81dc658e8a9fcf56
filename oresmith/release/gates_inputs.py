"""Gates of what went in: licences, pinned inputs, the age of the held-out pool."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime

import polars as pl

from oresmith.errors import OresmithError
from oresmith.frozen import Frozen, read_frozen
from oresmith.release.given import Given, read_json
from oresmith.stage import DATA

LICENSED = ("trajectories", "subtask")
"""Configs whose rows name their licence; the others are views of them, or hold no text of a source."""
_COMMIT = re.compile(r"hub:[^@]+@[0-9a-f]{40}\Z")


def licences(given: Given) -> str:
    """Whether each row names the licence that its snapshot was given under, and the model has one."""
    stated = {frozen.name: frozen.licence for frozen in _frozen(given)}
    found: Counter[str] = Counter()
    for config in LICENSED:
        for path in sorted((given.dataset / config).glob("*.parquet")):
            try:
                rows = pl.read_parquet(path, columns=["row_id", "snapshot", "licence"])
            except (pl.exceptions.PolarsError, OSError) as error:
                raise OresmithError("a file cannot be read", where=str(path), got=str(error)[:200]) from error
            for number, (row_id, snapshot, licence) in enumerate(rows.iter_rows(), 1):
                if not licence or licence != stated.get(snapshot):
                    raise OresmithError(
                        "a row has another licence than its source, or none",
                        where=f"{path}: row {number}, {row_id}",
                        expected=str(stated.get(snapshot)),
                        got=str(licence)[:80],
                    )
                found[licence] += 1
    facts = given.model / "oresmith_model.json"
    if facts.is_file() and not read_json(facts).get("licence"):
        raise OresmithError("nobody says what licence the model has", where=str(facts))
    return ", ".join(f"{count} rows {licence}" for licence, count in sorted(found.items())) or "no row of a source"


def pinned_inputs(given: Given) -> str:
    """Whether every input is named by content: snapshots by hash, models by commit or by their files."""
    params, told = given.params, []
    if params.base.model.startswith("hub:") and not _COMMIT.match(params.base.model):
        raise OresmithError(
            "a model of the Hub that can move",
            where="params.yaml: base.model",
            expected="hub:ORG/NAME@SHA",
            got=params.base.model,
        )
    for frozen in _frozen(given):
        entry = next(entry for entry in params.snapshots if entry.name == frozen.name)
        if entry.sha256 is not None and entry.sha256 != frozen.tree_sha256:
            raise OresmithError(
                "a snapshot is not the pinned one", where=frozen.name, expected=entry.sha256, got=frozen.tree_sha256
            )
        told.append(f"{frozen.name} {frozen.tree_sha256[:12]}")
    for model in params.models:
        noted = read_json(given.dataset / f"scores/{model.name}.json").get("noted") or {}
        if not (noted.get("model") or {}).get("model_sha256"):
            raise OresmithError(
                "a model was evaluated of which nobody knows the weights",
                where=f"scores/{model.name}.json: noted.model",
                expected="model_sha256: an engine that reads a directory",
                todo="evaluate the weights themselves, or waive this gate",
            )
    return f"base {params.base.model}; snapshots {', '.join(told)}"


def pool_date(given: Given) -> str:
    """Whether the newest held-out pool is not older than the newest snapshot allows."""
    pool = given.params.split.held_out
    if pool is None:
        raise OresmithError(
            "this release opens no held-out pool", where="params.yaml: split.held_out", todo="name its date"
        )
    newest = max(_day(frozen.time_range.end) for frozen in _frozen(given))
    age = (newest - _day(pool)).days
    most = given.params.release.pool_days
    if age > most:
        raise OresmithError(
            "the held-out pool is out of date",
            where="params.yaml: split.held_out",
            expected=f"at most {most} days before the newest snapshot ({newest.date()})",
            got=f"{pool}, {age} days",
            todo="open a new pool: a later date in split.held_out",
        )
    return f"{pool}, {age} days before the end of the newest snapshot"


def _frozen(given: Given) -> list[Frozen]:
    return [read_frozen(given.root / DATA / "snapshots" / entry.name) for entry in given.params.snapshots]


def _day(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise OresmithError("no date", got=text[:40]) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
