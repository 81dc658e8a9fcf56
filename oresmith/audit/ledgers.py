"""The ledger beside a release: what was read, what this release adds, and how each release continues the one before."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from oresmith.errors import OresmithError
from oresmith.leakage import LedgerLine, read_ledger
from oresmith.leakage.ledger import BENCHMARK, check_ledger, version

BEFORE_FILE, NEXT_FILE = "certificate/ledger.jsonl", "certificate/ledger.next.jsonl"


class Ledgers(NamedTuple):
    """The lines of earlier releases and those of this one, with their bytes."""

    release: str
    before: list[LedgerLine]
    before_bytes: bytes
    added: list[LedgerLine]
    added_bytes: bytes

    @property
    def lines(self) -> list[LedgerLine]:
        """All lines in order."""
        return self.before + self.added


def load_ledgers(ledger: Path, added: Path, release: str) -> Ledgers:
    """Read the ledger and the lines that a release adds.

    Args:
        ledger: `releases/ledger.jsonl`; need not exist. Lines of this release and later ones are cut off, so that an
            audit of an old release reads what it read then.
        added: `ledger.next.jsonl`.
        release: X.Y.Z.

    Raises:
        OresmithError: a file that cannot be read, lines of another release among those added, or lines that contradict
            each other, naming file and line.
    """
    now = version(release)
    lines = read_ledger(ledger)
    earlier = sum(version(line.release) < now for line in lines)
    raw = b"".join(ledger.read_bytes().splitlines(keepends=True)[:earlier]) if earlier else b""
    fresh = read_ledger(added)
    for number, line in enumerate(fresh, 1):
        if line.release != release:
            raise OresmithError(
                "a line of another release", where=f"{added}:{number}", expected=release, got=line.release[:80]
            )
    check_ledger([*lines[:earlier], *fresh], f"{ledger} with {added.name}")
    return Ledgers(release, lines[:earlier], raw, fresh, added.read_bytes() if fresh else b"")


def chain(ledgers: Ledgers) -> list[dict[str, Any]]:
    """For each release the sha256 of the whole ledger as it left it: a later release's ledger must begin with that."""
    texts = (ledgers.before_bytes + ledgers.added_bytes).splitlines(keepends=True)
    digest, found = hashlib.sha256(), list[dict[str, Any]]()
    for line, text in zip(ledgers.lines, texts, strict=True):
        digest.update(text)
        if not found or found[-1]["release"] != line.release:
            found.append({"release": line.release, "lines": 0, "problems": 0, "sha256": ""})
        found[-1]["lines"] += 1
        found[-1]["problems"] += len(line.problems)
        found[-1]["sha256"] = digest.hexdigest()
    return found


def cluster_hash(lines: list[LedgerLine]) -> str:
    """sha256 of the lines "problem TAB cluster TAB pool", one a problem, sorted."""
    rows = sorted(f"{keys.problem}\t{line.cluster}\t{line.place}\n" for line in lines for keys in line.problems)
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def benchmarks_of(line: LedgerLine) -> set[str]:
    """Names of the benchmarks whose problems a line holds, or touches where it is quarantined."""
    places = [pool for pool in (line.pool, *line.joined) if pool.startswith(BENCHMARK)]
    return {name for pool in places for name in pool[len(BENCHMARK) :].split("+")}
