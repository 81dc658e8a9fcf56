"""What lm-eval's samples say: rates and bits per byte with their intervals, and the samples that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

from oresmith.errors import OresmithError
from oresmith.evaluation.bootstrap import SHARE, by_cluster, estimate
from oresmith.evaluation.lmeval.rows import Case, Cases
from oresmith.evaluation.lmeval.tasks.calls import METRICS
from oresmith.evaluation.means import Mean, mean_of, rate_of
from oresmith.intervals import DIGITS

Sample = dict[str, Any]


def calls_figures(found: Cases, samples: Sequence[Sample] | None, seed: str) -> dict[str, Any]:
    """Figures of `shopping_next_call`.

    Args:
        found: the cases.
        samples: one a case, in their order; None where the task was not run, and then every figure is null.
        seed: text that decides the resamples.

    Returns:
        `n`, `clusters`, each metric as a rate over cases with an interval that resamples leak clusters, `by_tool` (the
        metric `call`, by the tools of the turn), and what was dropped.

    Raises:
        OresmithError: lm-eval answered other prompts than those of the cases.
    """
    about = {
        "n": len(found.cases),
        "clusters": len({case.cluster for case in found.cases}),
        "trajectories": found.trajectories,
        "turns": found.turns,
        "dropped": found.dropped,
    }
    if samples is None:
        return about | dict.fromkeys((*METRICS, "by_tool"))
    _check_prompts(found.cases, samples)
    by_tool = {}
    for tools in sorted({case.tools for case in found.cases}):
        ours = [place for place, case in enumerate(found.cases) if case.tools == tools]
        by_tool[tools] = _rate(found.cases, samples, ours, "call", f"{seed}\0{tools}")
    every = range(len(found.cases))
    return about | {name: _rate(found.cases, samples, every, name, seed) for name in METRICS} | {"by_tool": by_tool}


def english_figures(samples: Sequence[Sample]) -> dict[str, Any]:
    """Figures of `general_english`: bits of all paragraphs through their UTF-8 bytes, paragraphs being resampled."""
    bits, sizes = zip(*(_bits(sample) for sample in samples), strict=True)
    places = [f"{place:04d}" for place in range(len(bits))]
    data = by_cluster(bits, places, sizes)
    # The paragraphs and not the model decide the seed: models are held against each other on the same resamples.
    taken = estimate(data, seed="lmeval\0general_english")
    low, high = taken.bounds or (None, None)
    return {
        "n": len(bits),
        "bytes": sum(sizes),
        "bits_per_byte": Mean(
            value=_rounded(taken.value),
            n=len(bits),
            clusters=len(bits),
            low=_rounded(low),
            high=_rounded(high),
            error=_rounded(taken.error),
            method=taken.method,
        ),
    }


def other_figures(samples: Sequence[Sample], seed: str) -> dict[str, Any]:
    """Figures of any other task: the mean of each metric that is one number a document, each document a case."""
    figures: dict[str, Any] = {"n": len(samples)}
    for name in samples[0]["metrics"] if samples else ():
        values = [float(value) for value in (sample[name] for sample in samples) if isinstance(value, int | float)]
        if len(values) < len(samples):
            figures[name] = None  # only lm-eval's own aggregation knows what it means
            continue
        limits = SHARE if all(0 <= value <= 1 for value in values) else None
        figures[name] = mean_of(
            values,
            [str(place) for place in range(len(values))],
            seed=f"{seed}\0{name}",
            limits=limits,
        )
    return figures


def kept(task: str, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """What is kept of a task's samples: the document's name and hash, the replies, and the metrics."""
    return [
        {
            "task": task,
            "doc": sample["doc"].get("id", sample["doc_id"]),
            "doc_hash": sample["doc_hash"],
            "replies": [_shown(reply) for reply in sample["filtered_resps"]],
            **{name: _shown(sample[name]) for name in sample["metrics"]},
        }
        for sample in samples
    ]


def _rate(cases: Sequence[Case], samples: Sequence[Sample], places: Sequence[int], metric: str, seed: str) -> Any:
    hits = [samples[place][metric] for place in places]
    return rate_of(hits, [1] * len(hits), [cases[place].cluster for place in places], seed=f"{seed}\0{metric}")


def _check_prompts(cases: Sequence[Case], samples: Sequence[Sample]) -> None:
    given = [sample["arguments"][0][0] for sample in samples]
    if given != [case.prompt for case in cases]:
        raise OresmithError(
            "lm-eval gave the model other prompts than the rendered ones",
            where="shopping_next_call",
            todo="use the release of lm-eval that the extra `eval` names",
        )


def _bits(sample: Sample) -> tuple[float, int]:
    likelihood, size = sample["bits_per_byte"]
    # Coarser than what the last bits of a sum differ by between machines.
    return round(-likelihood / log(2), 3), int(size)


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    return value if isinstance(value, str | int | None) else str(value)


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, DIGITS)
