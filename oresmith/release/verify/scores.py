"""The scores follow from the published rollouts, each rate has its interval, and what is compared is comparable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from oresmith.evaluation.comparing import compare, conditions_apart
from oresmith.evaluation.figures import all_figures
from oresmith.evaluation.scored import Scored, Scores, told
from oresmith.intervals import Rate
from oresmith.release.layout import DATASET, MODEL, ROLLOUTS, SCORES
from oresmith.release.verify.found import Finding, Findings, NotComputedError
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.rescored import Published, differences, read_published, rescore, unequal
from schemas.check import check_table
from schemas.scores import ScoresTable

COMPARE = "compare.json"


def check(opened: Opened) -> Findings:
    """See the module."""
    dataset = opened.dataset
    files = sorted((dataset / SCORES).glob("*.json"))
    if not files:
        yield Finding("the release has no scores", f"{SCORES}/")
        return ""
    published = read_published(dataset)
    scored: dict[str, Scored] = {}
    missing: list[str] = []
    for file in files:
        try:
            found = yield from _one(file, published)
        except NotComputedError as error:
            missing.append(f"{file.stem}: {error}")
            continue
        if found is not None:
            scored[found.scores.model] = found
    for model in sorted(published.rollouts.keys() - {file.stem for file in files}):
        yield Finding(f"rollouts of a model that has no scores: {model[:80]}", f"{ROLLOUTS}/")
    yield from _comparable(dataset, scored)
    yield from _same_in_model(opened)
    if missing:
        raise NotComputedError("; ".join(missing))
    rates = ", ".join(f"{name} {one.scores.overall.asr}" for name, one in scored.items())
    return f"ASR {rates}; {sum(map(len, published.rollouts.values())):,} rollouts scored again"


def _one(file: Path, published: Published) -> Any:
    """Hold one file of scores against the rollouts. Returns them with rows that were computed again."""
    name = f"{SCORES}/{file.name}"
    try:
        stated = msgspec.json.decode(file.read_bytes())
        scores = msgspec.convert(stated, Scores)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        yield Finding(f"is of another form, such as a rate without its interval: {error}"[:300], name)
        return None
    yield from _intervals(scores, name)
    if scores.model != file.stem:
        yield Finding(f"holds the scores of {scores.model[:80]}", name)
        return None
    if scores.model not in published.rollouts:
        yield Finding(
            "the rollouts are not published, so nobody can compute these scores again", name, item=scores.model
        )
        return None
    yield from _whole_pool(scores, name, published)
    table = rescore(scores, published)
    rows = file.with_suffix(".parquet")
    if rows.is_file():
        kept = check_table(pl.read_parquet(rows), ScoresTable, f"{SCORES}/{rows.name}").sort("problem", "sample")
        for number, sample, what in differences(table, kept):
            yield Finding(what, f"{SCORES}/{rows.name}", number, sample)
    overall, by_category, by_difficulty = all_figures(table)
    figures = {"overall": overall, "by_category": by_category, "by_difficulty": by_difficulty}
    again = msgspec.json.decode(msgspec.json.encode(told(figures)))
    for fault in unequal({part: stated.get(part) for part in figures}, again):
        yield Finding(fault, name)
    return Scored(scores, table)


def _intervals(scores: Scores, name: str) -> Iterator[Finding]:
    groups = {"overall": scores.overall} | scores.by_category | scores.by_difficulty
    for group, figures in groups.items():
        rate: Rate = figures.asr
        if rate.n and (rate.low is None or rate.high is None or not rate.low <= (rate.share or 0.0) <= rate.high):
            yield Finding(f"the ASR of {group[:80]} has no interval around it", name, item=f"{rate.k}/{rate.n}")


def _whole_pool(scores: Scores, name: str, published: Published) -> Iterator[Finding]:
    """Every problem of the pool was played, or is counted as left out."""
    played = {published.splits.get(getattr(one, "name", None) or "") for one in published.rollouts[scores.model]}
    size = sum(published.sizes[split] for split in played if split is not None)
    stated = scores.overall.problems + sum(scores.left_out.values())
    if stated != size:
        yield Finding(f"{stated:,} problems played and left out, of a pool of {size:,}", name, item=scores.model)


def _comparable(dataset: Path, scored: dict[str, Scored]) -> Iterator[Finding]:
    """`compare.json` is what the rows give, and no two models are compared under different conditions unnamed."""
    path = dataset / COMPARE
    if not path.is_file():
        if len(scored) > 1:
            yield Finding("is missing, so no difference between models is tested", COMPARE)
        return
    stated = msgspec.json.decode(path.read_bytes())
    models = [str(name) for name in stated["models"]]
    if any(name not in scored for name in models):
        return  # what is missing has been said
    pairs = [(str(pair["first"]), str(pair["second"])) for pair in stated["pairs"]]
    for (first, second), pair in zip(pairs, stated["pairs"], strict=True):
        apart = conditions_apart(scored[first].scores.conditions, scored[second].scores.conditions)
        if apart and not pair["forced"]:
            said = f"{first} and {second} are compared, though their conditions differ: {'; '.join(apart)}"
            yield Finding(said[:600], COMPARE)
    places = {name: number for number, name in enumerate(models)}
    again = compare(
        [scored[name] for name in models],
        forced=True,
        pairs=[(places[first], places[second]) for first, second in pairs],
    )
    for fault in unequal(stated, msgspec.json.decode(msgspec.json.encode(told(again)))):
        yield Finding(fault, COMPARE)


def _same_in_model(opened: Opened) -> Iterator[Finding]:
    """Both repositories of a release state the same scores."""
    if opened.kind != "bundle":
        return
    dataset, model = opened.folders[DATASET], opened.folders[MODEL]
    found = {file.name for folder in (dataset, model) for file in (folder / SCORES).glob("*.json")}
    for name in (*(f"{SCORES}/{name}" for name in sorted(found)), COMPARE):
        ours, theirs = (path.read_bytes() if path.is_file() else None for path in (dataset / name, model / name))
        if ours != theirs:
            yield Finding("states other scores than the dataset", f"{MODEL}/{name}")
