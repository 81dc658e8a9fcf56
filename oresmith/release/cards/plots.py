"""The three plots of the cards as PNG: the funnel, success rates with intervals, sizes of clusters.

The same values give the same bytes with the same matplotlib: no date, no name of a program, fonts that come with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from oresmith.errors import OresmithError
from oresmith.release.cards.escape import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FUNNEL, RATES, CLUSTERS = "funnel.png", "asr.png", "clusters.png"
_BLUE, _GREY, _RED = "#2b6cb0", "#8a94a0", "#c05621"
_BINS = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 9), (10, 49), (50, 99), (100, None))
_REASONS = 30


def write_plots(folder: Path, funnel: Mapping[str, Any], scores: Mapping[str, Any], keys: Path) -> None:
    """Write `funnel.png`, `asr.png` and `clusters.png`.

    Args:
        folder: takes the files.
        funnel: content of funnel.json.
        scores: model -> content of its scores.json.
        keys: certificate/keys.tsv.

    Raises:
        OresmithError: matplotlib is not installed, or the keys cannot be read.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise OresmithError(
            "the plots of the cards need matplotlib", todo="pip install 'oresmith[eval]' (it is in that extra)"
        ) from error
    sizes = cluster_sizes(keys)
    # Text is text: a dollar sign of a name would begin a formula.
    with mpl.rc_context({"text.parse_math": False, "font.family": "DejaVu Sans", "font.size": 9, "svg.hashsalt": "0"}):
        _save(folder / FUNNEL, _funnel(funnel))
        _save(folder / RATES, _rates(scores))
        _save(folder / CLUSTERS, _sizes(sizes))


def cluster_sizes(keys: Path) -> list[tuple[str, int]]:
    """How many clusters of published problems have how many problems, in bins.

    Raises:
        OresmithError: the file cannot be read or lacks a column.
    """
    try:
        table = pl.read_csv(keys, separator="\t", quote_char=None, columns=["problem", "cluster"], infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise OresmithError("the keys of the rows cannot be read", where=str(keys), got=str(error)[:200]) from error
    told = table.filter((pl.col("problem").fill_null("") != "") & (pl.col("cluster").fill_null("") != ""))
    counts = told.unique().group_by("cluster").len()["len"]
    bins = []
    for low, high in _BINS:
        label = str(low) if low == high else f"{low}-{high}" if high else f"{low}+"
        last = high if high is not None else int(counts.max() or 0)  # type: ignore[arg-type]
        bins.append((label, int(counts.is_between(low, last).sum()) if last >= low else 0))
    return bins


def _funnel(funnel: Mapping[str, Any]) -> Figure:
    withheld = sum(funnel["withheld"].values())
    rejects = sorted(funnel["rejects"].items(), key=lambda item: (-item[1], item[0]))
    places = [
        ("read", funnel["read"], _GREY),
        ("trajectories", funnel["trajectories"], _BLUE),
        ("subtask", funnel["subtask"], _BLUE),
        ("withheld", withheld, _BLUE),
        *((f"rejected: {reason}", count, _RED) for reason, count in rejects[:_REASONS]),
    ]
    if rejects[_REASONS:]:
        places.append(("rejected: other reasons", sum(count for _, count in rejects[_REASONS:]), _RED))
    return _bars(places, "lines")


def _bars(places: Sequence[tuple[str, int, str]], unit: str) -> Figure:
    figure, axes = _axes(8, 0.8 + 0.26 * len(places))
    spots = range(len(places))
    axes.barh(spots, [count for _, count, _ in places], color=[colour for *_, colour in places], height=0.7)
    axes.set_yticks(spots, [visible(name, 60) for name, *_ in places])
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    for spot, (_, count, _) in zip(spots, places, strict=True):
        axes.annotate(f" {count:,}", (count, spot), va="center", fontsize=8)
    axes.margins(x=0.12)
    return figure


def _rates(scores: Mapping[str, Any]) -> Figure:
    groups = sorted({category for one in scores.values() for category in one["by_category"]})
    labels = ["all", *groups]
    figure, axes = _axes(8, 1.2 + 0.32 * len(labels) * max(1, len(scores)))
    spot, ticks, names = 0.0, [], []
    for label in labels:
        for model, told in scores.items():
            found = told["overall"] if label == "all" else told["by_category"].get(label)
            rate = (found or {}).get("asr") or {}
            ticks.append(spot)
            names.append(visible(f"{label}: {model}", 60))
            if rate.get("share") is not None:
                _interval(axes, spot, rate, label == "all")
            spot += 1
        spot += 0.6
    axes.set_yticks(ticks, names)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("strict success, percent of rollouts, with 95% intervals")
    axes.grid(axis="x", color="#e2e6ea")
    axes.set_axisbelow(True)
    return figure


def _interval(axes: Any, spot: float, rate: Mapping[str, Any], strong: bool) -> None:
    colour = _BLUE if strong else _GREY
    if rate.get("low") is not None and rate.get("high") is not None:
        axes.plot([100 * rate["low"], 100 * rate["high"]], [spot, spot], color=colour, linewidth=2)
    axes.plot([100 * rate["share"]], [spot], marker="o", color=colour, markersize=5)


def _sizes(sizes: Sequence[tuple[str, int]]) -> Figure:
    figure, axes = _axes(8, 3)
    spots = range(len(sizes))
    axes.bar(spots, [count for _, count in sizes], color=_BLUE, width=0.7)
    axes.set_xticks(spots, [name for name, _ in sizes])
    axes.set_xlabel("problems of a cluster")
    axes.set_ylabel("clusters")
    for spot, (_, count) in zip(spots, sizes, strict=True):
        axes.annotate(f"{count:,}", (spot, count), ha="center", va="bottom", fontsize=8)
    return figure


def _axes(width: float, height: float) -> tuple[Figure, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(path: Path, figure: Figure) -> None:
    figure.savefig(path, format="png", metadata={"Software": None})
