"""Stage `rollout`: one model plays the problems of a pool in the arena, k samples each.

Reads the model, data/cluster/, data/split/ and data/index/*/ of the pool's snapshots.
Writes data/rollout/NAME/ (rollouts.jsonl.zst, rollouts.parquet, atif.jsonl.zst, requests.jsonl.zst). A run that was
killed goes on from data/rollout/.NAME.journal/.
Exit codes: 0, 2 for a refusal (an empty pool, a model that cannot be loaded, an engine that keeps failing, disk full).
Example: python -m stages.rollout base
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from oresmith.arena.search import Searcher
from oresmith.blocks.lifeline import end_with_parent
from oresmith.errors import OresmithError
from oresmith.evaluation.engines import open_engine
from oresmith.evaluation.evaluate import Evaluated, publish
from oresmith.evaluation.problems import problems_of_pool
from oresmith.evaluation.records import Engine
from oresmith.param_models import Model, Rollout
from oresmith.params import Params, load_params
from oresmith.stage import DATA, guarded


def run(params: Params, name: str, engines: Callable[[Rollout, str, Path | None], Engine] = open_engine) -> Evaluated:
    """Play the pool with one model of the list and publish the rollouts whole.

    Args:
        params: all parameters.
        name: of the model.
        engines: opens the engine that the parameters name.
    """
    model, settings = selected_model(params, name), params.rollout
    levels = settings.levels if model.levels is None else model.levels
    chosen = problems_of_pool(DATA, settings.pool, params.split.held_out, settings.problems, levels)
    with ExitStack() as stack:
        shops = {
            shop: stack.enter_context(Searcher.open(DATA / "index" / shop / "catalogue"))
            for shop in sorted({case.shop for case in chosen.cases})
        }
        engine = stack.enter_context(closing(engines(settings, name, model_directory(model))))
        return publish(
            engine,
            chosen,
            shops,
            DATA / "rollout" / name,
            name=name,
            settings=settings,
            lock=f"rollout-{name}",
            observed=DATA / "observed" / f"rollout-{name}.json",
        )


def selected_model(params: Params, name: str) -> Model:
    """The entry of the model of this name.

    Raises:
        OresmithError: the parameters list no such model.
    """
    for model in params.models:
        if model.name == name:
            return model
    known = ", ".join(model.name for model in params.models)
    raise OresmithError("no such model in the parameters", where="params.yaml: models", expected=known, got=name)


def model_directory(model: Model) -> Path | None:
    """Where the model's files are; None for one that a server has."""
    if model.stage is None:
        return Path(model.path) if model.path else None
    stage = DATA / model.stage
    return stage / "model" if (stage / "model").is_dir() else stage


def main() -> None:
    """Check all parameters, then play with the model that the command line names."""
    end_with_parent()
    if len(sys.argv) != 2:
        raise OresmithError("one argument is needed: the model's name", where=sys.argv[0], todo=(__doc__ or "").strip())
    done = run(load_params(), sys.argv[1])
    tally, problems = done.tally, done.configuration["problems"]
    left_out = "".join(f", {count} left out: {why}" for why, count in problems["left_out"].items())
    print(
        f"rollout {sys.argv[1]}: {problems['count']} problems of {problems['pool']}{left_out}; {tally.samples} samples"
    )


if __name__ == "__main__":
    guarded(main)
