"""Stage `control`: what a later step is compared with. The model before the step, trained by SFT on the earlier data.

It makes as many updates as the step did, with the step's schedule and seed, on the corpus rows that step 1 takes: what
the step gains beyond that is its own.
Reads data/STEP/training.json, and all that the stage `sft` reads.
Writes data/control/STEP/ and what else the stage `sft` writes, under the name control/STEP. A step that is switched off
has a control without a model.
Exit codes: 0, 2 for a refusal (the step has not run; else as the stage `sft`), 130 for an interruption.
Example: python -m stages.control teacher
"""

from __future__ import annotations

import sys

import msgspec

from oresmith.blocks.lifeline import end_with_parent
from oresmith.errors import OresmithError
from oresmith.param_training import STEPS, Fit, Grpo, Kto, Rejection, Teacher
from oresmith.params import Params, load_params
from oresmith.stage import DATA, guarded
from oresmith.training.step import Outcome, Spec, open_step, skip_step
from oresmith.training.trained import Training, read_training


def run(params: Params, step: str) -> Outcome | None:
    """Train the control and publish it whole.

    Args:
        params: all parameters.
        step: one of `param_training.STEPS`.

    Returns:
        What the training came to; None where the step is switched off.
    """
    settings: Rejection | Teacher | Kto | Grpo = getattr(params, step)
    fit = Fit(**{name: getattr(settings, name) for name in Fit.__struct_fields__})
    spec = Spec(f"control/{step}", "control", settings.start, settings.seed, fit)
    done = step_done(step)
    if done.skipped is not None:
        skip_step(spec, f"not trained, as {step} is {done.skipped}")
        return None
    spec = spec._replace(fit=msgspec.structs.replace(fit, max_steps=done.steps))
    with open_step(params, spec) as opened:
        outcome = opened.fit(opened.corpus_rows(params.sft.max_rows))
        opened.publish(outcome, control_of=step)
    return outcome


def step_done(step: str) -> Training:
    """What the step says of itself.

    Raises:
        OresmithError: it has not run.
    """
    done = read_training(DATA / step)
    if done is None:
        raise OresmithError(
            "a control needs its step, which has not run", where=str(DATA / step), todo=f"run `python -m stages.{step}`"
        )
    return done


def main() -> None:
    """Check all parameters, then train the control of the step that the command line names."""
    end_with_parent()
    if len(sys.argv) != 2:
        raise OresmithError("one argument is needed: the step", where=sys.argv[0], todo=(__doc__ or "").strip())
    params, step = load_params(), sys.argv[1]
    if step not in STEPS:
        raise OresmithError("no such step", where=sys.argv[0], expected=", ".join(STEPS), got=step)
    outcome = run(params, step)
    if outcome is None:
        print(f"control {step}: nothing to do, as the step is switched off")
    else:
        print(f"control {step}: {outcome.steps} updates on {outcome.tokens:,} tokens")


if __name__ == "__main__":
    guarded(main)
