"""The scores of one model computed again from the published rollouts, golds and products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl
import pyarrow as pa

from oresmith.arena.titles import titling
from oresmith.errors import OresmithError
from oresmith.evaluation.played import Played, Unreadable, played
from oresmith.evaluation.problems import Case
from oresmith.evaluation.scored import Scores
from oresmith.evaluation.scores import load_shelf, score_attempts
from oresmith.evaluation.suite import gather
from oresmith.records import Source
from oresmith.release.layout import ROLLOUTS
from oresmith.release.products import FOLDER, product_files
from oresmith.release.verify.found import NotComputedError
from oresmith.release.verify.guarded import WHOLE_PROBLEM, problem_of
from oresmith.release.verify.rowsof import data_files, rows
from oresmith.traces import CodecError, Context
from oresmith.traces import decode as decode_trace
from schemas.scores import ARROW

_READ = ("model", "problem", "problem_id", "query", "sample", "finish", "malformed", "messages")
_USAGE = ("prompt_tokens", "completion_tokens")


class Published(NamedTuple):
    """What a dataset publishes for scoring."""

    cases: list[Case]
    clusters: dict[str, str]
    splits: dict[str, str]
    """Problem -> split of its held-out pool."""
    sizes: dict[str, int]
    """Split -> problems."""
    rollouts: dict[str, list[Played | Unreadable]]
    """Model -> its rollouts."""
    products: dict[str, Path]
    """Shop -> product documents."""


def read_published(dataset: Path) -> Published:
    """Read golds and rollouts once, for all models.

    Raises:
        OresmithError: a file is damaged or lacks a column.
    """
    found = Published([], {}, {}, {}, {}, product_files(dataset))
    for file in data_files(dataset, ("heldout_gold",)):
        for _, row in rows(file, (*WHOLE_PROBLEM, "difficulty", "snapshot")):
            problem = msgspec.structs.replace(problem_of(row), difficulty=row["difficulty"])
            found.cases.append(Case(row["problem"], problem, row["snapshot"] or ""))
            found.clusters[row["problem"]] = row["cluster"]
            found.splits[row["problem"]] = file.split
            found.sizes[file.split] = found.sizes.get(file.split, 0) + 1
    for file in data_files(dataset, (ROLLOUTS,)):
        for number, row in rows(file, (*_READ, *_USAGE)):
            found.rollouts.setdefault(str(row["model"]), []).append(_played(row, file.name, number))
    return found


def _played(row: dict[str, Any], file: str, number: int) -> Played | Unreadable:
    """The rollout of a row, read as every OpenAI row is."""
    source = Source(snapshot="", file=file, file_sha256="", line=number, offset=0, length=0)
    try:
        own = {
            "messages": [msgspec.json.decode(text) for text in row["messages"]],
            "usage": {name: row[name] for name in _USAGE},
        }
        kept = {name: row[name] for name in _READ if name not in ("model", "messages")}
        return played(decode_trace(kept | own, Context(source=source, source_name=file, trust_rows=True)))
    except (CodecError, msgspec.MsgspecError, TypeError, RecursionError, UnicodeError) as error:
        return Unreadable(file=file, line=number, reason=type(error).__name__)


def rescore(scores: Scores, published: Published) -> pl.DataFrame:
    """The rows of a model's scores (schemas/scores.py), but for `file` and `line`, which name other files here.

    Raises:
        NotComputedError: titles were compared, and their model is not installed.
        OresmithError: rollouts of other problems, samples that stand twice, or products that are not published.
    """
    samples, problems = scores.noted.get("samples"), scores.conditions.get("problems")
    if type(samples) is not int or not 1 <= samples <= 100_000:
        raise OresmithError("the scores do not say how many samples of a problem there are", got=str(samples)[:80])
    recorded = {"samples": samples, "problems": {"sha256": problems, "count": scores.overall.problems}}
    suite = gather(published.cases, published.clusters, published.rollouts.get(scores.model, []), recorded)
    wish = _titles(scores.conditions)
    columns: dict[str, list[Any]] = {name: [] for name in ARROW.names}
    for shop in sorted({one.case.shop for one in suite.attempts}):
        if shop not in published.products:
            raise OresmithError("the products of a shop are not published", where=f"{FOLDER}/", got=shop[:80])
        attempts = [one for one in suite.attempts if one.case.shop == shop]
        for row in score_attempts(attempts, load_shelf(published.products[shop], attempts, wish)):
            for name, value in row.items():
                columns[name].append(value)
    table = pl.DataFrame(pl.from_arrow(pa.table(columns, schema=ARROW)))
    return table.sort("problem", "sample")


def _titles(conditions: Mapping[str, Any]) -> Any:
    stated = conditions.get("titles")
    if stated is None:
        return None
    try:
        wish = titling(str(stated["model"]), float(stated["threshold"]), "scores")
        if wish is not None:
            wish.encoder()
    except (OresmithError, KeyError, TypeError, ValueError) as error:
        raise NotComputedError(
            f"titles were compared by a model that is not here (extra `embed`): {error}"[:300]
        ) from error
    return wish


def differences(found: pl.DataFrame, stated: pl.DataFrame) -> Iterator[tuple[int, str, str]]:
    """(row from 1, sample, what differs) between rows that were computed again and published ones."""
    compared = [name for name in ARROW.names if name not in ("file", "line")]
    for number, (one, other) in enumerate(
        zip(found.select(compared).iter_rows(), stated.select(compared).iter_rows(), strict=False), 1
    ):
        for name, value, told in zip(compared, one, other, strict=True):
            if value != told:
                sample = f"problem {other[compared.index('problem')]}, sample {other[compared.index('sample')]}"
                yield number, sample, f"{name} is {told!r:.80}, the rollouts give {value!r:.80}"
    if found.height != stated.height:
        yield min(found.height, stated.height) + 1, "", f"{stated.height} rows, the rollouts give {found.height}"


def unequal(stated: Any, found: Any, place: str = "") -> Iterator[str]:
    """Where two JSON values differ, as `a.b.c: is 1, computed again 2`."""
    if isinstance(stated, dict) and isinstance(found, dict):
        for name in sorted(stated.keys() | found.keys()):
            yield from unequal(stated.get(name), found.get(name), f"{place}.{name}" if place else str(name))
    elif isinstance(stated, Sequence) and isinstance(found, Sequence) and not isinstance(stated, str | bytes):
        if len(stated) != len(found):
            yield f"{place}: {len(stated)} entries, computed again {len(found)}"
        for number, (one, other) in enumerate(zip(stated, found, strict=False)):
            yield from unequal(one, other, f"{place}[{number}]")
    elif stated != found:
        yield f"{place}: is {stated!r:.80}, computed again {found!r:.80}"
