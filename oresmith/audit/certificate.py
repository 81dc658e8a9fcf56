"""`certificate/certificate.json`: what a release holds, by hash and count, and what it claims to keep apart.

Every claim is made only after it was checked, and `verify_certificate.py` checks it again from the files beside it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from oresmith.audit.claims import claims
from oresmith.audit.keys_table import KEYS_FILE, Catalog, KeysMaker, KeysRow, catalog
from oresmith.audit.ledgers import BEFORE_FILE, NEXT_FILE, Ledgers, benchmarks_of, chain, cluster_hash
from oresmith.audit.rows import REJECTS, ROW_HASH, ShardRow, shard_rows, shards
from oresmith.corpus.account import Fate
from oresmith.errors import AccountingError, OresmithError
from oresmith.leakage import KEYS_VERSION, ClusterParams, LedgerLine

CERTIFICATE_SCHEMA = "oresmith.certificate/1"
CERTIFICATE_FILE = "certificate/certificate.json"
CONTAMINATION_FILE = "contamination.tsv"
COUNTED = ("trajectories", "subtask")
"""Configs whose rows, with the withheld and the rejected ones, make up all that was read; the others are views."""


class Given(NamedTuple):
    """What the earlier stages say."""

    corpus: Path
    ledgers: Ledgers
    params: ClusterParams
    allowed: tuple[str, ...]
    """Benchmarks whose rows may be published."""
    problem_of: Callable[[str], str | None]
    """Problem of a trajectory, by its id: for rows of `kto` that are in no other config."""
    fates: Sequence[Fate]
    """Where stage corpus says that the lines of each input file are."""


class Corpus:
    """One pass over the rows of a corpus: the lines of `keys.tsv`, and everything that is counted on the way.

    Args:
        given: what the earlier stages say.
        visit: called with every row, for checks that read its content.
    """

    def __init__(self, given: Given, visit: Callable[[ShardRow, KeysRow], None] | None = None) -> None:
        self.given, self._visit = given, visit
        self.known: Catalog = catalog(given.ledgers.lines)
        self.files: list[dict[str, Any]] = []
        self.problems: dict[tuple[str, str], set[str]] = defaultdict(set)
        """(config, split) -> names of the problems of its rows."""
        self.published: Counter[tuple[str, str, str]] = Counter()
        """(snapshot, file, config) -> rows; a reject's config is its reason."""
        self._maker = KeysMaker(self.known, given.params, given.problem_of)

    def rows(self) -> Iterator[KeysRow]:
        """The lines of the table. Errors: OresmithError naming file and row."""
        seen: set[tuple[str, str]] = set()
        for shard in shards(self.given.corpus):
            count = 0
            for row in shard_rows(shard):
                count = row.number
                keys = self._maker.row(row)
                if (keys.config, keys.row_id) in seen:
                    where = f"{shard.path}: row {count}"
                    raise OresmithError("a row stands twice in its config", where=where, got=keys.row_id[:80])
                seen.add((keys.config, keys.row_id))
                self._count(row, keys)
                if self._visit:
                    self._visit(row, keys)
                yield keys
            self.files.append(
                {"path": shard.name, "config": shard.config, "split": shard.split, **_file(shard.path, count)}
            )

    def _count(self, row: ShardRow, keys: KeysRow) -> None:
        shard = row.shard
        names = self.problems[shard.config, shard.split]
        if keys.problem:
            names.add(keys.problem)
        if shard.config not in (*COUNTED, REJECTS):
            return
        place = row.values.get("reason") if shard.config == REJECTS else shard.config
        self.published[str(row.values.get("snapshot")), str(row.values.get("file")), str(place)] += 1


def write_certificate(given: Given, out: Path, stated: Mapping[str, Any], corpus: Corpus) -> dict[str, Any]:
    """Write `certificate/` into a folder that holds `contamination.tsv` and `certificate/keys.tsv`.

    Args:
        given: what the earlier stages say.
        out: the folder.
        stated: what the certificate states and nobody can check from the folder alone: `inputs` (path -> sha256),
            `parameters`, `contamination` and `misfiled` (counts).
        corpus: its rows, read to the end.

    Returns:
        The certificate.

    Raises:
        AccountingError: rows that do not add up, with the numbers.
        OresmithError: two sides that share a problem, naming it.
    """
    ledgers = given.ledgers
    for name, content in ((BEFORE_FILE, ledgers.before_bytes), (NEXT_FILE, ledgers.added_bytes)):
        (out / name).write_bytes(content)
    check_fates(given.fates, corpus.published)
    beside = (KEYS_FILE, BEFORE_FILE, NEXT_FILE, CONTAMINATION_FILE)
    certificate = {
        "schema": CERTIFICATE_SCHEMA,
        "release": ledgers.release,
        "keys": {
            "version": KEYS_VERSION,
            "row_hash": ROW_HASH,
            "min_constraints": given.params.min_constraints,
            "min_pairs": given.params.min_pairs,
        },
        "files": corpus.files,
        "beside": {name: _file(out / name, None) for name in beside},
        "ledger": {
            "releases": chain(ledgers),
            "sha256": hashlib.sha256(ledgers.before_bytes + ledgers.added_bytes).hexdigest(),
        },
        "clusters": {"sha256": cluster_hash(ledgers.lines), "pools": _pools(ledgers.lines)},
        "counts": _counts(corpus),
        "accounts": [msgspec.to_builtins(fate) for fate in given.fates],
        "claims": claims(corpus.problems, corpus.known, ledgers.lines, given.params, given.allowed),
        "benchmarks": _benchmarks(corpus, given),
        **stated,
    }
    (out / CERTIFICATE_FILE).write_bytes(encode(certificate))
    return certificate


def encode(certificate: Mapping[str, Any]) -> bytes:
    """The certificate's bytes: keys sorted, one space of indent."""
    return msgspec.json.format(msgspec.json.encode(certificate, order="deterministic"), indent=1) + b"\n"


def check_fates(fates: Sequence[Fate], published: Mapping[tuple[str, str, str], int]) -> None:
    """What stage corpus says of each input file adds up, and is what stands in the files.

    Errors: AccountingError naming the input file, with the numbers.
    """
    stated: dict[tuple[str, str, str], int] = {}
    for fate in fates:
        parts = {name: getattr(fate, name) for name in COUNTED if getattr(fate, name)} | fate.rejected
        stated |= {(fate.snapshot, fate.file, name): number for name, number in parts.items()}
        if fate.read != sum(parts.values()) + sum(fate.withheld.values()):
            raise AccountingError(
                "rows have vanished or were invented",
                where=f"snapshot {fate.snapshot}, file {fate.file}",
                expected=f"{fate.read} lines read",
                got=f"{parts} and withheld {fate.withheld}",
            )
    for place in sorted(stated.keys() | published.keys()):
        if stated.get(place, 0) != published.get(place, 0):
            raise AccountingError(
                "the corpus holds other rows than its account says",
                where=f"snapshot {place[0]}, file {place[1]}: {place[2]}",
                expected=f"{stated.get(place, 0)} rows by data/corpus/report.json",
                got=f"{published.get(place, 0)} in the Parquet files",
                todo="nothing was published; run `dvc repro`, and if it stays, report it with these numbers",
            )


def _benchmarks(corpus: Corpus, given: Given) -> dict[str, Any]:
    """Of each benchmark: whether it is allowed, its problems, and how many of these are published to train on."""
    of: dict[str, set[str]] = defaultdict(set)
    for line in given.ledgers.lines:
        for name in benchmarks_of(line):
            of[name].update(keys.problem for keys in line.problems)
    published = set().union(*(names for (_, split), names in corpus.problems.items() if split == "train"))
    return {
        name: {"allowed": name in given.allowed, "problems": len(names), "published": len(names & published)}
        for name, names in sorted(of.items())
    }


def _counts(corpus: Corpus) -> dict[str, dict[str, dict[str, int]]]:
    rows: Counter[tuple[str, str]] = Counter()
    for file in corpus.files:
        rows[file["config"], file["split"]] += file["rows"]
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for (config, split), number in sorted(rows.items()):
        names = corpus.problems[config, split]
        clusters = {corpus.known[name].cluster for name in names}
        counts.setdefault(config, {})[split] = {"rows": number, "problems": len(names), "clusters": len(clusters)}
    return counts


def _pools(lines: list[LedgerLine]) -> dict[str, dict[str, int]]:
    problems: Counter[str] = Counter()
    clusters: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        problems[line.place] += len(line.problems)
        clusters[line.place].add(line.cluster)
    return {place: {"problems": problems[place], "clusters": len(clusters[place])} for place in sorted(problems)}


def _file(path: Path, rows: int | None) -> dict[str, Any]:
    counted = {} if rows is None else {"rows": rows}
    return {"sha256": sha256_of(path), "bytes": path.stat().st_size, **counted}


def sha256_of(path: Path) -> str:
    """sha256 of a file, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
