"""The ledger of pool assignments: append-only JSONL, one line for the problems that a release added to one cluster.

    {"schema": "oresmith.ledger/1", "keys": "oresmith.problem-keys/1", "release": "0.2.0", "cluster": <problem name>,
     "pool": "train", "category": "product", "problems": [<keys>, ..]}

`held_out` is the date of a held-out pool, `joined` the pools between which a quarantined problem stands, `aliases` the
ids of clusters that go by `cluster` from this release on. An assignment, once written, is never changed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from oresmith.errors import OresmithError
from oresmith.leakage.clusters import ClusterParams
from oresmith.leakage.keys import KEYS_VERSION, ProblemKeys
from oresmith.records import Record

LEDGER_SCHEMA = "oresmith.ledger/1"
TRAIN, DEV, HELDOUT, QUARANTINE, VAULT, BENCHMARK = "train", "dev", "heldout", "quarantine", "vault", "benchmark:"
_POOL = re.compile(r"train|dev|heldout|quarantine|benchmark:[A-Za-z0-9._+-]{1,400}")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_NAME = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")


class LedgerLine(Record, frozen=True, forbid_unknown_fields=True):
    """One line; see the module."""

    release: str
    cluster: str
    pool: str
    problems: tuple[ProblemKeys, ...]
    held_out: str | None = None
    category: str | None = None
    joined: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    keys: Literal["oresmith.problem-keys/1"] = "oresmith.problem-keys/1"
    schema: Literal["oresmith.ledger/1"] = "oresmith.ledger/1"

    @property
    def place(self) -> str:
        """The pool with its date; see `place_of`."""
        return place_of(self.pool, self.held_out)


def place_of(pool: str, held_out: str | None) -> str:
    """The pool with its date: held-out pools of two dates are two pools."""
    return f"{pool}@{held_out}" if held_out else pool


def version(release: str) -> tuple[int, int, int]:
    """The order of a release "X.Y.Z". Errors: OresmithError for any other text."""
    match = _VERSION.fullmatch(release)
    if match is None:
        raise OresmithError("not a release version", expected="X.Y.Z", got=release[:80])
    return int(match[1]), int(match[2]), int(match[3])


def read_ledger(path: str | Path) -> list[LedgerLine]:
    """Read and check a ledger; a file that is not there is an empty one.

    Errors: OresmithError naming file and line where a line cannot be read, a release goes backwards, a problem or a
    cluster stands in two pools, or keys are of another version.
    """
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OresmithError("the ledger cannot be read", where=str(path), got=str(error)) from error
    if raw and not raw.endswith(b"\n"):
        raise OresmithError("the ledger's last line is torn", where=str(path), todo="restore it from version control")
    lines = [_decode(text, f"{path}:{number}") for number, text in enumerate(raw.split(b"\n")[:-1], 1)]
    check_ledger(lines, str(path))
    return lines


def check_ledger(lines: Iterable[LedgerLine], where: str = "ledger") -> None:
    """Refuse a ledger that contradicts itself. Errors: as `read_ledger`; lines are counted from 1."""
    problem_at: dict[str, tuple[int, LedgerLine]] = {}
    cluster_at: dict[str, tuple[int, LedgerLine]] = {}
    latest = (0, 0, 0)
    for number, line in enumerate(lines, 1):
        here = f"{where}:{number}"
        release = _checked(line, here)
        if release < latest:
            raise _conflict("a release stands behind a later one", here, line.release)
        latest = release
        if line.pool != QUARANTINE:
            first, known = cluster_at.setdefault(line.cluster, (number, line))
            if known.place != line.place:
                raise _conflict(
                    f"a cluster is in {known.place} by line {first} and in {line.place}", here, line.cluster
                )
        for keys in line.problems:
            first, known = problem_at.setdefault(keys.problem, (number, line))
            if known != line:
                raise _conflict(f"a problem of line {first} is assigned again", here, keys.problem)


def earlier_lines(lines: Iterable[LedgerLine], release: str) -> list[LedgerLine]:
    """The lines that a release may read: those of earlier releases, so that a rebuild of N gives N's assignments."""
    now = version(release)
    return [line for line in lines if version(line.release) < now]


class Decided:
    """What earlier releases decided, by problem and by everything that can lead a problem to a cluster of theirs."""

    def __init__(self, lines: Iterable[LedgerLine], params: ClusterParams) -> None:
        self.of_problem: dict[str, LedgerLine] = {}
        self._by_key: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._params = params
        for line in lines:
            reached = {line.place, *line.joined}
            self._by_key["cluster", line.cluster] |= reached
            for keys in line.problems:
                self.of_problem[keys.problem] = line
                for key in key_pairs(keys, params):
                    self._by_key[key] |= reached

    def places(self, cluster_ids: Iterable[str], members: Iterable[ProblemKeys]) -> set[str]:
        """Every pool that a cluster reaches, through its ids and through any key of its problems."""
        keys = [("cluster", cluster_id) for cluster_id in cluster_ids]
        keys += [key for member in members for key in key_pairs(member, self._params)]
        return {place for key in keys for place in self._by_key.get(key, ())}


def key_pairs(keys: ProblemKeys, params: ClusterParams) -> Iterator[tuple[str, str]]:
    """(kind, key) of everything that joins a problem to an equal one."""
    yield "problem", keys.problem
    for kind, key in (("query", keys.query), ("base", keys.base), ("tokens", keys.tokens)):
        if key:
            yield kind, key
    for gold in keys.gold:
        yield "gold", gold
    if keys.spec and states_enough(keys, params):
        yield "spec", keys.spec


def states_enough(keys: ProblemKeys, params: ClusterParams) -> bool:
    """Whether a problem's specification states enough to be a key."""
    return keys.constraints >= params.min_constraints and keys.pairs >= params.min_pairs


def encode_ledger(lines: Iterable[LedgerLine]) -> bytes:
    """The lines as they stand in the file, in the given order."""
    encoder = msgspec.json.Encoder(order="deterministic")
    return b"".join(encoder.encode(_plain(line)) + b"\n" for line in lines)


def _plain(line: LedgerLine) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(line)
    return found | {"keys": line.keys, "schema": line.schema}


def _decode(text: bytes, where: str) -> LedgerLine:
    try:
        return msgspec.json.decode(text, type=LedgerLine)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise OresmithError(
            "a ledger line cannot be read",
            where=where,
            expected=f"one {LEDGER_SCHEMA} object with keys of {KEYS_VERSION}",
            got=str(error)[:200],
            todo="restore the ledger from version control; it is only ever appended to",
        ) from error


def _checked(line: LedgerLine, where: str) -> tuple[int, int, int]:
    names = [line.cluster, *line.aliases, *(keys.problem for keys in line.problems)]
    dated = line.pool == HELDOUT
    faults = {
        "no such pool": _POOL.fullmatch(line.pool) is None,
        "a held-out pool needs a date, and no other has one": dated
        != (DATE.fullmatch(line.held_out or "") is not None),
        "no problem": not line.problems,
        "not the name of a problem": any(_NAME.fullmatch(name) is None for name in names),
    }
    for fault, found in faults.items():
        if found:
            raise OresmithError(f"a ledger line is wrong: {fault}", where=where, got=line.place[:80])
    return version(line.release)


def _conflict(what: str, where: str, got: str) -> OresmithError:
    return OresmithError(
        f"the ledger contradicts itself: {what}",
        where=where,
        got=got,
        todo="restore the ledger from version control; it is only ever appended to",
    )
