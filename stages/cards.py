"""Stage `cards`: the cards of the release, each number of them with the file and key that it comes from.

Reads data/validate/, data/audit/, data/corpus/, data/rollout/*/, data/score/*/, data/lmeval/*/, metrics/compare.json,
data/snapshots/*/snapshot.json, the steps that made the released model, and earlier releases' changelogs.
Writes data/cards/: dataset.md, model.md, changelog.md, report.html, figures/, croissant.json, provenance.json,
numbers.json and eval_results/. Every number is computed again from its file before anything is published.
Exit codes: 0, 2 for a refusal (a stage that has not run, a missing package, a number without a source).
Example: python -m stages.cards
"""

from __future__ import annotations

from oresmith.blocks.atomic import stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.params import Params, load_params
from oresmith.release.cards.make import make_cards
from oresmith.release.layout import CARDS
from oresmith.stage import DATA, guarded

CARDS_SCHEMA = "oresmith.cards/1"


def run(params: Params) -> int:
    """Make the cards; gives how many numbers stand on them."""
    observed = DATA / "observed" / "cards.json"
    with stage_output(CARDS, "cards", schema=CARDS_SCHEMA, observed=observed) as staged:
        return len(make_cards(params, staged.path))


def main() -> None:
    """Check all parameters, then make the cards."""
    end_with_parent()
    print(f"cards: {run(load_params())} numbers, each with its source")


if __name__ == "__main__":
    guarded(main)
