"""`certificate/keys.tsv`: one line a row of the corpus, with the row's hash and its problem's keys, cluster and pool.

The problem's part comes from the ledger, which is published with it; so whoever has the folder can make the table anew
from the Parquet files (`oresmith verify`), and check it against the ledger with the standard library alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from oresmith.audit import tsv
from oresmith.audit.rows import REJECTS, ShardRow
from oresmith.errors import OresmithError
from oresmith.leakage import ClusterParams, LedgerLine, ProblemKeys
from oresmith.leakage.ledger import QUARANTINE, states_enough

KEYS_FILE = "certificate/keys.tsv"


class KeysRow(NamedTuple):
    """One line; the fields are the columns."""

    row_id: str
    """Names the row in its config: `row_id`, the problem's name, or `snapshot/file:line` of a reject."""
    config: str
    shard: str
    row_sha256: str
    problem: str = ""
    """Name of the problem; a reject has none, and no keys."""
    query_key: str = ""
    base_key: str = ""
    tokens_key: str = ""
    gold_keys: str = ""
    """Joined by commas."""
    spec_key: str = ""
    """Only where the specification states enough to be a key."""
    cluster: str = ""
    pool: str = ""
    """A held-out pool with its date: `heldout@2026-05-01`."""


class Known(NamedTuple):
    """What the ledger says of a problem."""

    keys: ProblemKeys
    cluster: str
    pool: str


Catalog = Mapping[str, Known]


def catalog(lines: Iterable[LedgerLine]) -> dict[str, Known]:
    """What the ledger says of each of its problems, by name."""
    return {keys.problem: Known(keys, line.cluster, line.place) for line in lines for keys in line.problems}


class KeysMaker:
    """Makes the table's lines from rows; keeps the problem of each trajectory that it has seen.

    Args:
        known: the ledger.
        params: which specifications are keys.
        problem_of: the problem of a row, by its id, for rows that neither state it nor are a view of one that does.
    """

    def __init__(self, known: Catalog, params: ClusterParams, problem_of: Callable[[str], str | None]) -> None:
        self._known, self._params, self._problem_of = known, params, problem_of
        self._seen: dict[str, str] = {}

    def row(self, row: ShardRow) -> KeysRow:
        """The line of a row; give `trajectories` before their views.

        Raises:
            OresmithError: naming file and row, where the row has no id or problem, or the ledger does not know the
                problem or says otherwise of it than the row does.
        """
        config, values = row.shard.config, row.values
        where = f"{row.shard.path}: row {row.number}"
        if config == REJECTS:
            return KeysRow(reject_id(values), config, row.shard.name, row.sha256)
        row_id = values.get("row_id") or values.get("problem")
        if not isinstance(row_id, str):
            raise OresmithError("a row has no id", where=where, expected="`row_id` or `problem`")
        problem = values.get("problem") or self._seen.get(row_id) or self._problem_of(row_id)
        known = self._known.get(str(problem))
        if known is None or known.pool == QUARANTINE:
            raise OresmithError(
                "the ledger assigns this row's problem to no pool that is published",
                where=where,
                got=f"problem {str(problem)[:64]}: {known.pool if known else 'not in the ledger'}",
            )
        self._seen.setdefault(row_id, known.keys.problem)
        _check_stated(row, known, where)
        keys = known.keys
        return KeysRow(
            row_id=row_id,
            config=config,
            shard=row.shard.name,
            row_sha256=row.sha256,
            problem=keys.problem,
            query_key=keys.query,
            base_key=keys.base,
            tokens_key=keys.tokens,
            gold_keys=",".join(keys.gold),
            spec_key=keys.spec if states_enough(keys, self._params) else "",
            cluster=known.cluster,
            pool=known.pool,
        )


def reject_id(values: Mapping[str, object]) -> str:
    """The id of a reject: its place, since one line may hold no id, or the id of another."""
    return f"{values.get('snapshot')}/{values.get('file')}:{values.get('line')}"


def _check_stated(row: ShardRow, known: Known, where: str) -> None:
    """What a row says of its own cluster and pool is what the ledger says."""
    pool = known.pool.partition("@")[0]
    for column, expected in (("cluster", (known.cluster,)), ("pool", (pool, known.pool))):
        stated = row.values.get(column)
        if stated is not None and stated not in expected:
            raise OresmithError(
                f"a row states another {column} than the ledger",
                where=where,
                expected=expected[-1],
                got=str(stated)[:80],
            )


def write_keys(rows: Iterable[KeysRow], path: Path) -> int:
    """Write the table; the number of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with path.open("wb") as writer:
        writer.write(tsv.line(KeysRow._fields))
        for row in rows:
            writer.write(tsv.line(row))
            count += 1
    return count


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number of the row, its line) of a table, the header left out."""
    with path.open("rb") as reader:
        next(reader, None)
        yield from enumerate(reader, 1)
