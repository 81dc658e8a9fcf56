"""Stage `score`: the rollouts of one model by the strict scorer, without generating anything again.

Reads data/rollout/NAME/, data/cluster/problems.parquet and the catalogues of data/snapshots/*/.
Writes data/score/NAME/ (rows.parquet, scores.json) and metrics/score-NAME.json.
Exit codes: 0, 2 for a refusal (rollouts that are not whole, other problems, a catalogue without gold products).
Example: python -m stages.score base
"""

from __future__ import annotations

import sys
from pathlib import Path

from oresmith.arena.titles import titling
from oresmith.blocks.lifeline import end_with_parent
from oresmith.errors import OresmithError
from oresmith.evaluation.scored import Scored, open_rollouts, publish_scores, score_rollouts
from oresmith.evaluation.shown import metrics, print_scores
from oresmith.evaluation.suite import cases_of_table
from oresmith.frozen import read_frozen
from oresmith.params import Params, load_params
from oresmith.stage import DATA, guarded, workers, write_metrics


def run(params: Params, name: str) -> Scored:
    """Score the rollouts of one model and publish the scores whole."""
    wish = titling(params.score.title_model, params.score.title_min, "score.title_model")
    rollouts = open_rollouts(DATA / "rollout" / name)
    if rollouts.configuration is None:
        raise OresmithError("there are no rollouts", where=str(DATA / "rollout" / name), todo="run the stage `rollout`")
    scored = score_rollouts(
        rollouts,
        lambda names: cases_of_table(DATA / "cluster" / "problems.parquet", names),
        catalogue_of,
        titling=wish,
        workers=workers(params),
    )
    publish_scores(
        scored, DATA / "score" / name, lock=f"score-{name}", observed=DATA / "observed" / f"score-{name}.json"
    )
    write_metrics(f"score-{name}", metrics(scored.scores))
    return scored


def catalogue_of(snapshot: str) -> Path:
    """The product documents of a snapshot.

    Raises:
        OresmithError: it has none.
    """
    folder = DATA / "snapshots" / snapshot
    stored = read_frozen(folder).catalogue
    if stored is None:
        raise OresmithError("the snapshot has no catalogue", where=str(folder))
    return folder / stored.stored


def main() -> None:
    """Check all parameters, then score the model that the command line names."""
    end_with_parent()
    if len(sys.argv) != 2:
        raise OresmithError("one argument is needed: the model's name", where=sys.argv[0], todo=(__doc__ or "").strip())
    print_scores(run(load_params(), sys.argv[1]).scores)


if __name__ == "__main__":
    guarded(main)
