"""Stage `sft`: step 1 of the recipe, supervised fine-tuning on the corpus; one model for each seed of the parameters.

Reads data/corpus/ with its certificate in data/audit/, data/cluster/, data/split/ and the model that `sft.from` names.
Writes data/sft/SEED/ (adapter/, model/, rows.jsonl.zst, training.json, curve.csv), plots/training/sft-SEED/ and
metrics/sft-SEED.json. A run that was killed goes on from data/.sft-SEED.checkpoints/.
Exit codes: 0, 2 for a refusal (a certificate that fails, a leak, too few rows, a broken mask, a start model without a
template of ours, disk full), 130 for an interruption, which leaves a checkpoint.
Example: python -m stages.sft 1
"""

from __future__ import annotations

import sys

from oresmith.blocks.lifeline import end_with_parent
from oresmith.errors import OresmithError
from oresmith.params import Params, load_params
from oresmith.stage import guarded
from oresmith.training.step import Outcome, Spec, open_step


def run(params: Params, seed: int) -> Outcome:
    """Train one model and publish it whole.

    Args:
        params: all parameters.
        seed: one of `sft.seeds`.
    """
    settings = params.sft
    spec = Spec(f"sft/{seed}", "sft", settings.start, seed, settings)
    with open_step(params, spec) as step:
        outcome = step.fit(step.corpus_rows(settings.max_rows))
        step.publish(outcome)
    return outcome


def selected_seed(params: Params, argument: str) -> int:
    """The seed that the command line names.

    Raises:
        OresmithError: the parameters list no such seed.
    """
    known = {str(seed): seed for seed in params.sft.seeds}
    if argument not in known:
        raise OresmithError(
            "no such seed in the parameters", where="params.yaml: sft.seeds", expected=", ".join(known), got=argument
        )
    return known[argument]


def main() -> None:
    """Check all parameters, then train the model of the seed that the command line names."""
    end_with_parent()
    if len(sys.argv) != 2:
        raise OresmithError("one argument is needed: the seed", where=sys.argv[0], todo=(__doc__ or "").strip())
    params = load_params()
    seed = selected_seed(params, sys.argv[1])
    outcome = run(params, seed)
    print(
        f"sft {seed}: {outcome.steps} updates on {outcome.tokens:,} tokens, {outcome.supervised:,} of them supervised"
    )


if __name__ == "__main__":
    guarded(main)
