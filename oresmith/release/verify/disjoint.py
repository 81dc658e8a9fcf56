"""Train, dev and held-out share no cluster, query or gold; nothing trained on recommends a held-out gold product.

The keys are derived here from the rows themselves, not read from the certificate: a release whose certificate was made
for other rows, or left out, is found as well.
"""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from oresmith.arena.scoring import recommended_ids
from oresmith.audit import tsv
from oresmith.audit.certificate import CONTAMINATION_FILE
from oresmith.evidence.structure import RECOMMEND
from oresmith.leakage import ProblemKeys, problem_keys
from oresmith.leakage.text import digest
from oresmith.records import Problem
from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.guarded import WHOLE_PROBLEM, Guarded, problem_of
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.rowsof import SIDES, WHOLE, DataFile, data_files, rows
from oresmith.release.verify.tools import recommendations

_LONGEST_KEPT = 10_000
_LET_PASS = ("allowed", "flagged")


def check(opened: Opened) -> Findings:
    """See the module."""
    dataset = opened.dataset
    guarded, passed = Guarded(dataset), _passed(dataset)
    clusters: dict[str, str] = {}
    count = 0
    for file in data_files(dataset, (*WHOLE, "grpo")):
        side = SIDES.get(file.split)
        if side is None:
            yield Finding(f"stands in a split {file.split}, which no such config has", file.name)
            continue
        for number, row in rows(file, _columns(file), RECOMMEND):
            count += 1
            item = str(row.get("row_id") or row["problem"])
            clusters.setdefault(str(row["cluster"]), side)
            if clusters[str(row["cluster"])] != side:
                yield Finding(f"its cluster {row['cluster']} is in train and in dev", file.name, number, item)
            keys = problem_keys(problem_of(row)) if file.config == "grpo" else _asked(row["query"])
            for (kind, value), place in guarded.shared(keys, str(row["cluster"]), side):
                if file.config == "grpo" or kind != "base":  # without its voucher nobody can tell a base query
                    yield Finding(
                        f"a row of {side} shares {kind} {value} with a problem of {place}", file.name, number, item
                    )
            if file.config != "grpo" and item not in passed:
                for product, place in _answers(row["messages"], guarded, side):
                    said = f"a row of {side} recommends product {product[:80]}, a gold product of {place}"
                    yield Finding(said, file.name, number, item)
    asked = yield from _once(dataset)
    against = f"{asked:,} held-out problems and {len(guarded.places):,} guarded keys"
    return f"{count:,} rows and problems of train and dev against {against}"


def _columns(file: DataFile) -> list[str]:
    return list(WHOLE_PROBLEM) if file.config == "grpo" else ["row_id", "problem", "cluster", "query", "messages"]


def _asked(query: object) -> ProblemKeys:
    """The keys that a query alone has."""
    text = query if isinstance(query, str) else ""
    return _kept(text) if len(text) <= _LONGEST_KEPT else problem_keys(Problem(query=text))


@lru_cache(maxsize=1 << 14)
def _kept(query: str) -> ProblemKeys:
    return problem_keys(Problem(query=query))


def _answers(messages: Any, guarded: Guarded, side: str) -> Iterator[tuple[str, str]]:
    """Guarded gold products that a dialogue recommends. The row's own problem is none of theirs: that is looked at."""
    for arguments in recommendations(messages or []):
        for product in recommended_ids(arguments.get("product_ids")):
            for place in sorted(guarded.places.get(("gold", digest(b"gold", product).hex()), ())):
                if side == "train" and not place.startswith("dev"):
                    yield product, place


def _passed(dataset: Path) -> set[str]:
    """Trajectories whose answer is known and let pass: their pool opened later, or the parameters allow it."""
    path = dataset / CONTAMINATION_FILE
    if not path.is_file():
        return set()
    with path.open(encoding="utf-8", errors="replace", newline="") as reader:
        lines = csv.DictReader(reader, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {
            tsv.uncell(line["id"])
            for line in lines
            if line.get("kind") == "gold_recommended" and line.get("action") in _LET_PASS and line.get("id")
        }


def _once(dataset: Path) -> Generator[Finding, None, int]:
    """No held-out problem stands twice, in whatever spelling: it would count twice in every score."""
    first: dict[str, str] = {}
    named: set[str] = set()
    for file in data_files(dataset, ("heldout_gold",)):
        for number, row in rows(file, WHOLE_PROBLEM):
            name, where = problem_keys(problem_of(row)).problem, f"{file.name}, row {number}"
            if name in first:
                said = f"is the same problem as {first[name]}, whatever the spelling"
                yield Finding(said, file.name, number, str(row["problem"]))
            first.setdefault(name, where)
            named.add(row["problem"])
    asked: set[str] = set()
    for file in data_files(dataset, ("heldout",)):
        for number, row in rows(file, ("problem",)):
            if row["problem"] in asked or row["problem"] not in named:
                said = "stands twice" if row["problem"] in asked else "has no row in heldout_gold"
                yield Finding(said, file.name, number, str(row["problem"]))
            asked.add(row["problem"])
    return len(first)
