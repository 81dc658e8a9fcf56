"""The figures of `truth.Truths` as a table, and as promises that a run can be held to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from oresmith.audit.truth import Figures, Truths
from oresmith.errors import shown
from oresmith.intervals import Rate
from oresmith.param_data import Truth

NAMED = 5
"""Misses of a kind that the table names; the report of the stage names the others."""


class Line(NamedTuple):
    """One figure of the table."""

    title: str
    rate: Rate
    least: str | None = None
    """The parameter that says how large the share must be."""
    most: str | None = None
    """The parameter that says how large it may be; one that ends in `_count` bounds the hits."""


def lines(found: Figures) -> Iterator[Line]:
    """The figures, in the order in which they are shown; those by family, type and kind are not among them."""
    origin, secrets, clusters, leaks = found.origin, found.secrets, found.clusters, found.leaks
    yield Line("origin A: precision", origin.precision, least="origin_precision_min")
    yield Line("origin A: recall, full reply text", origin.recall, least="origin_recall_min")
    yield Line("origin A: recall, any text", origin.recall_any_text)
    yield Line("origin B: precision", origin.precision_b)
    yield Line("origin B: recall", origin.recall_b)
    yield Line("origin: labelled unknown", origin.unknown)
    yield Line("origin A with full text: labelled unknown", origin.unknown_full_text)
    yield Line("full reply text: as the truth says", origin.full_text)
    yield Line("forged: labelled A", origin.forgers_labelled_a, most="forgers_labelled_a_count")
    yield Line("forged: server-verified", found.forged_verified, most="forgers_verified_count")
    yield Line("forgery: precision", found.forgery.precision, least="forgery_precision_min")
    yield Line("forgery: recall", found.forgery.recall, least="forgery_recall_min")
    yield Line("secrets: recall", secrets.recall, least="secret_recall_min")
    yield Line("secrets: recall by their own type", secrets.recall_named, least="secret_named_recall_min")
    yield Line("secrets: false positives", secrets.false_positives, most="secret_false_positives_max")
    yield Line("injections: recall", found.injections.recall, least="injection_recall_min")
    yield Line("injections: false positives", found.injections.false_positives, most="injection_false_positives_max")
    yield Line("outcome: agreement", found.outcome.agreement, least="outcome_agreement_min")
    yield Line("outcome: unknown", found.outcome.unknown)
    yield Line("clusters: recall", clusters.recall, least="cluster_recall_min")
    yield Line("clusters: precision", clusters.precision, least="cluster_precision_min")
    yield Line("clusters: recall, one specification", clusters.same_specification.recall)
    yield Line("leaks: pairs in two pools", leaks.pairs, most="leaks_count")
    yield Line("leaks: pairs of one specification", leaks.same_specification)
    for name in found.accepted.__struct_fields__:
        yield Line(f"accepted: {name.replace('_', ' ')}", getattr(found.accepted, name))


def broken(found: Figures | None, limits: Truth) -> list[str]:
    """What does not keep to the limits, a sentence each; a figure without a case keeps to none.

    Args:
        found: None where no snapshot was judged.
        limits: null where nothing is asked.
    """
    if found is None:
        asked = [name for name in limits.__struct_fields__ if getattr(limits, name) is not None]
        return [f"truth.{name}: no snapshot carries a truth" for name in asked]
    faults = []
    for line in lines(found):
        least = getattr(limits, line.least) if line.least else None
        most = getattr(limits, line.most) if line.most else None
        if least is None and most is None:
            continue
        name, rate = line.least or line.most or "", line.rate
        value = rate.k if name.endswith("_count") else rate.k / rate.n if rate.n else None
        if value is None or rate.n == 0:
            faults.append(f"truth.{name}: there is no case of it ({line.title})")
        elif least is not None and value < least:
            faults.append(f"truth.{name}: {line.title} is {_figure(value, rate)}, below {least}")
        elif most is not None and value > most:
            faults.append(f"truth.{name}: {line.title} is {_figure(value, rate)}, above {most}")
    return faults


def _figure(value: float, rate: Rate) -> str:
    return f"{rate.k} of {rate.n}" if isinstance(value, int) else f"{value:.4f} ({rate.k} of {rate.n})"


def print_truths(truths: Truths, console: Console | None = None) -> None:
    """Print a short table, what was not judged, and the first misses of each kind."""
    console = Console() if console is None else console
    for name, reason in truths.not_judged.items():
        console.print(Text(f"snapshot {shown(name)}: not judged, {reason}"))
    for name, matched in truths.snapshots.items():
        if matched is not None:
            told = f"{matched.rows:,} rows judged, {matched.without_evidence:,} without evidence"
            console.print(Text(f"snapshot {shown(name)}: {told}, {matched.without_truth:,} without truth"))
    if truths.figures is None:
        return
    table = Table("figure", "k / n", "share", "95%", title="Findings against the truth", title_justify="left")
    for line in [*lines(truths.figures), *_details(truths.figures)]:
        table.add_row(Text(shown(line.title)), *_cells(line.rate))
    console.print(table)
    families = Table("family", "rows", "labelled A", "B", "unknown", "right", title="Origin", title_justify="left")
    for family, one in truths.figures.families.items():
        labels = (one.labelled_a, one.labelled_b, one.labelled_unknown, one.labelled_right)
        families.add_row(Text(shown(family)), f"{one.rows:,}", *(f"{rate.k:,}" for rate in labels))
    console.print(families)
    for kind, listed in truths.misses.items():
        console.print(Text(f"{kind}: {listed.count:,}"))
        for miss in listed.misses[:NAMED]:
            console.print(Text(f"  {shown(miss.where)}  {shown(miss.what)}"), soft_wrap=True)


def _details(found: Figures) -> Iterator[Line]:
    """Types of secrets that were missed, and every kind of pair."""
    for kind, rate in found.secrets.by_type.items():
        if rate.k < rate.n:
            yield Line(f"secret {kind}: recall", rate)
    for kind, joined in found.clusters.by_kind.items():
        yield Line(f"pairs {kind}: recall", joined.recall)
        yield Line(f"pairs {kind}: precision", joined.precision)


def _cells(rate: Rate) -> list[str]:
    counts = f"{rate.k:,} / {rate.n:,}"
    if rate.share is None or rate.low is None or rate.high is None:
        return [counts, "-", "-"]
    return [counts, f"{rate.share:.4f}", f"{rate.low:.4f} to {rate.high:.4f}"]
