"""Stage `teacher`: a model is trained on a teacher's strict successes.

Reads the start model, data/corpus/ with its certificate (data/audit/), data/cluster/, data/split/, data/index/*/ and
the catalogues of data/snapshots/*/.
Writes data/teacher/ (adapter/, model/, rollouts/, score/, rows.jsonl.zst, training.json, curve.csv) and
metrics/teacher.json. What was played is in data/.teacher.sampled/ from the first sample on: an endpoint that dies, or a
kill, costs the samples under way; a kill while it trains, what data/.teacher.checkpoints/ lacks.
Exit codes: 0, 2 for a refusal (a certificate that fails, an endpoint that keeps failing, no rollout that is fit).
Example: python -m stages.teacher
"""

from __future__ import annotations

from typing import Any

from oresmith.arena.titles import titling
from oresmith.blocks.lifeline import end_with_parent
from oresmith.evaluation.engines import open_engine
from oresmith.params import Params, load_params
from oresmith.stage import DATA, guarded, workers
from oresmith.training.rejection import Engines
from oresmith.training.sampled import Source
from oresmith.training.step import skip_step
from oresmith.training.teacher import run_teacher, spec_of
from stages.score import catalogue_of


def run(params: Params, engines: Engines = open_engine, *, quiet: bool = False) -> dict[str, Any] | None:
    """Run the step, or publish that it is switched off.

    Args:
        params: all parameters.
        engines: opens the engine of an endpoint.
        quiet: without progress.
    """
    if not params.teacher.enabled:
        skip_step(spec_of(params))
        return None
    wish = titling(params.score.title_model, params.score.title_min, "score.title_model")
    return run_teacher(params, Source(DATA, catalogue_of, wish, workers(params)), engines, quiet=quiet)


def main() -> None:
    """Check all parameters, then run the step."""
    end_with_parent()
    done = run(load_params())
    if done is None:
        print("teacher: switched off")
    elif done:
        chosen, cost = done["selection"], done["cost"]
        print(
            f"teacher: {chosen['successes']} of {chosen['sampled']} rollouts succeed, {chosen['kept']} kept;"
            f" {cost['requests']} requests, {cost['completion_tokens']} tokens written"
        )


if __name__ == "__main__":
    guarded(main)
