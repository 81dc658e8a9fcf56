"""Stage `snapshots`: freeze one source.

Reads the entry's path and its provenance file; copies trace files and what is declared beside them, hashing all. A
source `arena` is played first: same entry, same bytes.
Writes data/snapshots/NAME/ (docs/formats.md).
Exit codes: 0, 2 for a refusal (missing path, empty source, wrong provenance file, a pin that does not match).
Example: python -m stages.snapshots --name demo --source files --path snapshots/demo \\
    --provenance snapshots/demo/provenance.yaml
"""

from __future__ import annotations

import argparse

import msgspec

from oresmith.blocks.atomic import stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.frozen import SNAPSHOT_SCHEMA, Frozen
from oresmith.param_data import Snapshot
from oresmith.params import Params, load_params
from oresmith.sources import freeze, open_source
from oresmith.stage import DATA, guarded, selected, workers


def run(params: Params, entry: Snapshot) -> Frozen:
    """Freeze the source of one entry and publish it whole."""
    observed = DATA / "observed" / f"snapshots-{entry.name}.json"
    target = DATA / "snapshots" / entry.name
    with stage_output(target, f"snapshots-{entry.name}", schema=SNAPSHOT_SCHEMA, observed=observed) as staged:
        source = open_source(entry, staged.scratch, workers(params))
        frozen = freeze(entry, source, staged.path)
        text = msgspec.json.format(msgspec.json.encode(frozen), indent=1) + b"\n"
        (staged.path / "snapshot.json").write_bytes(text)
    return frozen


def main() -> None:
    """Check all parameters, then freeze the snapshot that the command line names."""
    end_with_parent()
    parser = argparse.ArgumentParser(prog="python -m stages.snapshots", description=__doc__, allow_abbrev=False)
    parser.add_argument("--name", required=True)
    # dvc.yaml passes the whole entry, so that a changed field runs the stage again; params.yaml is what is read.
    arguments, _ = parser.parse_known_args()
    params = load_params()
    frozen = run(params, selected(params, arguments.name))
    size = sum(file.bytes for file in frozen.files)
    print(f"snapshot {frozen.name}: {len(frozen.files)} trace files, {size:,} bytes; pin: sha256: {frozen.tree_sha256}")


if __name__ == "__main__":
    guarded(main)
