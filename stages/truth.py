"""Stage `truth`: what the pipeline found, held against what an arena planted. A snapshot without truth is not judged.

Reads the truth of data/snapshots/*/, data/evidence/*/table/, data/gate/, data/cluster/ and data/split/.
Writes data/truth/ (truth.json, misses.jsonl: every miss by its place) and metrics/truth.json.
Exit codes: 0, 2 for a refusal, and where a figure does not keep to the limits of the parameters; everything is written
before, so that the misses can be read.
Example: python -m stages.truth
"""

from __future__ import annotations

import msgspec

from oresmith.audit.truth import TRUTHS_SCHEMA, Truths, report
from oresmith.audit.truth_shown import broken, print_truths
from oresmith.blocks.atomic import stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.errors import OresmithError
from oresmith.params import Params, load_params
from oresmith.stage import DATA, builtins, guarded, write_metrics


def run(params: Params) -> Truths:
    """Compare, publish whole, and only then hold the figures against the limits.

    Raises:
        OresmithError: naming each figure that does not keep to its limit.
    """
    found = report(DATA, [entry.name for entry in params.snapshots])
    with stage_output(
        DATA / "truth",
        "truth",
        schema=TRUTHS_SCHEMA,
        params=builtins(params.truth),
        observed=DATA / "observed" / "truth.json",
    ) as staged:
        encode = msgspec.json.encode
        told = msgspec.structs.replace(found, misses={})
        counts = {kind: listed.count for kind, listed in found.misses.items()}
        text = msgspec.json.format(encode(builtins(told) | {"misses": counts}), indent=1)
        (staged.path / "truth.json").write_bytes(text + b"\n")
        with (staged.path / "misses.jsonl").open("wb") as writer:
            for kind, listed in found.misses.items():
                writer.writelines(encode({"kind": kind, **builtins(miss)}) + b"\n" for miss in listed.misses)
    write_metrics("truth", builtins(told) | {"misses": counts})
    print_truths(found)
    faults = broken(found.figures, params.truth)
    if faults:
        raise OresmithError(
            "the findings do not keep to the limits",
            where=str(DATA / "truth"),
            got="; ".join(faults),
            expected="the limits of the parameters `truth`",
            todo="see misses.jsonl there for the places",
        )
    return found


def main() -> None:
    """Check all parameters, then compare."""
    end_with_parent()
    run(load_params())


if __name__ == "__main__":
    guarded(main)
