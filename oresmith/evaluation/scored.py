"""The scores of a set of rollouts as one directory: rows, figures, and what a comparison must find equal.

* `rows.parquet`: a row a sample (schemas/scores.py).
* `scores.json`: `Scores`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.anyfile import trace_files
from oresmith.arena.scoring import SCORER
from oresmith.arena.titles import Titling
from oresmith.blocks.atomic import load_manifest, stage_output
from oresmith.errors import OresmithError
from oresmith.evaluation.failures import CLASSES, MISSING, UNSCORED
from oresmith.evaluation.figures import Figures, all_figures
from oresmith.evaluation.played import Played, read_played
from oresmith.evaluation.problems import Case, problems_of_file
from oresmith.evaluation.records import ROLLOUT_SCHEMA
from oresmith.evaluation.scores import load_shelf, score_attempts
from oresmith.evaluation.suite import Suite, clusters_of, gather
from oresmith.records import Record
from schemas.check import check_table
from schemas.scores import ARROW, SCORES_SCHEMA, ScoresTable

ROWS, DOCUMENT = "rows.parquet", "scores.json"
SMALL_BYTES = 4 * 2**20
"""Files, as stored, that are read sooner than another process has begun."""
EXAMPLES = 5
"""Of each class of failure."""
RECORDED = ("harness", "prompt", "tools", "view", "shops", "sampling", "limits")
"""Conditions that only rollouts of ours record."""
NOTED = ("model", "samples", "seed", "batch")
"""What else our rollouts record; two sets that differ in it alone may be compared."""


class Place(Record, frozen=True):
    """A sample, by names; nothing of what was said in it."""

    problem: str
    problem_id: str | None
    sample: int
    line: int | None
    """Of its file; null where it has none."""
    error: str | None = None
    """Why it is unscored, in words of ours."""


class Scores(Record, frozen=True):
    """`scores.json`."""

    scores: Literal["oresmith.scores/1"]
    model: str
    conditions: dict[str, Any]
    """What two evaluations must agree in before they are compared; null where it is not recorded."""
    noted: dict[str, Any]
    left_out: dict[str, int]
    """Problems of the pool that were not to be played, by reason."""
    unused: dict[str, int]
    """Lines that are no rollout of any of the problems, by reason."""
    samples: int
    """Of a problem, the fewest."""
    overall: Figures
    by_category: dict[str, Figures]
    by_difficulty: dict[str, Figures]
    ended: dict[str, int]
    missing: list[Place]
    unscored: list[Place]
    examples: dict[str, list[Place]]
    """Of each class of failure, the first ones."""


class Scored(NamedTuple):
    """Scores and their rows."""

    scores: Scores
    table: pl.DataFrame


class _Named(msgspec.Struct):
    name: str


class _Set(msgspec.Struct):
    sha256: str
    count: int
    left_out: dict[str, int]


class _Recorded(msgspec.Struct):
    """What is read of a configuration; conditions are compared whatever they are."""

    model: _Named
    problems: _Set
    samples: Annotated[int, msgspec.Meta(ge=1, le=100_000)]


class Rollouts(NamedTuple):
    """A set of rollouts to be scored."""

    model: str
    files: list[tuple[Path, str]]
    configuration: dict[str, Any] | None
    """Of rollouts of ours."""


def open_rollouts(path: Path) -> Rollouts:
    """A directory that the stage `rollout` or `oresmith evaluate` wrote, a trace file, or a directory of them.

    Raises:
        OresmithError: nothing there, or an output of ours that is not what its manifest says.
    """
    from oresmith.evaluation.writing import ROLLOUTS

    if (path / ROLLOUTS).is_file():
        manifest = load_manifest(path, ROLLOUT_SCHEMA)
        configuration = manifest["params"]
        try:
            recorded = msgspec.convert(configuration, _Recorded)
        except msgspec.ValidationError as error:
            raise OresmithError("no configuration of rollouts", where=str(path), got=str(error)[:200]) from error
        with (path / ROLLOUTS).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if [found] != [entry["sha256"] for entry in manifest["files"] if entry["path"] == ROLLOUTS]:
            raise OresmithError("the rollouts are not what their manifest says", where=str(path / ROLLOUTS), got=found)
        return Rollouts(recorded.model.name, [(path / ROLLOUTS, ROLLOUTS)], configuration)
    return Rollouts(path.name, trace_files(path), None)


def score_folder(
    rollouts: Path, problems: Path, catalogue: Path, *, titling: Titling | None = None, workers: int = 1
) -> Scored:
    """Score anybody's rollouts.

    Args:
        rollouts: as `open_rollouts`.
        problems: the problem file that they were played from: suite JSON, suite-form JSON lines, ShoppingBench's files.
            All its problems count, unless the rollouts record that fewer were to be played.
        catalogue: product documents, or a directory that `build_index` made of them.
        titling: the wish for title similarity.
        workers: processes.

    Raises:
        OresmithError: unreadable inputs, rollouts of other problems, or a catalogue that lacks gold products.
    """
    opened = open_rollouts(rollouts)
    cases = problems_of_file(problems).cases
    return score_rollouts(
        opened,
        lambda names: (cases, clusters_of(cases)),
        lambda shop: catalogue,
        titling=titling,
        workers=workers,
    )


def score_rollouts(
    rollouts: Rollouts,
    cases_of: Callable[[set[str | None]], tuple[list[Case], Mapping[str, str]]],
    catalogue_of: Callable[[str], Path],
    *,
    titling: Titling | None = None,
    workers: int = 1,
) -> Scored:
    """Score a set of rollouts.

    Args:
        rollouts: as `open_rollouts` gives them.
        cases_of: the problems that could have been asked, and the leak cluster of each by key, from the names of the
            rollouts' problems.
        catalogue_of: the product documents of a shop.
        titling: the wish for title similarity.
        workers: processes.

    Raises:
        OresmithError: as `score_folder`.
    """
    if titling is not None:
        titling.encoder()  # what cannot be done is refused before anything is read
    ours = rollouts.configuration is not None
    large = sum(file.stat().st_size for file, _ in rollouts.files) > SMALL_BYTES
    played = list(read_played(rollouts.files, workers if large else 1, ours=ours))
    cases, clusters = cases_of({one.name for one in played if isinstance(one, Played)})
    suite = gather(cases, clusters, played, rollouts.configuration)
    table = _table(suite, catalogue_of, titling)
    return Scored(_scores(rollouts, suite, table, titling, workers), table)


def publish_scores(scored: Scored, target: Path, *, lock: str, observed: Path | None = None) -> None:
    """Write a directory of scores, whole or not at all.

    Args:
        scored: what to write.
        target: output directory; an earlier one is replaced, anything else is refused.
        lock: name of the lock file beside it.
        observed: file that takes the facts of this run.

    Raises:
        OresmithError: the output cannot be written.
    """
    scores = scored.scores
    params = {"model": scores.model, "conditions": scores.conditions, "noted": scores.noted}
    with stage_output(target, lock, schema=SCORES_SCHEMA, params=params, observed=observed) as staged:
        pq.write_table(scored.table.to_arrow().cast(ARROW), staged.path / ROWS, compression="zstd")
        text = msgspec.json.format(msgspec.json.encode(told(scores)), indent=1) + b"\n"
        (staged.path / DOCUMENT).write_bytes(text)
        staged.rows[ROWS] = scored.table.height


def told(value: Any) -> Any:
    """Records as JSON values with all fields: each number says how it was found, even where that is the default."""
    if isinstance(value, Record):
        return {name: told(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {name: told(part) for name, part in value.items()}
    return [told(part) for part in value] if isinstance(value, list) else value


def load_scores(folder: Path) -> Scored:
    """Read what `publish_scores` wrote.

    Raises:
        OresmithError: no such output, one that is not whole, or rows that break their contract.
    """
    load_manifest(folder, SCORES_SCHEMA)
    try:
        scores = msgspec.json.decode((folder / DOCUMENT).read_bytes(), type=Scores)
        table = pl.read_parquet(folder / ROWS)
    except (OSError, msgspec.MsgspecError, pl.exceptions.PolarsError) as error:
        raise OresmithError("the scores cannot be read", where=str(folder), got=str(error)[:200]) from error
    return Scored(scores, check_table(table, ScoresTable, str(folder / ROWS)))


def _table(suite: Suite, catalogue_of: Callable[[str], Path], titling: Titling | None) -> pl.DataFrame:
    columns: dict[str, list[Any]] = {name: [] for name in ARROW.names}
    for shop in sorted({one.case.shop for one in suite.attempts}):
        attempts = [one for one in suite.attempts if one.case.shop == shop]
        for row in score_attempts(attempts, load_shelf(catalogue_of(shop), attempts, titling)):
            for name, value in row.items():
                columns[name].append(value)
    table = pl.DataFrame(pl.from_arrow(pa.table(columns, schema=ARROW)))
    return check_table(table.sort("problem", "sample"), ScoresTable, ROWS)


def _scores(rollouts: Rollouts, suite: Suite, table: pl.DataFrame, titling: Titling | None, workers: int) -> Scores:
    overall, by_category, by_difficulty = all_figures(table, workers)
    made = rollouts.configuration or {}
    rule = {"model": titling.model, "threshold": titling.threshold} if titling else None
    conditions = {"scorer": SCORER, "titles": rule, "problems": suite.problems_sha256()}
    failed = {name: table.filter(pl.col("failure") == name) for name in CLASSES}
    return Scores(
        scores="oresmith.scores/1",
        model=rollouts.model,
        conditions=conditions | {name: made.get(name) for name in RECORDED},
        noted={name: made.get(name) for name in NOTED},
        left_out=made["problems"]["left_out"] if made else {},
        unused=suite.unused,
        samples=min(len(one.samples) for one in suite.attempts),
        overall=overall,
        by_category=by_category,
        by_difficulty=by_difficulty,
        ended=dict(sorted(Counter(table["ended"].to_list()).items())),
        missing=_places(failed[MISSING]),
        unscored=_places(failed[UNSCORED]),
        examples={name: _places(rows.head(EXAMPLES)) for name, rows in failed.items() if rows.height},
    )


def _places(rows: pl.DataFrame) -> list[Place]:
    names = Place.__struct_fields__
    return [Place(**row) for row in rows.select(names).iter_rows(named=True)]
