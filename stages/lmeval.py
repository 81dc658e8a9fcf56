"""Stage `lmeval`: lm-eval's tasks on one model: the next tool call under teacher forcing, bits per byte of English.

Reads the model, and data/corpus/ for the accepted trajectories of the pool.
Writes data/lmeval/NAME/ (results.json, samples.jsonl, cases.jsonl) and metrics/lmeval-NAME.json.
Exit codes: 0, 2 for a refusal (the extra `eval` is not installed, an unknown task, a model that cannot be loaded, a
server that does not answer). A pool without a case is no refusal: its task is skipped, and its figures are null.
Example: python -m stages.lmeval base
"""

from __future__ import annotations

import sys
from typing import Any

from oresmith.blocks.lifeline import end_with_parent
from oresmith.errors import OresmithError
from oresmith.evaluation.lmeval.measure import measure
from oresmith.params import Params, load_params
from oresmith.stage import DATA, guarded, write_metrics
from stages.rollout import model_directory, selected_model


def run(params: Params, name: str) -> dict[str, Any]:
    """Measure one model of the list and publish the results whole; returns them."""
    directory = model_directory(selected_model(params, name))
    if directory is None:
        raise OresmithError("the tokenizer of a served model is needed, too", where=f"params.yaml: models: {name}")
    results = measure(
        directory,
        DATA / "corpus",
        DATA / "lmeval" / name,
        name=name,
        settings=params.lmeval,
        observed=DATA / "observed" / f"lmeval-{name}.json",
    )
    write_metrics(f"lmeval-{name}", results)
    return results


def main() -> None:
    """Check all parameters, then measure the model that the command line names."""
    end_with_parent()
    if len(sys.argv) != 2:
        raise OresmithError("one argument is needed: the model's name", where=sys.argv[0], todo=(__doc__ or "").strip())
    for task, figures in run(load_params(), sys.argv[1])["tasks"].items():
        print(f"lmeval {sys.argv[1]}: {task}: {_line(figures)}")


def _line(figures: dict[str, Any]) -> str:
    if figures["skipped"]:
        return f"skipped: {figures['skipped']}"
    values = [(name, value) for name, value in figures.items() if isinstance(value, dict) and "method" in value]
    return ", ".join(
        f"{name} {value.get('share', value.get('value'))} [{value['low']}, {value['high']}]" for name, value in values
    )


if __name__ == "__main__":
    guarded(main)
