"""Stage `kto`: step 4 of the recipe, KTO on trajectories that the strict scorer calls successes and failures.

Reads data/corpus/ with its certificate in data/audit/, data/cluster/, data/split/, the model that `kto.from` names,
and, where `kto.rows` is rejection, data/rejection/.
Writes data/kto/ (adapter/, model/, rows.jsonl.zst, training.json, curve.csv), plots/training/kto/ and metrics/kto.json;
where the step is switched off, a training.json that says so. A run that was killed goes on from data/.kto.checkpoints/.
Exit codes: 0, 2 for a refusal (a certificate that fails, a leak, too few rows, rows of one class only, a broken mask, a
KL beyond its bound, disk full), 130 for an interruption, which leaves a checkpoint.
Example: python -m stages.kto
"""

from __future__ import annotations

from oresmith.blocks.lifeline import end_with_parent
from oresmith.params import Params, load_params
from oresmith.stage import DATA, PLOTS, guarded
from oresmith.training.kto import FittedKto, fit_kto, plan_kto
from oresmith.training.kto_rows import KtoRows, corpus_kto_rows, sampled_kto_rows
from oresmith.training.sampled import Source, load_attempts
from oresmith.training.step import OpenStep, Spec, open_step, skip_step
from stages.score import catalogue_of


def run(params: Params) -> FittedKto | None:
    """Train and publish the step whole; None where it is switched off.

    Args:
        params: all parameters.
    """
    settings = params.kto
    spec = Spec("kto", "kto", settings.start, settings.seed, settings)
    if not settings.enabled:
        skip_step(spec)
        return None
    with open_step(params, spec) as step:
        chosen = rows_of(step)
        step.take(chosen.rows)
        plan = plan_kto(chosen.rows.rows, chosen.labels(), settings)
        done = fit_kto(
            chosen,
            plan,
            step.start.checked.path,
            params.train,
            settings,
            chat=step.start.chat,
            checkpoints=step.checkpoints({"order": plan.order, "labels": chosen.labels()}),
            out=step.path,
            live=PLOTS / "training" / "kto",
        )
        step.publish(done.outcome, kto={"rows": settings.rows, "left_out": chosen.rows.left_out} | done.facts)
        step.metrics |= done.facts
    return done


def rows_of(step: OpenStep) -> KtoRows:
    """The trajectories that `kto.rows` names, as rows.

    Raises:
        OresmithError: there are none, or too few.
    """
    settings, train = step.params.kto, step.params.train
    if settings.rows == "corpus":
        return corpus_kto_rows(
            DATA,
            step.start.chat,
            view=train.view,
            prompt=train.prompt,
            replace_prompts=train.logged_prompts == "replace",
            max_tokens=train.max_tokens,
            max_rows=settings.max_rows,
            min_rows=train.min_rows,
        )
    return sampled_kto_rows(
        load_attempts(DATA / "rejection", Source(DATA, catalogue_of)),
        DATA,
        step.start.chat,
        max_tokens=train.max_tokens,
        max_rows=settings.max_rows,
        min_rows=train.min_rows,
    )


def main() -> None:
    """Check all parameters, then train."""
    end_with_parent()
    done = run(load_params())
    if done is None:
        print("kto: switched off")
        return
    outcome, facts = done.outcome, done.facts
    print(
        f"kto: {outcome.steps} updates on {facts['desirable_rows']} successes and {facts['undesirable_rows']} failures,"
        f" {outcome.supervised:,} supervised tokens, KL at most {facts['kl_most']:.3g}"
    )


if __name__ == "__main__":
    guarded(main)
