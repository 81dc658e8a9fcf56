"""Stage `bundle`: what is published, byte by byte: the dataset's and the model's repository, and the manifest of both.

Reads data/cards/, data/corpus/, data/audit/, data/validate/, data/score/*/, data/rollout/*/, data/lmeval/*/, the step
of the released model, metrics/compare.json, data/snapshots/*/, data/cluster/problems.parquet and releases/.
Writes data/bundle/ (dataset/, model/, release.json). A gate that fails is written into the manifest and stops nothing
here: `oresmith release cut` asks them all again.
Exit codes: 0, 2 for a refusal.
Example: python -m stages.bundle
"""

from __future__ import annotations

from pathlib import Path

from oresmith.blocks.atomic import stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.errors import OresmithError
from oresmith.frozen import read_frozen
from oresmith.params import Params, load_params
from oresmith.release.bundle import make_bundle, report
from oresmith.release.layout import BUNDLE
from oresmith.release.manifest import RELEASE_SCHEMA, Release
from oresmith.stage import DATA, guarded


def run(params: Params) -> Release:
    """Put the bundle together and publish it whole."""
    with stage_output(BUNDLE, "bundle", schema=RELEASE_SCHEMA, observed=DATA / "observed" / "bundle.json") as staged:
        return make_bundle(params, staged.path, catalogue_of=catalogue_of)


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
    """Check all parameters, then make the bundle."""
    end_with_parent()
    print(report(run(load_params())))


if __name__ == "__main__":
    guarded(main)
