"""One model measured by lm-eval's tasks, from its cases to the published results."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from oresmith.arena.views import view_sha256
from oresmith.blocks.atomic import stage_output
from oresmith.evaluation.lmeval.model import Held, held, need_lm_eval
from oresmith.evaluation.lmeval.report import calls_figures, english_figures, kept, other_figures
from oresmith.evaluation.lmeval.rows import Cases, Reader, cases_of_pool
from oresmith.evaluation.lmeval.run import CALLS, ENGLISH, Samples, evaluate, task_sha256, versions
from oresmith.evaluation.prompts import prompt_sha256
from oresmith.param_models import Lmeval
from oresmith.stage import builtins

LMEVAL_SCHEMA = "oresmith.lmeval/1"
RESULTS, SAMPLES, CASES = "results.json", "samples.jsonl", "cases.jsonl"
_PLACES = ("url", "served_model")
"""Parameters that say where a model is and not what is measured."""


def measure(
    directory: Path, corpus: Path, target: Path, *, name: str, settings: Lmeval, observed: Path | None = None
) -> dict[str, Any]:
    """Measure a model and publish what came of it.

    Args:
        directory: of the model.
        corpus: directory of the stage `corpus`; only `shopping_next_call` reads it.
        target: the output, replaced whole.
        name: of the model.
        settings: namespace `lmeval`.
        observed: file for wall seconds and memory.

    Returns:
        What results.json holds: identity of the model, versions, and the figures of each task.

    Raises:
        OresmithError: a package is missing, or a model, corpus, task or server is unfit.
    """
    need_lm_eval()
    given = {key: value for key, value in builtins(settings).items() if key not in _PLACES}
    with stage_output(target, f"lmeval-{name}", schema=LMEVAL_SCHEMA, params=given, observed=observed) as staged:
        with held(directory, settings, name) as model:
            found = _cases(model, corpus, settings)
            cases = staged.path / CASES
            _write_lines(cases, found.cases)
            # Without a case there is nothing to ask: lm-eval takes no empty task.
            asked = [task for task in settings.tasks if task != CALLS or found.cases]
            done = evaluate(model, asked, settings, cases) if asked else Samples({}, {})
        results = _results(model, found, done, name, settings)
        (staged.path / RESULTS).write_bytes(_json(results))
        lines = [line for task in asked for line in kept(task, done.samples[task])]
        _write_lines(staged.path / SAMPLES, lines)
        staged.rows = {CASES: len(found.cases), SAMPLES: len(lines)}
    return results


def _cases(model: Held, corpus: Path, settings: Lmeval) -> Cases:
    if CALLS not in settings.tasks:
        return Cases([], {}, 0, 0)
    reader = Reader(model.chat, model.encode, model.context - settings.max_new_tokens, settings.view, settings.prompt)
    return cases_of_pool(corpus, settings.pool, settings.rows, reader)


def _results(model: Held, found: Cases, done: Samples, name: str, settings: Lmeval) -> dict[str, Any]:
    tasks: dict[str, dict[str, Any]] = {}
    for task in settings.tasks:
        samples, seed = done.samples.get(task), f"lmeval\0{name}\0{task}"
        if task == CALLS:
            figures = calls_figures(found, samples, seed)
        elif task == ENGLISH:
            figures = english_figures(samples or [])
        else:
            figures = other_figures(samples or [], seed)
        skipped = _why(found, settings) if task == CALLS and not found.cases else None
        about = {"skipped": skipped, "version": done.versions.get(task), "sha256": task_sha256(task)}
        tasks[task] = about | figures
    plain: dict[str, Any] = msgspec.to_builtins(
        {
            "schema": LMEVAL_SCHEMA,
            "model": name,
            "identity": model.identity,
            "versions": versions(),
            "prompt": {"version": settings.prompt, "sha256": prompt_sha256(settings.prompt)},
            "view": {"version": settings.view, "sha256": view_sha256(settings.view)},
            "tasks": tasks,
        }
    )
    return plain


def _why(found: Cases, settings: Lmeval) -> str:
    if found.turns:
        return f"none of {found.turns} turns of pool {settings.pool} can be a case"
    if found.trajectories:
        return f"no turn of pool {settings.pool} calls a tool"
    return f"pool {settings.pool} holds no trajectory"


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _write_lines(path: Path, rows: Iterable[Any]) -> None:
    with path.open("wb") as file:
        for row in rows:
            file.write(msgspec.json.encode(row) + b"\n")
