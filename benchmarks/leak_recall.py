"""Recall of `oresmith leakage check` on planted leaks, kind by kind: measured, not claimed.

`python -m benchmarks.leak_recall [--problems N]` plants leaks of N synthetic held-out problems, and of ShoppingBench's
test problems where ../shared/data has them, into training files that hold none.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.leak_world import base_problem
from benchmarks.measure import Section, Settings
from oresmith.leakcheck import LeakReport, check_leaks
from tests.planter import FREE, KEYED, TRACED, plant, recall

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "shoppingbench"


def synthetic(first: int, count: int) -> list[dict[str, Any]]:
    """Problems of a synthetic world, no two of one family."""
    return [msgspec.to_builtins(base_problem(family, 3)) for family in range(first, first + count)]


def real() -> list[dict[str, Any]]:
    """ShoppingBench's test problems with a shopping reward; none where the files are not at hand."""
    paths = [REAL / f"synthesize_{kind}_test.jsonl" for kind in ("product", "shop", "voucher")]
    return [json.loads(line) for path in paths if path.is_file() for line in path.read_text("utf-8").splitlines()]


def measured(
    heldout: list[dict[str, Any]], folder: Path, *, traces: bool
) -> tuple[dict[str, tuple[int, int]], LeakReport]:
    """Plant leaks of every kind for these problems, look for them, and count.

    Returns:
        Kind -> (found, planted), and the report; rows that leak and were not planted are false alarms.
    """
    train = (json.dumps(row) for row in synthetic(10**6, 1000))
    kinds = TRACED if traces else (*KEYED, *FREE)
    planted = plant(heldout, train, folder / "train.jsonl", kinds, traces=traces)
    (folder / "heldout.jsonl").write_text("".join(json.dumps(row) + "\n" for row in heldout), "utf-8")
    report = check_leaks([folder / "train.jsonl"], [folder / "heldout.jsonl"])
    return recall(planted, {leak.train_id for leak in report.leaks}), report


def rows(count: int) -> Iterator[tuple[str, str, int, int]]:
    """(held-out problems, form and kind of the leaks, found, planted); a last one counts false alarms."""
    for name, heldout in (("synthetic", synthetic(0, count)), ("ShoppingBench", real())):
        for form in ("problems", "traces") if heldout else ():
            with tempfile.TemporaryDirectory() as folder:
                found, report = measured(heldout, Path(folder), traces=form == "traces")
            for kind, (hits, total) in found.items():
                yield name, f"{form}: {kind}", hits, total
            honest = {leak.train_id for leak in report.leaks if not leak.train_id.startswith("planted-")}
            yield name, f"{form}: false alarms", len(honest), 1000


def bench(settings: Settings) -> Section:
    """The table of `make bench`."""
    found = list(rows(500))
    return Section(
        title="Recall of planted leaks",
        columns=("held-out problems", "planted", "found", "of", "share"),
        rows=[(name, kind, str(hits), str(total), f"{hits / total:.3f}") for name, kind, hits, total in found],
        numbers={f"{name} {kind}": round(hits / total, 4) for name, kind, hits, total in found},
        notes=["paraphrase, translation and units have no key: what is found of them is near wording"],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=500)
    for line in rows(parser.parse_args().problems):
        print(*line, f"{line[2] / line[3]:.3f}", sep="\t")
