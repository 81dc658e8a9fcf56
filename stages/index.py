"""Stage `index`: the search over one snapshot's catalogue, which rollouts shop in.

Reads the catalogue of data/snapshots/NAME/.
Writes data/index/NAME/ (index.json and, where the snapshot has a catalogue, the tantivy index in catalogue/).
Exit codes: 0, 2 for a refusal (an unreadable catalogue, two products of one id, disk full).
Example: python -m stages.index demo
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from oresmith.arena.documents import Reading, read_documents
from oresmith.arena.search import build_index
from oresmith.blocks.atomic import stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.frozen import read_frozen
from oresmith.params import Params, load_params
from oresmith.stage import DATA, argument, guarded, selected

SNAPSHOT_INDEX_SCHEMA = "oresmith.snapshot-index/1"


class Indexed(msgspec.Struct):
    """What became of the catalogue; `index.json` of the output."""

    snapshot: str
    documents: int = 0
    """0 for a snapshot without a catalogue, whose problems cannot be played."""
    catalogue_sha256: str | None = None
    rejected: dict[str, int] = {}
    """Lines that are no product, by reason; the arena's reader passes over them."""


def run(params: Params, name: str) -> Indexed:
    """Index the catalogue of one snapshot and publish it whole."""
    observed = DATA / "observed" / f"index-{selected(params, name).name}.json"
    with stage_output(
        DATA / "index" / name, f"index-{name}", schema=SNAPSHOT_INDEX_SCHEMA, observed=observed
    ) as staged:
        stored = read_frozen(DATA / "snapshots" / name).catalogue
        catalogue = DATA / "snapshots" / name / stored.stored if stored else None
        found = _index(name, catalogue, staged.path / "catalogue")
        text = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"
        (staged.path / "index.json").write_bytes(text)
    return found


def _index(name: str, catalogue: Path | None, target: Path) -> Indexed:
    if catalogue is None:
        return Indexed(name)
    reading = Reading()
    made = build_index(read_documents(catalogue, reading=reading), target)
    return Indexed(name, made.documents, made.catalogue_sha256, dict(sorted(reading.rejected.items())))


def main() -> None:
    """Check all parameters, then index the catalogue of the snapshot that the command line names."""
    end_with_parent()
    found = run(load_params(), argument(sys.argv, __doc__))
    counted = "".join(f", {count:,} lines {reason}" for reason, count in found.rejected.items())
    print(f"index {found.snapshot}: {found.documents:,} products{counted}")


if __name__ == "__main__":
    guarded(main)
