"""Stage `grpo`: step 5 of the recipe, Dr. GRPO: the model plays problems of the train pool and learns from its rewards.

Reads the model that `grpo.from` names, data/corpus/ with its certificate in data/audit/, data/cluster/, data/split/,
data/index/*/, and data/teacher/ where it is there: corpus and teacher give the trajectories to agree with.
Writes data/grpo/ (adapter/, model/, rollouts.jsonl.zst, rows.jsonl.zst, training.json, curve.csv), metrics/grpo.json
and plots/training/grpo/; where the step is switched off, a training.json that says so. A run that was killed goes on
from data/.grpo.checkpoints/.
Exit codes: 0, 2 for a refusal (a certificate that fails, rewards without variance, too many rollouts cut by a limit, a
KL beyond its bound, a broken mask, disk full), 130 for an interruption, which leaves a checkpoint.
Example: python -m stages.grpo
"""

from __future__ import annotations

from contextlib import ExitStack

from oresmith.arena.search import Searcher
from oresmith.arena.titles import titling
from oresmith.arena.tools import Toolbox
from oresmith.blocks.lifeline import end_with_parent
from oresmith.evaluation.problems import Chosen, problem_set_sha256
from oresmith.evaluation.writing import ROLLOUTS
from oresmith.params import Params, load_params
from oresmith.stage import DATA, PLOTS, guarded
from oresmith.training.agreement import load_teachers
from oresmith.training.grpo import FittedGrpo, fit_grpo
from oresmith.training.grpo_output import course, leaks_of, row_set, write_rollouts
from oresmith.training.grpo_rounds import Arena
from oresmith.training.guarded import load_guarded
from oresmith.training.rewards import Judge
from oresmith.training.rows import problem_facts
from oresmith.training.sampled import Source, train_problems
from oresmith.training.sampling import Policy
from oresmith.training.spec import Spec
from oresmith.training.step import OpenStep, open_step, skip_step
from stages.score import catalogue_of


def run(params: Params, policy: Policy | None = None, *, quiet: bool = False) -> FittedGrpo | None:
    """Train and publish the step whole; None where it is switched off.

    Args:
        params: all parameters.
        policy: is sampled; None for the engine that the parameters name.
        quiet: without progress.
    """
    settings = params.grpo
    spec = Spec("grpo", "grpo", settings.start, settings.seed, settings)
    if not settings.enabled:
        skip_step(spec)
        return None
    source = Source(DATA, catalogue_of)
    with ExitStack() as stack:
        step = stack.enter_context(open_step(params, spec))
        chosen = train_problems(source, settings.problems)
        shops = {
            shop: stack.enter_context(Searcher.open(DATA / "index" / shop / "catalogue"))
            for shop in sorted({case.shop for case in chosen.cases})
        }
        teachers = load_teachers(source, (case.name for case in chosen.cases))
        wish = titling(params.score.title_model, params.score.title_min, "score.title_model")
        arena = Arena(
            chosen.cases,
            {shop: Toolbox(searcher) for shop, searcher in shops.items()},
            Judge(shops, teachers, settings.name_weight, wish),
            leaks_of(load_guarded(DATA)),
        )
        played = {"problems_sha256": problem_set_sha256(chosen.cases), "teachers_sha256": teachers.sha256()}
        done = fit_grpo(
            arena,
            step.start.checked.path,
            params.train,
            settings,
            chat=step.start.chat,
            checkpoints=step.checkpoints(played | {"catalogues": _catalogues(shops)}),
            out=step.path,
            live=PLOTS / "training" / "grpo",
            quiet=quiet,
            policy=policy,
        )
        facts = {"teachers": dict(teachers.counts), "left_out": dict(chosen.left_out)} | course(done.updates)
        _publish(step, chosen, done, facts | played)
    return done


def _publish(step: OpenStep, chosen: Chosen, done: FittedGrpo, facts: dict[str, object]) -> None:
    if not step.main:
        return
    step.take(row_set(done.updates, problem_facts(DATA), keeps_prefixes=step.start.chat.template.keeps_prefixes))
    cases = {case.name: case for case in chosen.cases}
    step.counted[ROLLOUTS] = write_rollouts(done.updates, cases, step.path, "grpo", step.start.model_sha256)
    step.publish(done.outcome, grpo=facts)
    step.metrics |= facts


def _catalogues(shops: dict[str, Searcher]) -> dict[str, str]:
    return {shop: searcher.manifest.catalogue_sha256 for shop, searcher in shops.items()}


def main() -> None:
    """Check all parameters, then train."""
    end_with_parent()
    done = run(load_params())
    if done is None:
        print("grpo: switched off")
        return
    told = course(done.updates)
    print(
        f"grpo: {told['updates']} updates on {told['rollouts']} rollouts of {told['problems']} problems, strict success"
        f" {told['first']['outcome']:.3f} in their first third and {told['last']['outcome']:.3f} in the last"
    )


if __name__ == "__main__":
    guarded(main)
