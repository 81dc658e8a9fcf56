"""Leaks between anybody's files: which training rows are about a problem that is held out or a public benchmark's.

Each side may be traces of any known format or problems (`query, reward`, and where there are `voucher`, `problem_id`,
`category`; one a line or one JSON list), in any mixture. Memory grows with the distinct problems and the ids of the
rows, never with the traces.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from oresmith.audit.filerows import FileRow, file_rows
from oresmith.errors import OresmithError
from oresmith.leakage import ClusterParams, KeyTable, Leak, Row, cluster, find_leaks
from oresmith.leakage.keys import Reading, read_problem
from oresmith.records import Problem, Record
from oresmith.traces.detect import KNOWN

GOLD_RECOMMENDED, GOLD_VIEWED = "gold_recommended", "gold_viewed"
"""Kinds beside those of `find_leaks`: a training trajectory has a held-out gold product as its answer, or views it."""
_PIECE = 4096


class Counted(Record, frozen=True):
    """What was read of one side."""

    rows: int
    problems: int
    """Distinct ones, the unknown left out."""
    unknown: int
    """Rows that state no problem at all, such as a crashed attempt: nobody can say what they leak."""
    unreadable: dict[str, int]
    """Reason -> lines that are neither a trace nor a problem."""


class SharedCluster(Record, frozen=True):
    """A cluster of problems that has rows on both sides."""

    cluster: str
    """Name of its first problem."""
    problems: int
    train: list[str]
    """Row ids, sorted, each once."""
    heldout: list[str]


class LeakReport(Record, frozen=True):
    """The result; its JSON form is `oresmith leakage check --json`."""

    leaks: list[Leak]
    """One for each training row, kind and value, against one held-out row that has it. Of the kinds of wording (query,
    base, tokens, wording) only the strictest is told; `chain` only of rows that share nothing directly."""
    counts: dict[str, int]
    """Kind -> leaks."""
    clusters: list[SharedCluster]
    viewed: list[Leak]
    """Training trajectories that view a held-out gold product without recommending it: worth a flag, but no leak."""
    read: dict[str, Counted]
    """By side: train, heldout."""


class _Side:
    """What is kept of one side."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = list(paths)
        self.rows = self.unknown = 0
        self.ids: dict[str, set[str]] = defaultdict(set)
        """Name of a known problem -> ids of its rows."""
        self.unreadable: Counter[str] = Counter()

    def read(self) -> Iterator[tuple[FileRow, Reading, bool]]:
        """Each row with its keys, and whether it is the first of its problem."""
        for row in file_rows(self.paths, self.unreadable):
            reading = read_problem(row.problem)
            self.rows += 1
            first = False
            if reading.query or reading.gold or reading.spec:
                ids = self.ids[reading.problem.hex()]
                first = not ids
                ids.add(row.row_id)
            else:
                self.unknown += 1
            yield row, reading, first

    def counted(self) -> Counted:
        """The figures, once everything is read. Raises OresmithError where nothing can be compared."""
        where = ", ".join(map(str, self.paths))
        if self.rows == self.unknown:
            counts = self.unreadable | ({"no problem stated": self.unknown} if self.unknown else {})
            raise OresmithError(
                "no row states a problem, so nothing can be checked",
                where=where,
                expected=f"problems (an object with a text `query`), or traces of one of: {KNOWN}",
                got=", ".join(f"{code} {count}" for code, count in sorted(counts.items())) or "no line at all",
            )
        unreadable = dict(sorted(self.unreadable.items()))
        return Counted(rows=self.rows, problems=len(self.ids), unknown=self.unknown, unreadable=unreadable)


def check_leaks(train: Iterable[Path], heldout: Iterable[Path], params: ClusterParams | None = None) -> LeakReport:
    """Find every training row whose problem, or whose answer, is held out.

    Args:
        train: files or directories of the training rows.
        heldout: those of the rows that must stay unseen; public benchmarks are more of the same.
        params: what joins two problems.

    Raises:
        OresmithError: a path that cannot be read, or a side of which no row states a problem.
    """
    held = _Heldout(_Side(heldout))
    used = _Training(_Side(train), held.golds)
    told = find_leaks(used.rows(), held.rows, params)
    read = {"train": used.side.counted(), "heldout": held.side.counted()}
    leaks = [msgspec.structs.replace(leak, train_id=row_id) for leak in told for row_id in used.side.ids[leak.train_id]]
    leaks = _sorted([*leaks, *used.recommended])
    return LeakReport(
        leaks=leaks,
        counts=dict(sorted(Counter(leak.kind for leak in leaks).items())),
        clusters=_shared_clusters(used, held, {leak.train_id for leak in told}, params),
        viewed=_sorted(used.viewed),
        read=read,
    )


class _Heldout:
    """The held-out side, read whole: one row a problem."""

    def __init__(self, side: _Side) -> None:
        self.side = side
        self.golds: dict[str, str] = {}
        """Gold product id -> least id of the rows that have it."""
        problems: dict[str, Problem] = {}
        readings: list[Reading] = []
        for row, reading, first in side.read():
            for gold in reading.gold_ids:
                self.golds[gold] = min(row.row_id, self.golds.get(gold, row.row_id))
            if first:
                problems[reading.problem.hex()] = row.problem
                readings.append(reading)
        side.counted()
        self.rows = [Row(min(side.ids[name]), problem) for name, problem in problems.items()]
        self.table = KeyTable.of(readings)


class _Training:
    """The training side, read once and in pieces; `find_leaks` sees one row a problem, by the problem's name."""

    def __init__(self, side: _Side, golds: dict[str, str]) -> None:
        self.side, self.golds = side, golds
        self.recommended: list[Leak] = []
        self.viewed: list[Leak] = []
        self._pieces: list[KeyTable] = []

    def rows(self) -> Iterator[Row]:
        waiting: list[Reading] = []
        for row, reading, first in self.side.read():
            self._note(row)
            if first:
                yield Row(reading.problem.hex(), row.problem)
                waiting.append(reading)
                if len(waiting) == _PIECE:
                    self._pieces.append(KeyTable.of(waiting))
                    waiting = []
        self._pieces.append(KeyTable.of(waiting))

    def _note(self, row: FileRow) -> None:
        recommended, viewed = row.products
        for kind, products, notes in (
            (GOLD_RECOMMENDED, recommended, self.recommended),
            (GOLD_VIEWED, viewed - recommended, self.viewed),
        ):
            for product in products & self.golds.keys():
                notes.append(Leak(kind=kind, train_id=row.row_id, heldout_id=self.golds[product], value=product))

    def table(self, names: set[str]) -> KeyTable:
        """The keys of the problems of these names."""
        whole = KeyTable.concat(self._pieces)
        return whole.take(
            np.array([place for place, name in enumerate(whole.names()) if name in names], dtype=np.int64)
        )


def _shared_clusters(
    used: _Training, held: _Heldout, leaking: set[str], params: ClusterParams | None
) -> list[SharedCluster]:
    """The clusters that hold rows of both sides. A training row of such a cluster always leaks, so the others are not
    clustered again."""
    unbounded = msgspec.structs.replace(params or ClusterParams(), largest_share=1.0)
    clusters = cluster(KeyTable.concat([used.table(leaking), held.table]), unbounded)
    found: list[SharedCluster] = []
    for cluster_id, members in clusters.members().items():
        train, heldout = (
            sorted({row_id for name in members for row_id in side.ids.get(name, ())}) for side in (used.side, held.side)
        )
        if train and heldout and not leaking.isdisjoint(members):
            found.append(SharedCluster(cluster=cluster_id, problems=len(members), train=train, heldout=heldout))
    return sorted(found, key=lambda one: one.cluster)


def _sorted(leaks: Iterable[Leak]) -> list[Leak]:
    return sorted(set(leaks), key=lambda leak: (leak.train_id, leak.kind, leak.value, leak.heldout_id))
