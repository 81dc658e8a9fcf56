"""Teacher-SFT: a teacher plays problems of the train pool, and its strict successes are trained on.

The teacher is the world's scripted policy, or a model behind any OpenAI-compatible endpoint. Both play through the
harness, so that their rollouts have the form in which the model is trained and asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from msgspec.structs import replace

from oresmith.arena.search import Searcher
from oresmith.arena.tools import Toolbox
from oresmith.errors import OresmithError
from oresmith.evaluation.problems import Chosen
from oresmith.evaluation.records import Engine
from oresmith.evaluation.scored import told
from oresmith.evidence.structure import RECOMMEND
from oresmith.param_models import Rollout
from oresmith.params import Params
from oresmith.training.expert import Expert, without_brief
from oresmith.training.rejection import Engines
from oresmith.training.rowset import RowSet
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
from oresmith.training.step import OpenStep, Outcome, Spec, open_step

NAME = "teacher"
CATEGORIES = ("product", "shop", "voucher", "web")


def spec_of(params: Params) -> Spec:
    """The step as `step` runs it."""
    return Spec(name=NAME, step=NAME, start=params.teacher.start, seed=params.teacher.seed, fit=params.teacher)


def rollout_settings(params: Params) -> Rollout:
    """How the teacher plays: what `teacher` says, in the view and with the prompt that are trained; else `rollout`.

    Raises:
        OresmithError: an endpoint without an address, several samples that would all be the same, or a category in
            `oversample` that no problem has.
    """
    wish = params.teacher
    strange = sorted(name for name in wish.oversample if name not in CATEGORIES)
    if strange:
        raise OresmithError(
            "no such category", where="teacher.oversample", expected=" or ".join(CATEGORIES), got=strange[0][:80]
        )
    played = replace(
        params.rollout,
        problems=wish.problems,
        samples=wish.samples,
        temperature=0.0,
        top_p=1.0,
        seed=wish.seed,
        view=params.train.view,
        prompt=params.train.prompt,
    )
    if wish.teacher == "expert":
        return played
    if wish.url is None:
        raise OresmithError("the teacher needs the server's address", where="teacher.url")
    if wish.samples > 1 and wish.temperature == 0.0:
        raise OresmithError(
            "several greedy samples of a problem are one and the same", where="teacher.samples with teacher.temperature"
        )
    return replace(
        played,
        engine="openai",
        url=wish.url,
        served_model=wish.served_model,
        key_env=wish.key_env,
        key_file=None,
        temperature=wish.temperature,
        max_new_tokens=wish.max_new_tokens or played.max_new_tokens,
    )


def run_teacher(params: Params, source: Source, engines: Engines, *, quiet: bool = False) -> dict[str, Any]:
    """Let the teacher play, select, oversample, and train; publishes the step's directory.

    Args:
        params: all parameters.
        source: where problems, shops and truth are.
        engines: opens the engine of an endpoint.
        quiet: without progress.

    Returns:
        What training.json says of the teacher.

    Raises:
        OresmithError: an endpoint that keeps failing (run again, the step goes on where it was), no rollout that is
            fit, or as `open_step`.
    """
    settings = rollout_settings(params)
    work = work_of(source.data, NAME)
    with open_step(params, spec_of(params)) as step:
        sampled: Sampled | None = None
        with main_first(step.main, params.train.device):
            if step.main:
                sampled = _play(params, source, settings, engines, quiet=quiet)
        attempts = load_attempts(work, source) if sampled is None else sampled.attempts
        selected = select(attempts, params.train.view, request_words=params.teacher.request_words)
        taken = taken_rows(
            attempts,
            selected,
            step.start.chat,
            origin="teacher",
            max_tokens=params.train.max_tokens,
            where=NAME,
        )
        rows = oversampled(taken.rows, params.teacher.oversample)
        outcome = step.fit(rows)
        if sampled is None:
            return {}
        keep(work, step.path)
        return _publish(step, outcome, sampled, taken, rows)


def oversampled(rows: RowSet, factors: Mapping[str, int]) -> RowSet:
    """The same rows, those of a category as often as its factor says, one copy after the other."""
    most = max(factors.values(), default=1)
    repeated = [row for turn in range(most) for row in rows.rows if turn < factors.get(row.category, 1)]
    return replace(rows, rows=repeated)


def refusals(attempts: Sequence[Attempt]) -> int:
    """Rollouts whose last word is text, with no recommendation: the teacher declined, or lost the thread."""
    return sum(
        one.rollout.ended == "stopped"
        and not any(call.name == RECOMMEND for message in one.rollout.messages for call in message.tool_calls)
        for one in attempts
    )


def _play(params: Params, source: Source, settings: Rollout, engines: Engines, *, quiet: bool) -> Sampled:
    wish = params.teacher
    expert = wish.teacher == "expert"
    left_out = without_brief(train_problems(source, None).cases) if expert else None
    chosen = train_problems(source, settings.problems, left_out)
    name = f"expert-{wish.style}" if expert else wish.served_model or NAME
    opened = _expert(params, source, chosen) if expert else closing(engines(settings, name, None))
    with opened as engine:
        return sample(
            engine,
            chosen,
            source,
            work_of(source.data, NAME),
            name=name,
            settings=settings,
            observed=source.data / "observed" / f"{NAME}-rollouts.json",
            quiet=quiet,
        )


@contextmanager
def _expert(params: Params, source: Source, chosen: Chosen) -> Iterator[Engine]:
    with ExitStack() as stack:
        toolboxes = {
            shop: Toolbox(stack.enter_context(Searcher.open(source.data / "index" / shop / "catalogue")))
            for shop in sorted({case.shop for case in chosen.cases})
        }
        yield Expert(chosen.cases, toolboxes, params.teacher.seed, params.teacher.style)


def _publish(step: OpenStep, outcome: Outcome, sampled: Sampled, taken: Taken, rows: RowSet) -> dict[str, Any]:
    passes = pass_report(sampled.scored)
    report = {
        "teacher": sampled.scored.scores.noted["model"],
        "sampled": passes,
        "left_out": sampled.left_out,
        "cost": sampled.cost,
        "refusals": refusals(sampled.attempts),
        "selection": told(taken.account),
        "rows_by_category": dict(sorted(Counter(row.category for row in rows.rows).items())),
    }
    step.publish(outcome, teacher=report)
    names = ("cost", "refusals", "selection", "rows_by_category")
    step.metrics |= {"pass_at": passes["pass_at"], **{name: report[name] for name in names}}
    return report
