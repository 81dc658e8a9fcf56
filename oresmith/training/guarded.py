"""The problems that nothing may be trained on, as the stages `cluster`, `split` and `audit` know them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from oresmith.audit.certificate import CERTIFICATE_FILE
from oresmith.audit.ledgers import BEFORE_FILE, NEXT_FILE
from oresmith.errors import OresmithError
from oresmith.leakage.ledger import BENCHMARK, DEV, HELDOUT, QUARANTINE, TRAIN, VAULT, LedgerLine, place_of, read_ledger
from oresmith.leakage.spec import read_reward
from oresmith.leakage.text import digest, squeeze
from oresmith.training.phrases import BASE, QUERY, Found, Phrases, Query, forms_of

LEDGER = "ledger"
_COLUMNS = ["problem", "query", "reward", "voucher"]
_POOLS = ["problem", "cluster", "pool", "held_out", "benchmarks", "vault", "trainable"]


class Guarded:
    """Recognises guarded problems in text and products.

    Args:
        rows: a mapping a problem: `query`, `reward` and `voucher` (JSON text), `cluster` that it was assigned with, and
            what `split` says of it.
        retired: ledger lines of problems that are guarded, of which `rows` may know none any more.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], retired: Iterable[LedgerLine] = ()) -> None:
        known = {row["problem"]: row for row in rows}
        places = {name: place for name, row in known.items() if (place := guarded_place(row))}
        self._trainable = {name for name, row in known.items() if row["trainable"]}
        lines = [(keys, line) for line in retired for keys in line.problems if keys.problem not in known]
        self.names = sorted({*places, *(keys.problem for keys, _ in lines)})
        self.counts = dict(sorted(Counter(places.values()).items())) | ({LEDGER: len(lines)} if lines else {})
        queries = [_query(row, places.get(name)) for name, row in sorted(known.items())]
        self.phrases = Phrases(queries)
        self._place_of = places | {keys.problem: line.place for keys, line in lines}
        self._golds = self._gold_owners(known, places)
        ours = {key for one in queries if one.trainable for form in one.forms for key in _keys_of(squeeze(list(form)))}
        ours |= {_gold_key(product) for name in self._trainable for product in _golds(known[name])}
        self._keys: dict[str, Found] = {}
        self._gold_keys: dict[str, str] = {}
        for keys, line in lines:
            joins = line.pool == QUARANTINE
            for kind, key in ((QUERY, keys.query), (BASE, keys.base)):
                if key and not (joins and key in ours):
                    self._keys.setdefault(key, Found(kind, keys.problem))
            for key in keys.gold:
                if not (joins and key in ours):
                    self._gold_keys.setdefault(key, keys.problem)

    @property
    def golds(self) -> int:
        """Guarded gold products."""
        return len(self._golds) + len(self._gold_keys)

    def may_train(self, problem: str) -> bool:
        """Whether a problem is known and may be trained on."""
        return problem in self._trainable

    def find(self, text: str) -> tuple[Found, ...]:
        """The guarded queries in a text; those that only the ledger knows are found as a whole text alone."""
        found = self.phrases.find(text)
        if not self._keys:
            return found
        keys = [key for form in forms_of(text) for key in _keys_of(squeeze(list(form)))]
        return (*found, *(self._keys[key] for key in keys if key in self._keys))

    def gold(self, product: str) -> str:
        """The guarded problem whose gold product it is; "" where there is none.

        Args:
            product: canonical id (`spec.gold_id`).
        """
        owner = self._golds.get(product)
        if owner is None and self._gold_keys:
            owner = self._gold_keys.get(_gold_key(product))
        return owner or ""

    def place_of_gold(self, product: str) -> str:
        """The pool or benchmark of that problem; "" where there is none."""
        return self._place_of.get(self.gold(product), "")

    def _gold_owners(self, known: Mapping[str, Mapping[str, Any]], places: Mapping[str, str]) -> dict[str, str]:
        """Guarded gold product -> its problem. What a quarantined problem shares with a trainable one is not guarded:
        it is quarantined because it stands between the two."""
        ours = {product for name in self._trainable for product in _golds(known[name])}
        owners: dict[str, str] = {}
        for name in sorted(places, key=lambda name: (places[name] == QUARANTINE, name)):
            for product in _golds(known[name]):
                if places[name] != QUARANTINE or product not in ours:
                    owners.setdefault(product, name)
        return owners


def load_guarded(data: Path) -> Guarded:
    """Read what is guarded.

    Args:
        data: the pipeline's directory: reads cluster/problems.parquet, split/assignments.parquet, and the ledger beside
            the certificate in audit/, where it is there.

    Raises:
        OresmithError: a table is missing or of other problems, or the ledger is damaged.
    """
    try:
        problems = pl.read_parquet(data / "cluster" / "problems.parquet", columns=_COLUMNS)
        pools = pl.read_parquet(data / "split" / "assignments.parquet", columns=_POOLS)
        joined = problems.join(pools, on="problem", how="inner", validate="1:1")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise OresmithError(
            "what is held out cannot be read", where=str(data), got=str(error)[:300], todo="run `dvc repro`"
        ) from error
    if not problems.height == pools.height == joined.height:
        raise OresmithError(
            "clusters and pools are of different problems",
            where=str(data / "split" / "assignments.parquet"),
            expected=f"{problems.height} problems",
            got=f"{pools.height}, of which {joined.height} are known",
            todo="run `dvc repro`",
        )
    return Guarded(joined.iter_rows(named=True), _retired(data / "audit"))


def guarded_place(row: Mapping[str, Any]) -> str | None:
    """The pool, with its date, or the benchmark by which a problem is guarded; None where it is not.

    Args:
        row: `pool`, `held_out`, `benchmarks`, `vault` and `trainable`, as in data/split/assignments.parquet.
    """
    if row["vault"]:
        return VAULT
    if row["trainable"]:
        return None
    if row["pool"] in (TRAIN, DEV):
        return BENCHMARK + "+".join(row["benchmarks"]) if row["benchmarks"] else None
    return place_of(row["pool"], None if row["held_out"] is None else str(row["held_out"]))


def _retired(audit: Path) -> list[LedgerLine]:
    """Guarded lines of the ledger: its problems stay held out when their snapshot is gone."""
    lines = [*read_ledger(audit / BEFORE_FILE), *read_ledger(audit / NEXT_FILE)]
    try:
        benchmarks = orjson.loads((audit / CERTIFICATE_FILE).read_bytes())["benchmarks"]
        allowed = {name for name, stated in benchmarks.items() if stated["allowed"]}
    except FileNotFoundError:
        allowed = set()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OresmithError(
            "the certificate cannot be read", where=str(audit / CERTIFICATE_FILE), got=repr(error)[:200]
        ) from error
    return [line for line in lines if _ledger_guards(line, allowed)]


def _ledger_guards(line: LedgerLine, allowed: set[str]) -> bool:
    if line.pool.startswith(BENCHMARK):
        return not allowed.issuperset(line.pool.removeprefix(BENCHMARK).split("+"))
    return line.pool in (HELDOUT, QUARANTINE)


def _query(row: Mapping[str, Any], place: str | None) -> Query:
    voucher = None if row["voucher"] is None else orjson.loads(row["voucher"])
    return Query(
        problem=row["problem"],
        cluster=row["cluster"],
        forms=forms_of(row["query"] or "", voucher),
        guarded=place is not None,
        joins=place == QUARANTINE,
        trainable=row["trainable"],
    )


def _golds(row: Mapping[str, Any]) -> tuple[str, ...]:
    return () if row["reward"] is None else read_reward(orjson.loads(row["reward"])).gold_ids


def _keys_of(text: str) -> list[str]:
    """Under which a squeezed text can be a query's key, with or without voucher text."""
    return [digest(kind, text).hex() for kind in (b"query", b"base")] if text else []


def _gold_key(product: str) -> str:
    return digest(b"gold", product).hex()
