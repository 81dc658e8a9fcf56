"""Stage `compare`: the models of the parameters that were evaluated on the same levels, each held against the first of
them, the one before it, and those that its entry names.

Reads data/score/*/ of the listed models.
Writes metrics/compare.json and the plots of all models: plots/asr.csv, plots/pass_k.csv, plots/failures.csv.
Exit codes: 0, 2 where conditions differ (scorer, title threshold, prompt, tool schema, view, problem set, sampling and
limits, harness, catalogue) and the parameter compare.forced does not say otherwise.
Example: python -m stages.compare
"""

from __future__ import annotations

from collections.abc import Sequence

from oresmith.blocks.lifeline import end_with_parent
from oresmith.evaluation.comparing import Comparisons, compare
from oresmith.evaluation.scored import load_scores, told
from oresmith.evaluation.shown import curve_points, failure_points, print_comparisons, rate_points
from oresmith.param_models import Model
from oresmith.params import Params, load_params
from oresmith.stage import DATA, guarded, write_metrics, write_plot


def run(params: Params) -> Comparisons:
    """Compare the models and publish figures and plots."""
    scored = [load_scores(DATA / "score" / model.name) for model in params.models]
    scores = [one.scores for one in scored]
    for name, points in (("asr", rate_points), ("pass_k", curve_points), ("failures", failure_points)):
        write_plot(name, *points(scores))
    found = compare(scored, forced=params.compare.forced, pairs=pairs_of(params.models))
    write_metrics("compare", told(found))
    return found


def pairs_of(models: Sequence[Model]) -> list[tuple[int, int]]:
    """Places of the models that are compared, the one that is held against first."""
    place = {model.name: number for number, model in enumerate(models)}
    groups: dict[tuple[str, ...] | None, list[int]] = {}
    found = []
    for number, model in enumerate(models):
        group = groups.setdefault(model.levels, [])
        found += [(first, number) for first in {*group[:1], *group[-1:], *(place[name] for name in model.against)}]
        group.append(number)
    return sorted(found, key=lambda pair: (pair[1], pair[0]))


def main() -> None:
    """Check all parameters, then compare."""
    end_with_parent()
    print_comparisons(run(load_params()))


if __name__ == "__main__":
    guarded(main)
