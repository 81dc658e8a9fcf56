"""Trajectories that give away the gold product of another problem, which is guarded: they recommend it, or view it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson
import polars as pl

from oresmith.audit.contamination import (
    ALLOWED,
    FACTS,
    FLAGGED,
    QUARANTINED,
    REJECTED,
    WITHHELD,
    Match,
    World,
    guarded_sets,
)
from oresmith.audit.products import VIEW, touched
from oresmith.audit.rows import REJECTS, ShardRow
from oresmith.errors import OresmithError
from oresmith.leakage.ledger import BENCHMARK, QUARANTINE
from oresmith.leakage.spec import gold_id, read_reward

GOLD_RECOMMENDED, GOLD_VIEWED = "gold_recommended", "gold_viewed"
PUBLISHED, KTO = ("trajectories", "subtask"), "kto"
Place = tuple[str, str, int]
"""Snapshot, file and line of a row."""


class Gold(NamedTuple):
    """A guarded gold product."""

    guarded: str
    problem: str
    since: int
    """Place of the first snapshot that holds the problem, -1 where only a benchmark does: guarded from the start."""


class Answers:
    """Collects such trajectories: the recommendations from the evidence of all rows, the views from published ones.

    Args:
        world: the problems.
        attempts: columns `snapshot, file, line, trajectory_id, problem, recommended_ids`, of all rows of the evidence.
        reject: whether the parameters reject a recommendation of a guarded gold product.
    """

    def __init__(self, world: World, attempts: pl.DataFrame, reject: bool) -> None:
        self._reject = reject
        self._order = {name: place for place, name in enumerate(world.snapshots)}
        self._rewards: dict[str, str | None] = dict(world.problems.select("problem", "reward").iter_rows())
        self._facts = {row["problem"]: row for row in world.problems.select(*FACTS).iter_rows(named=True)}
        self._golds = self._guarded(world)
        self._found: dict[Place, list[tuple[str, str, Gold]]] = defaultdict(list)
        self._rows: dict[Place, tuple[str, str | None]] = {}
        self._actions: dict[Place, str] = {}
        for row in attempts.filter(pl.col("recommended_ids").list.len() > 0).iter_rows(named=True):
            place = (row["snapshot"], row["file"], row["line"])
            self._note(place, row["trajectory_id"], row["problem"], GOLD_RECOMMENDED, row["recommended_ids"])
        self._by_id = {row_id: place for place, (row_id, _) in self._rows.items()}

    def _guarded(self, world: World) -> dict[str, list[Gold]]:
        golds: dict[str, list[Gold]] = defaultdict(list)
        for guarded, members in guarded_sets(world.problems):
            if guarded.removeprefix(BENCHMARK) in world.allowed:
                continue
            for problem, snapshot in members.select("problem", "snapshot").iter_rows():
                for product in self._golds_of(problem):
                    golds[product].append(Gold(guarded, problem, self._order.get(snapshot, -1)))
        return dict(golds)

    def _golds_of(self, problem: str | None) -> tuple[str, ...]:
        reward = self._rewards.get(problem or "")
        return () if reward is None else read_reward(orjson.loads(reward)).gold_ids

    def _note(self, place: Place, row_id: str, problem: str | None, kind: str, products: Iterable[str]) -> None:
        shown = [product for product in map(gold_id, products) if product in self._golds]
        own = self._golds_of(problem) if shown else ()
        for product in shown:
            if product not in own:
                self._found[place] += ((kind, product, gold) for gold in self._golds[product])
                self._rows[place] = (row_id, problem)

    def visit(self, row: ShardRow) -> None:
        """See a row of the corpus.

        Raises:
            OresmithError: a published training row recommends a product that was guarded when its snapshot came in,
                though the parameters reject that.
        """
        values, config = row.values, row.shard.config
        if config == KTO and values["row_id"] in self._by_id:
            self._refuse(row, self._by_id[values["row_id"]])
        if config != REJECTS and config not in PUBLISHED:
            return
        place = (values["snapshot"], values["file"], values["line"])
        if config == REJECTS:
            if place in self._found:
                self._actions[place] = REJECTED
            return
        self._note(place, values["row_id"], values["problem"], GOLD_VIEWED, sorted(_viewed(values["messages"])))
        if place in self._found:
            flagged = values.get("viewed_heldout_gold") or values.get("benchmark_flag")
            self._actions[place] = FLAGGED if flagged else ALLOWED
            self._refuse(row, place)

    def _refuse(self, row: ShardRow, place: Place) -> None:
        if not self._reject or row.shard.split != "train":
            return
        for kind, product, gold in self._found[place]:
            if kind == GOLD_RECOMMENDED and gold.since <= self._order.get(place[0], -1):
                raise OresmithError(
                    "a published training row recommends a guarded gold product",
                    where=f"{row.shard.path}: row {row.number}",
                    got=f"product {product[:80]} of {gold.guarded}",
                    todo="nothing was published; this is a fault of stage corpus: report it with this row",
                )

    def matches(self) -> Iterator[Match]:
        """All of them, once the corpus has been seen."""
        for place, found in self._found.items():
            row_id, problem = self._rows[place]
            fact = self._facts.get(problem or "", {})
            hidden = QUARANTINED if fact.get("pool") == QUARANTINE else WITHHELD
            for kind, product, gold in found:
                yield Match(
                    guarded=gold.guarded,
                    subject="trajectory",
                    id=row_id,
                    problem_id=fact.get("problem_id") or "",
                    attempts=1,
                    kind=kind,
                    value=product,
                    guarded_problem=gold.problem,
                    action=self._actions.get(place, hidden),
                )


def _viewed(messages: Any) -> frozenset[str]:
    """Products that the calls of a published dialogue view and do not recommend."""
    texts = [text for text in messages or () if isinstance(text, str) and VIEW in text]
    if not texts:
        return frozenset()
    calls = [call for text in messages for call in _calls(orjson.loads(text))]
    found = touched(calls)
    return found.viewed - found.recommended


def _calls(message: Any) -> Iterator[tuple[str, str]]:
    for call in message.get("tool_calls") or ():
        yield call["function"]["name"], call["function"]["arguments"]
