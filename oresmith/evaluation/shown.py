"""Scores and comparisons as tables for a terminal, as the small files of metrics, and as the points of plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from oresmith.errors import shown
from oresmith.evaluation.comparing import Comparisons, Difference
from oresmith.evaluation.failures import CLASSES
from oresmith.evaluation.figures import CAR, CONSTRAINTS, Figures
from oresmith.evaluation.means import Mean
from oresmith.evaluation.scored import Place, Scores, told
from oresmith.intervals import Rate

NAMED = 5
"""Missing or unscored samples that are named; the file names all."""
_SHARES = {CAR: "CAR", **{name: f"constraints: {name}" for name in CONSTRAINTS}} | {
    "one shop": "one shop",
    "budget": "budget",
    "format": "format",
    "found": "shown what was asked for",
}
_COUNTS = {
    "tool_errors": "tool errors",
    "invalid_calls": "invalid calls",
    "malformed": "malformed replies",
    "turns": "turns",
    "prompt_tokens": "tokens read",
    "completion_tokens": "tokens written",
}
_USED = {"invented": "invented product ids", "unseen": "ids used without having been shown"}
Points = list[tuple[object, ...]]


def metrics(scores: Scores) -> dict[str, Any]:
    """What DVC shows of a model: the figures without those of each failure by group, and without examples."""
    overall = scores.overall
    groups = {"category": scores.by_category, "difficulty": scores.by_difficulty}
    values: dict[str, Any] = {
        "scorer": scores.conditions["scorer"],
        "titles": scores.conditions["titles"],
        "problems": overall.problems,
        "clusters": overall.clusters,
        "rollouts": overall.rollouts,
        "missing": len(scores.missing),
        "unscored": len(scores.unscored),
        "asr": overall.asr,
        **{f"asr_by_{by}": {name: one.asr for name, one in found.items()} for by, found in groups.items()},
        "detectable": overall.detectable,
        "car": overall.means[CAR],
        "car_by_category": {name: one.means[CAR] for name, one in scores.by_category.items()},
        "constraints": {name: overall.means[name] for name in CONSTRAINTS},
        **{name: overall.means[name] for name in ("format", "found", *_COUNTS)},
        "used": overall.used,
        "pass_at": {str(one.k): one.pass_at for one in overall.curve},
        "pass_all": {str(one.k): one.pass_all for one in overall.curve},
        "failures": overall.failures,
    }
    return {name: told(value) for name, value in values.items()}


def rate_points(scores: Sequence[Scores]) -> tuple[list[str], Points]:
    """Header and rows of the plot of ASR: a row a model and category, "all" first."""
    header = ["model", "category", "asr", "low", "high", "k", "n", "method"]
    rows: Points = []
    for one in scores:
        for category, found in {"all": one.overall, **one.by_category}.items():
            rate = found.asr
            ends = (_cell(rate.share), _cell(rate.low), _cell(rate.high))
            rows.append((one.model, category, *ends, rate.k, rate.n, rate.method))
    return header, rows


def curve_points(scores: Sequence[Scores]) -> tuple[list[str], Points]:
    """Header and rows of the plot of pass@k and pass^k: a row a model, figure and k."""
    header = ["model", "figure", "k", "value", "low", "high", "problems", "method"]
    rows: Points = []
    for one in scores:
        for name, field in (("pass@k", "pass_at"), ("pass^k", "pass_all")):
            for point in one.overall.curve:
                mean: Mean = getattr(point, field)
                ends = (_cell(mean.value), _cell(mean.low), _cell(mean.high))
                rows.append((one.model, name, point.k, *ends, mean.n, mean.method))
    return header, rows


def failure_points(scores: Sequence[Scores]) -> tuple[list[str], Points]:
    """Header and rows of the plot of failures: a row a model and class that occurs."""
    header = ["model", "failure", "share", "low", "high", "k", "n"]
    rows: Points = []
    for one in scores:
        for name, rate in one.overall.failures.items():
            rows.append((one.model, name, _cell(rate.share), _cell(rate.low), _cell(rate.high), rate.k, rate.n))
    return header, rows


def print_scores(scores: Scores, console: Console | None = None) -> None:
    """Print the figures, the failures with an example each, and what is missing or unscored."""
    console = Console() if console is None else console
    table = Table("figure", "k / n", "value", "95%", title=shown(f"Scores of {scores.model}"), title_justify="left")
    for title, counts, value, ends in _lines(scores):
        table.add_row(Text(shown(title)), counts, value, ends)
    console.print(table)
    failures = Table("failure", "k / n", "share", "95%", "example", title="Failures", title_justify="left")
    for name in (name for name in CLASSES if name in scores.overall.failures):
        examples = scores.examples.get(name, [])
        failures.add_row(
            name, *_rate_cells(scores.overall.failures[name]), Text(_place(examples[0]) if examples else "-")
        )
    console.print(failures)
    for name, places in (("missing", scores.missing), ("unscored", scores.unscored)):
        if places:
            named = "; ".join(map(_place, places[:NAMED])) + ("; .." if len(places) > NAMED else "")
            console.print(Text(f"{len(places):,} {name}, counted as failures: {named}"), soft_wrap=True)
    for why, count in scores.unused.items():
        console.print(Text(f"{count:,} lines are no rollout of these problems: {shown(why)}"))


def print_comparisons(found: Comparisons, console: Console | None = None) -> None:
    """Print each pair of models, and under which conditions a forced one differs."""
    console = Console() if console is None else console
    for pair in found.pairs:
        title = shown(f"{pair.second} against {pair.first}")
        table = Table("figure", "problems", "first", "second", "difference", "95%", "p (Holm)", "claim", title=title)
        table.title_justify = "left"
        for one in pair.differences:
            table.add_row(*map(Text, _cells(one)))
        console.print(table)
        for condition in pair.forced:
            console.print(Text(f"forced: {condition}"), soft_wrap=True)
        for side, count in pair.unpaired.items():
            console.print(Text(f"forced: {count:,} problems of the {side} model alone are in no figure"))
        if pair.noted:
            console.print(Text(f"also differ: {', '.join(pair.noted)}"))
    if not found.pairs:
        console.print("one model alone: nothing to compare")


def _lines(scores: Scores) -> Iterator[tuple[str, str, str, str]]:
    overall = scores.overall
    yield "ASR", *_rate_cells(overall.asr)
    for found in (scores.by_category, scores.by_difficulty):
        for name, one in found.items():
            yield f"ASR, {name}", *_rate_cells(one.asr)
    yield "difference that such an evaluation finds", "", _points(_least(overall)), ""
    for point in overall.curve if len(overall.curve) > 1 else []:
        yield f"pass@{point.k}", *_mean_cells(point.pass_at)
        yield f"pass^{point.k}", *_mean_cells(point.pass_all)
    for name, title in _SHARES.items():
        if overall.means[name].n:
            yield title, *_mean_cells(overall.means[name])
    for name, title in _USED.items():
        yield title, *_rate_cells(overall.used[name])
    for name, title in _COUNTS.items():
        if overall.means[name].n:
            yield title, *_mean_cells(overall.means[name], share=False)


def _least(figures: Figures) -> float | None:
    found = figures.detectable
    return found.different_problems if found.same_problems is None else found.same_problems


def _rate_cells(rate: Rate) -> tuple[str, str, str]:
    return f"{rate.k:,} / {rate.n:,}", _percent(rate.share), _ends(_percent(rate.low), _percent(rate.high))


def _mean_cells(mean: Mean, *, share: bool = True) -> tuple[str, str, str]:
    write = _percent if share else _number
    return f"{mean.n:,} problems", write(mean.value), _ends(write(mean.low), write(mean.high))


def _cells(one: Difference) -> tuple[str, ...]:
    name = one.figure.upper() if one.group == "all" else f"{one.figure.upper()}, {one.group}"
    ends = _ends(_points(one.low), _points(one.high))
    p = "not tested" if one.p_holm is None else f"{one.p_holm:.4f}"
    claim = (one.claim or "") + (" (forced)" if one.forced else "")
    values = (_percent(one.first), _percent(one.second), _points(one.difference))
    return name, f"{one.n:,}", *values, ends, p, claim.strip()


def _place(place: Place) -> str:
    error = f" ({shown(place.error)})" if place.error else ""
    return f"{shown(place.problem_id or place.problem)} sample {place.sample}{error}"


def _ends(low: str, high: str) -> str:
    return "-" if "-" in (low, high) else f"{low} to {high}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _points(difference: float | None) -> str:
    return "-" if difference is None else f"{100 * difference:+.1f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _cell(value: float | None) -> object:
    return "" if value is None else value
