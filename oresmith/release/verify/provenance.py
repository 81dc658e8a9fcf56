"""Every row says where it comes from, its outcome, its judge and its licence; something says which agent and run."""

from __future__ import annotations

from collections import Counter

from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.rowsof import WHOLE, data_files, rows

NEEDED = ("snapshot", "file", "line", "licence", "outcome", "outcome_source", "judge_status", "origin", "format")
"""Columns that no row is without."""
DECLARED = ("agent_version", "run_id", "validator", "race_id")
"""Null where a source does not declare it; a release in which no row has any cannot be traced to anybody."""


def check(opened: Opened) -> Findings:
    """See the module."""
    count = 0
    stated: Counter[str] = Counter()
    for file in data_files(opened.dataset, WHOLE):
        for number, row in rows(file, ("row_id", *NEEDED, *DECLARED)):
            count += 1
            missing = [name for name in NEEDED if row[name] in (None, "")]
            if missing:
                yield Finding(f"the row does not state its {', '.join(missing)}", file.name, number, str(row["row_id"]))
            if row["outcome_source"] == "none" and row["outcome"] != "unknown":
                yield Finding("the outcome comes from nowhere", file.name, number, str(row["row_id"]))
            stated.update(name for name in DECLARED if row[name])
    if count and not stated:
        yield Finding(f"no row says its {', '.join(DECLARED)}: the rows have no provenance", "trajectories/")
    return f"{count:,} rows; " + ", ".join(f"{name} of {stated[name]:,}" for name in DECLARED)
