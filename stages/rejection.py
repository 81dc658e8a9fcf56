"""Stage `rejection`: a model is trained again on its own strict successes beside the corpus.

Reads the policy and the start model, data/corpus/ with its certificate (data/audit/), data/cluster/, data/split/,
data/index/*/ and the catalogues of data/snapshots/*/.
Writes data/rejection/ (adapter/, model/, rollouts/, score/, rows.jsonl.zst, training.json, curve.csv) and
metrics/rejection.json. A run that was killed while it sampled goes on from data/.rejection.sampled/, one that was
killed while it trained from data/.rejection.checkpoints/.
Exit codes: 0, 2 for a refusal (a certificate that fails, no policy, no rollout that is fit, disk full).
Example: python -m stages.rejection
"""

from __future__ import annotations

from typing import Any

from oresmith.arena.titles import titling
from oresmith.blocks.lifeline import end_with_parent
from oresmith.evaluation.engines import open_engine
from oresmith.params import Params, load_params
from oresmith.stage import DATA, guarded, workers
from oresmith.training.rejection import Engines, run_rejection, spec_of
from oresmith.training.sampled import Source
from oresmith.training.step import skip_step
from stages.score import catalogue_of


def run(params: Params, engines: Engines = open_engine, *, quiet: bool = False) -> dict[str, Any] | None:
    """Run the step, or publish that it is switched off.

    Args:
        params: all parameters.
        engines: opens the engine that the policy plays with.
        quiet: without progress.
    """
    if not params.rejection.enabled:
        skip_step(spec_of(params))
        return None
    wish = titling(params.score.title_model, params.score.title_min, "score.title_model")
    return run_rejection(params, Source(DATA, catalogue_of, wish, workers(params)), engines, quiet=quiet)


def main() -> None:
    """Check all parameters, then run the step."""
    end_with_parent()
    done = run(load_params())
    if done is None:
        print("rejection: switched off")
    elif done:
        chosen, mix = done["selection"], done["mix"]
        print(
            f"rejection: {chosen['successes']} of {chosen['sampled']} rollouts succeed, {chosen['kept']} kept;"
            f" {mix['rollout_rows']} of their rows and {mix['corpus_rows']} of the corpus"
        )


if __name__ == "__main__":
    guarded(main)
