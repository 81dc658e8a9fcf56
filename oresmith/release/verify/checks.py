"""The checks of a release, one file each, and their table. A stranger reads it from top to bottom."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from oresmith.errors import OresmithError
from oresmith.evaluation.workers import in_order
from oresmith.release.layout import DATASET
from oresmith.release.verify import (
    cards,
    certificate,
    contracts,
    disjoint,
    funnel,
    hashes,
    loading,
    model,
    provenance,
    scores,
    signature,
    tools,
)
from oresmith.release.verify.found import Finding, Findings, NotComputedError, Report, Result, State, of_error
from oresmith.release.verify.hashes import version_of
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.rowsof import data_files

MOST = 20
"""Findings that are listed of one check."""
COUNTED = 10_000
"""Findings after which a check ends."""
LARGE_BYTES = 64 * 2**20
"""Of Parquet; less is read sooner than other processes have begun."""
MOST_WORKERS = 4
SLOWEST = ("certificate", "contracts")
"""Made first, so that the others fill the time beside them."""


class Check(NamedTuple):
    """One line of the table."""

    name: str
    proves: str
    run: Callable[[Opened], Findings]


CHECKS = (
    Check("hashes", "every file is the one that release.json lists, and there is no other", hashes.check),
    Check("signature", "release.json is signed by whom you named", signature.check),
    Check("model", "the model is safetensors, JSON and text: nothing in it can run", model.check),
    Check("loading", "the card gives each config its own files, and no others", loading.check),
    Check("contracts", "every row keeps the contract of its config", contracts.check),
    Check("funnel", "every line that was read is published, withheld or rejected for a reason", funnel.check),
    Check("certificate", "rows, keys, ledger and claims are as certified", certificate.check),
    Check(
        "disjoint",
        "train, dev and held-out share no cluster, query or gold, and no problem stands twice",
        disjoint.check,
    ),
    Check("provenance", "every row says where it comes from, its outcome and its licence", provenance.check),
    Check("tools", "tools are nested, and every call fits the definition beside it", tools.check),
    Check("cards", "every number of the cards follows from the file that it names", cards.check),
    Check(
        "scores", "the scores follow from the published rollouts, with intervals, on the same problems", scores.check
    ),
)


def verify(opened: Opened, tell: Callable[[Result], None] = lambda result: None, workers: int | None = None) -> Report:
    """Make every check. Nothing of the release is executed, and no path comes from its data.

    Args:
        opened: as `source.open_source` gives it.
        tell: takes each result as soon as it is there.
        workers: processes; by default as many as there are cores for a large release, else this one alone.
    """
    names = sorted((check.name for check in CHECKS), key=lambda name: name not in SLOWEST)
    made: dict[str, Result] = {}
    for result in in_order(partial(_made, opened), names, _workers(opened) if workers is None else workers):
        made[result.name] = result
        tell(result)
    results = tuple(made[check.name] for check in CHECKS)
    return Report(opened.source, opened.kind, version_of(opened), opened.yanked, results)


def _workers(opened: Opened) -> int:
    folder = opened.folders.get(DATASET)
    size = sum(file.path.stat().st_size for file in data_files(folder)) if folder else 0
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS) if size > LARGE_BYTES else 1


class _Run:
    """A check under way; what its reader cannot read is a finding, too."""

    def __init__(self, findings: Findings) -> None:
        self.findings, self.said = findings, ""

    def __iter__(self) -> Iterator[Finding]:
        try:
            self.said = yield from self.findings
        except OresmithError as error:
            yield of_error(error)
        except NotComputedError:
            raise
        except Exception as error:  # what a hostile file makes a reader raise is a fault of the file
            yield Finding(f"cannot be checked: {error!r}"[:500])


def _made(opened: Opened, name: str) -> Result:
    check = next(check for check in CHECKS if check.name == name)
    run, listed, count = _Run(check.run(opened)), list[Finding](), 0
    try:
        for count, finding in enumerate(islice(run, COUNTED), 1):
            if count <= MOST:
                listed.append(finding)
    except NotComputedError as error:
        run.said = str(error)
        if not listed:
            return Result(check.name, check.proves, "not computed", run.said)
    state: State = "failed" if listed else "ok"
    return Result(check.name, check.proves, state, run.said, tuple(listed), max(count - MOST, 0))
