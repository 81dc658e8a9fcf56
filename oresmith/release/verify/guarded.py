"""What training must not share: the keys of held-out problems and guarded benchmarks, from the ledger and the golds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from oresmith.audit.certificate import CERTIFICATE_FILE
from oresmith.audit.claims import guarded_places, key_values
from oresmith.audit.ledgers import BEFORE_FILE, NEXT_FILE
from oresmith.leakage import ClusterParams, ProblemKeys, problem_keys, read_ledger
from oresmith.records import Problem
from oresmith.release.verify.rowsof import data_files, rows

Key = tuple[str, str]
"""Kind (cluster, query, base, tokens, gold, spec) and value."""
WHOLE_PROBLEM = ("problem", "problem_id", "cluster", "category", "query", "reward", "voucher")


class Guarded:
    """Guarded places by key.

    Args:
        dataset: its folder; a ledger that is not there guards nothing, and the check of the certificate says so.
    """

    def __init__(self, dataset: Path) -> None:
        self.params, allowed = _stated(dataset)
        self.places: dict[Key, set[str]] = {}
        for name in (BEFORE_FILE, NEXT_FILE):
            for line in read_ledger(dataset / name):
                for place in guarded_places(line, allowed):
                    for keys in line.problems:
                        self._add(keys, line.cluster, place)
        for file in data_files(dataset, ("heldout_gold",)):
            for _, row in rows(file, (*WHOLE_PROBLEM, "held_out")):
                self._add(problem_keys(problem_of(row)), str(row["cluster"]), f"heldout@{row['held_out']}")

    def _add(self, keys: ProblemKeys, cluster: str, place: str) -> None:
        for key in key_values(keys, cluster, self.params):
            self.places.setdefault(key, set()).add(place)

    def shared(self, keys: ProblemKeys, cluster: str, side: str) -> Iterator[tuple[Key, str]]:
        """What a problem of a side shares with a guarded place: dev may share with benchmarks and itself.

        Args:
            keys: of the problem, as far as they are known.
            cluster: its leak cluster.
            side: train or dev.
        """
        for key in key_values(keys, cluster, self.params):
            for place in sorted(self.places.get(key, ())):
                if side == "train" or place.startswith("heldout"):
                    yield key, place


def problem_of(row: dict[str, Any]) -> Problem:
    """The problem of a row with the columns `WHOLE_PROBLEM`. Errors: msgspec's for a reward that is no JSON."""
    reward, voucher = (None if row[name] is None else msgspec.json.decode(row[name]) for name in ("reward", "voucher"))
    return Problem(
        problem_id=row["problem_id"], query=row["query"], category=row["category"], reward=reward, voucher=voucher
    )


def _stated(dataset: Path) -> tuple[ClusterParams, frozenset[str]]:
    path = dataset / CERTIFICATE_FILE
    if not path.is_file():
        return ClusterParams(), frozenset()
    certificate: Any = msgspec.json.decode(path.read_bytes())
    least = certificate["keys"]
    allowed = frozenset(name for name, stated in certificate["benchmarks"].items() if stated["allowed"])
    return ClusterParams(min_constraints=least["min_constraints"], min_pairs=least["min_pairs"]), allowed
