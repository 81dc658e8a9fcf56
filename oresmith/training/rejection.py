"""Rejection sampling: a model is trained again on its own strict successes, beside the corpus.

What it is to do well it has then done itself. A gain means little without the step's control: in a trial rejection
lifted pass@1 from 25.0 to 56.5%, and as many updates on the earlier data alone lifted it to 56.0%.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from oresmith.errors import OresmithError
from oresmith.evaluation.records import Engine
from oresmith.evaluation.scored import told
from oresmith.param_models import Rollout
from oresmith.params import Params
from oresmith.training.rowset import RowSet, combined
from oresmith.training.sampled import (
    Sampled,
    Source,
    keep,
    load_attempts,
    main_first,
    pass_report,
    sample,
    train_problems,
    work_of,
)
from oresmith.training.sampled_rows import Taken, taken_rows
from oresmith.training.selection import Attempt, select
from oresmith.training.step import OpenStep, Outcome, Spec, find_model, open_step

Engines = Callable[[Rollout, str, Path | None], Engine]
"""Opens the engine that the parameters name (`evaluation.engines.open_engine`)."""
NAME = "rejection"


def spec_of(params: Params) -> Spec:
    """The step as `step` runs it."""
    return Spec(name=NAME, step=NAME, start=params.rejection.start, seed=params.rejection.seed, fit=params.rejection)


def rollout_settings(params: Params) -> Rollout:
    """How the policy plays: what `rejection` says, in the view and with the prompt that are trained; else `rollout`.

    Raises:
        OresmithError: an engine that does not run the policy's own files.
    """
    wish = params.rejection
    if params.rollout.engine == "openai":
        raise OresmithError(
            "rejection samples from the model of an earlier step, and nobody can tell which one a server runs",
            where="rollout.engine",
            expected="transformers or vllm",
            got="openai",
        )
    return replace(
        params.rollout,
        problems=wish.problems,
        samples=wish.samples,
        temperature=wish.temperature,
        top_p=wish.top_p,
        seed=wish.seed,
        view=params.train.view,
        prompt=params.train.prompt,
    )


def run_rejection(params: Params, source: Source, engines: Engines, *, quiet: bool = False) -> dict[str, Any]:
    """Sample, select, mix, and train; publishes the step's directory.

    Args:
        params: all parameters.
        source: where problems, shops and truth are.
        engines: opens the engine.
        quiet: without progress.

    Returns:
        What training.json says of the sampling.

    Raises:
        OresmithError: no policy or start model, an engine that keeps failing, no fit rollout, or as `open_step`.
    """
    settings = rollout_settings(params)
    policy = find_model(params.rejection.policy, "params.yaml: rejection.policy")
    work = work_of(source.data, NAME)
    with open_step(params, spec_of(params)) as step:
        sampled: Sampled | None = None
        with main_first(step.main, params.train.device):
            if step.main:
                chosen = train_problems(source, settings.problems)
                name = policy.name.replace("/", "-")
                observed = source.data / "observed" / f"{NAME}-rollouts.json"
                with closing(engines(settings, name, policy.checked.path)) as engine:
                    sampled = sample(
                        engine, chosen, source, work, name=name, settings=settings, observed=observed, quiet=quiet
                    )
        taken, mixed = mix(step, load_attempts(work, source) if sampled is None else sampled.attempts)
        outcome = step.fit(mixed)
        if sampled is None:
            return {}
        keep(work, step.path)
        return _publish(step, outcome, sampled, taken, mixed)


def mix(step: OpenStep, attempts: list[Attempt]) -> tuple[Taken, RowSet]:
    """The rows of the step: `rejection.mix` of them are rollouts, or fewer where there are not as many.

    The corpus rows are those of the step `sft`, so that nothing but the rollouts is new.

    Args:
        step: under way.
        attempts: everything that was sampled.

    Raises:
        OresmithError: no rollout is fit.
    """
    wish, train = step.params.rejection, step.params.train
    corpus = [step.corpus_rows(step.params.sft.max_rows)] if wish.mix < 1 else []
    wanted = sum(len(one.rows) for one in corpus) * wish.mix / (1 - wish.mix) if corpus else None
    selected = select(
        attempts,
        train.view,
        per_problem=wish.keep_per_problem,
        per_cluster=wish.keep_per_cluster,
        request_words=wish.request_words,
    )
    taken = taken_rows(
        attempts,
        selected,
        step.start.chat,
        origin="rollout",
        max_tokens=train.max_tokens,
        wanted=None if wanted is None else round(wanted),
        where=NAME,
    )
    return taken, combined([*corpus, taken.rows])


def _publish(step: OpenStep, outcome: Outcome, sampled: Sampled, taken: Taken, mixed: RowSet) -> dict[str, Any]:
    passes = pass_report(sampled.scored)
    rollouts = len(taken.rows.rows)
    report = {
        "policy": step.params.rejection.policy,
        "sampled": passes,
        "left_out": sampled.left_out,
        "cost": sampled.cost,
        "selection": told(taken.account),
        "mix": {
            "wanted": step.params.rejection.mix,
            "share": round(rollouts / len(mixed.rows), 6),
            "rollout_rows": rollouts,
            "corpus_rows": len(mixed.rows) - rollouts,
        },
    }
    step.publish(outcome, rejection=report)
    step.metrics |= {"pass_at": passes["pass_at"], "selection": report["selection"], "mix": report["mix"]}
    return report
