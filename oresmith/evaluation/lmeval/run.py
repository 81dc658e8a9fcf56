"""Runs lm-eval's tasks on a model and reads what came of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from oresmith.errors import OresmithError
from oresmith.evaluation.lmeval.model import Held
from oresmith.param_models import Lmeval

TASKS = Path(__file__).resolve().parent / "tasks"
CALLS, ENGLISH = "shopping_next_call", "general_english"
TASK_FILES = {CALLS: "shopping_next_call.yaml", ENGLISH: "general_english.yaml"}
"""Named in full, so that DVC's dependencies hold them."""
_SEED = 1234
_PACKAGES = ("lm_eval", "transformers", "tokenizers", "torch")


class Samples(NamedTuple):
    """What lm-eval gives back."""

    samples: dict[str, list[dict[str, Any]]]
    """Task -> its samples in the order of the documents: `doc`, `arguments`, `filtered_resps` and each metric."""
    versions: dict[str, Any]
    """Task -> version of its YAML."""


def versions() -> dict[str, str]:
    """The packages that decide what is measured."""
    return {name: version(name) for name in _PACKAGES}


def task_sha256(name: str) -> str | None:
    """The sha256 of a task's YAML; None for a task that is not ours."""
    file = TASK_FILES.get(name)
    return None if file is None else hashlib.sha256((TASKS / file).read_bytes()).hexdigest()


def evaluate(held: Held, tasks: Sequence[str], settings: Lmeval, cases: Path) -> Samples:
    """Run tasks: ours whole, further ones on `settings.rows` documents.

    Args:
        held: the model.
        tasks: names; `shopping_next_call` reads `cases`.
        settings: namespace `lmeval`.
        cases: file of `Case` lines.

    Raises:
        OresmithError: an unknown task, a task whose data are not at hand, or a server that does not answer.
    """
    from lm_eval.tasks import TaskManager

    include = [TASKS, *([Path(settings.include).resolve()] if settings.include else [])]
    if not include[-1].is_dir():
        raise OresmithError("no such directory of tasks", where="lmeval.include", got=str(include[-1]))
    manager = TaskManager(
        include_path=[str(path) for path in include], include_defaults=False, metadata={"cases": str(cases)}
    )
    unknown = sorted(set(tasks) - set(manager.all_tasks))
    if unknown:
        raise OresmithError(
            "no such lm-eval task",
            where="lmeval.tasks",
            expected=", ".join(sorted(manager.all_tasks)),
            got=", ".join(unknown),
            todo="name the directory of its YAML as lmeval.include",
        )
    ours = [name for name in tasks if name in TASK_FILES]
    found = Samples({}, {})
    for names, limit in ((ours, None), ([name for name in tasks if name not in ours], settings.rows)):
        if names:
            part = _evaluate(held, names, manager, limit, settings)
            found.samples.update(part.samples)
            found.versions.update(part.versions)
    return found


def _evaluate(held: Held, names: list[str], manager: Any, limit: int | None, settings: Lmeval) -> Samples:
    import lm_eval

    try:
        results = lm_eval.simple_evaluate(
            model=held.lm,
            tasks=[_task(name, manager, settings) for name in names],
            task_manager=manager,
            limit=limit,
            bootstrap_iters=0,  # intervals are ours: they know which cases belong together
            log_samples=True,
            random_seed=_SEED,
            numpy_random_seed=_SEED,
            torch_random_seed=_SEED,
            fewshot_random_seed=_SEED,
        )
    except OresmithError:
        raise
    except Exception as error:  # lm-eval, its tasks and its clients raise what they like
        if settings.url is None and settings.include is None:
            raise
        raise OresmithError(
            "lm-eval could not run the tasks",
            where=settings.url or str(settings.include),
            got=f"{type(error).__name__}: {error}"[:300],
            todo="look at the server, or at the tasks' data" if settings.url else "look at the tasks and their data",
        ) from error
    samples = {name: sorted(rows, key=lambda row: row["doc_id"]) for name, rows in results["samples"].items()}
    return Samples(samples, dict(results["versions"]))


def _task(name: str, manager: Any, settings: Lmeval) -> Any:
    """The task by name; of ours, with the replies' limit that the parameters set."""
    if name != CALLS:
        return name
    task = manager.load([name])["tasks"][name]
    task.set_config("generation_kwargs", {"max_gen_toks": settings.max_new_tokens}, update=True)
    return task
