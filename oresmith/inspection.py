"""`oresmith inspect`: what a trace file that nobody has seen before holds, and what the default gates would say."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from oresmith.anyfile import read_any, refuse_unreadable, trace_files
from oresmith.evidence.outcome import NOTHING_KNOWN, Wanted, World, load_world
from oresmith.evidence.signals import build_signals, evidence_row
from oresmith.gates import decide
from oresmith.param_data import Evidence, Gate
from oresmith.reasons import ORDER
from oresmith.records import Reject, Trajectory
from schemas.evidence import ARROW

BATCH = 512
"""Trajectories whose evidence rows are held as Python objects at once."""


class OriginCounts(msgspec.Struct):
    """Labels of origin over the readable rows."""

    A: int = 0
    B: int = 0
    unknown: int = 0
    full_text: int = 0
    """Rows in which every logged inference call has its reply text."""


class Inspection(msgspec.Struct):
    """The result; its JSON form is `oresmith inspect --json`."""

    rows: int
    """Lines, unreadable ones included."""
    readable: int
    unreadable: int
    formats: dict[str, int]
    statuses: dict[str, int]
    """Envelope status -> rows; "none" where the format has none."""
    origin: OriginCounts
    provenance: dict[str, int]
    reasons: dict[str, int]
    """Reason -> rows that the default gates would reject for it; a row counts under each of its reasons."""
    accepted: int
    unreadable_reasons: dict[str, int]
    tokenizer: str
    """Name of the tokenizer, or why the length was not computed."""


def inspect_path(path: Path, problems: Path | None = None, catalogue: Path | None = None) -> Inspection:
    """Inspect a file, or all files below a directory.

    Args:
        path: traces in any known format.
        problems: problem file, to re-score with.
        catalogue: product documents, to re-score with.

    Raises:
        OresmithError: nothing readable (with the list of known formats), or wrong problem and catalogue files.
    """
    files = trace_files(path)
    world = _world(files, problems, catalogue)
    signals = build_signals(Evidence(), world, tokens_required=False)
    unreadable: Counter[str] = Counter()
    tables: list[pa.Table] = []
    batch: list[dict[str, Any]] = []
    for item in chain.from_iterable(read_any(file, name=name) for file, name in files):
        if isinstance(item, Reject):
            unreadable[item.reasons[0]] += 1
            continue
        batch.append(evidence_row(item, signals))
        if len(batch) == BATCH:
            tables.append(pa.Table.from_pylist(batch, schema=ARROW))
            batch = []
    tables.append(pa.Table.from_pylist(batch, schema=ARROW))
    table = pl.DataFrame(pl.from_arrow(pa.concat_tables(tables)))
    if table.is_empty():
        raise refuse_unreadable(path, unreadable)
    return _summary(table, unreadable)


def _world(files: list[tuple[Path, str]], problems: Path | None, catalogue: Path | None) -> World:
    if problems is None:
        return NOTHING_KNOWN
    wanted = Wanted()
    for item in chain.from_iterable(read_any(file, name=name) for file, name in files):
        if isinstance(item, Trajectory):
            wanted.add(item)
    return load_world(problems, catalogue, wanted)


def _summary(table: pl.DataFrame, unreadable: Counter[str]) -> Inspection:
    decided = decide([table], Gate())
    reasons = Counter(chain.from_iterable(decided["reasons"].to_list()))
    origin = _counts(table["origin"])
    tokenizers = table["tokenizer"].drop_nulls().unique().sort().to_list()
    return Inspection(
        rows=table.height + sum(unreadable.values()),
        readable=table.height,
        unreadable=sum(unreadable.values()),
        formats=_counts(table["format"]),
        statuses=_counts(table["status"].fill_null("none")),
        origin=OriginCounts(**origin, full_text=int(table["full_text"].fill_null(False).sum())),
        provenance=_counts(table["provenance_class"]),
        reasons=_ordered(reasons),
        accepted=int(decided["accepted"].sum()),
        unreadable_reasons=_ordered(unreadable),
        tokenizer=", ".join(tokenizers) or "not computed",
    )


def _counts(column: pl.Series) -> dict[str, int]:
    return dict(sorted(Counter(column.to_list()).items()))


def _ordered(reasons: Counter[str]) -> dict[str, int]:
    return dict(sorted(reasons.items(), key=lambda item: ORDER.get(item[0], len(ORDER))))
