"""Stage `snapshots`: freeze one source.

Reads the entry's path and its provenance file; copies trace files, problems, catalogue and judgements, hashing them.
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
from oresmith.params import Snapshot, load_params
from oresmith.sources import SNAPSHOT_SCHEMA, Frozen, freeze, open_source
from oresmith.stage import DATA, guarded, selected


def run(entry: Snapshot) -> Frozen:
    """Freeze the source of one entry and publish it whole."""
    source = open_source(entry)
    observed = DATA / "observed" / f"snapshots-{entry.name}.json"
    target = DATA / "snapshots" / entry.name
    with stage_output(target, f"snapshots-{entry.name}", schema=SNAPSHOT_SCHEMA, observed=observed) as staged:
        frozen = freeze(entry, source, staged.path)
        text = msgspec.json.format(msgspec.json.encode(frozen), indent=1) + b"\n"
        (staged.path / "snapshot.json").write_bytes(text)
    return frozen


def main() -> None:
    """Check all parameters, then freeze the snapshot that the command line names."""
    end_with_parent()
    parser = argparse.ArgumentParser(prog="python -m stages.snapshots", description=__doc__)
    for field in msgspec.structs.fields(Snapshot):
        # dvc.yaml passes the whole entry, so that a changed field runs the stage again; params.yaml is what is read.
        parser.add_argument(f"--{field.name}", required=field.name == "name")
    frozen = run(selected(load_params(), parser.parse_args().name))
    size = sum(file.bytes for file in frozen.files)
    print(f"snapshot {frozen.name}: {len(frozen.files)} trace files, {size:,} bytes; pin: sha256: {frozen.tree_sha256}")


if __name__ == "__main__":
    guarded(main)
