"""What a rollout is worth: the strict scorer's outcome, and its agreement with teachers of the same problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from oresmith.arena.catalogue import Catalogue
from oresmith.arena.problems import gold_ids
from oresmith.arena.scoring import ScoreError, TitleRule, score_said
from oresmith.arena.search import Searcher
from oresmith.arena.titles import Titling, title_rule
from oresmith.evaluation.played import Played, played
from oresmith.evaluation.problems import Case
from oresmith.evaluation.records import Rollout
from oresmith.evaluation.scores import products_of
from oresmith.evaluation.writing import BESIDE, Writer
from oresmith.evidence.outcome import check_golds, reward_titles
from oresmith.records import Source
from oresmith.traces import Context, decode
from oresmith.training.agreement import Teachers, steps_of

_NOWHERE = Source(snapshot="", file="", file_sha256="", line=1, offset=0, length=0)
_WRITER = Writer(Path(), "policy", "", [])


class Worth(NamedTuple):
    """Of one rollout."""

    outcome: float
    """1 for a strict success, else 0."""
    agreement: float
    """From 0 to 1 (`agreement.agreement`); 0 where the problem has no teacher."""


class Judge:
    """Tells what rollouts are worth.

    Args:
        shops: open indexes, by the shops of the cases.
        teachers: trajectories to agree with.
        name_weight: as of `agreement.agreement`.
        titling: the scorer's wish for title similarity, as of the stage `score`.
    """

    def __init__(
        self, shops: Mapping[str, Searcher], teachers: Teachers, name_weight: float, titling: Titling | None
    ) -> None:
        self._shops, self._teachers, self._name_weight, self._titling = shops, teachers, name_weight, titling

    def check(self, cases: Iterable[Case]) -> None:
        """Refuse problems that cannot be scored.

        Raises:
            OresmithError: a shop lacks gold products, or there is no model for titles.
        """
        if self._titling is not None:
            self._titling.encoder()
        golds: dict[str, dict[str, str]] = {}
        for case in cases:
            golds.setdefault(case.shop, {}).update(dict.fromkeys(gold_ids(case.problem), case.name))
        for shop, needed in sorted(golds.items()):
            check_golds(products_of(self._shops[shop], needed), needed, shop)

    def worth(self, rollouts: Sequence[tuple[Case, Rollout]]) -> list[Worth]:
        """One a rollout, in their order; nothing raises, whatever a rollout did."""
        reads = [_Read(case, rollout) for case, rollout in rollouts]
        shelves = {shop: self._shelf(shop, reads) for shop in sorted({case.shop for case, _ in rollouts})}
        return [
            Worth(
                float(one.succeeds(*shelves[one.case.shop])),
                self._teachers.best(one.case.name, steps_of(one.rollout.messages), self._name_weight),
            )
            for one in reads
        ]

    def _shelf(self, shop: str, reads: Sequence[_Read]) -> tuple[Catalogue, TitleRule | None]:
        """The products that deciding these rollouts takes, and the rule for their titles."""
        here = [one for one in reads if one.case.shop == shop]
        products = products_of(self._shops[shop], {product for one in here for product in one.ids})
        if self._titling is None:
            return products, None
        titles = {product.title for product in products.values() if isinstance(product.title, str)} | {""}
        titles.update(title for one in here for title in reward_titles(one.case.problem))
        return products, title_rule(self._titling, self._titling.encoder(), titles)


class _Read:
    """A rollout as the stage `score` reads it from its file."""

    def __init__(self, case: Case, rollout: Rollout) -> None:
        self.case, self.rollout = case, rollout

    @cached_property
    def played(self) -> Played:
        row: dict[str, Any] = _WRITER.row_of(self.case, self.rollout)
        kept = {key: value for key, value in row.items() if key not in BESIDE}
        text = msgspec.json.decode(msgspec.json.encode(kept))
        return played(decode(text, Context(source=_NOWHERE, source_name="policy", trust_rows=True)))

    @property
    def ids(self) -> list[str]:
        """Of the products that its score depends on."""
        said = self.played.said
        return [*gold_ids(self.case.problem), *(said.ids if said else ())]

    def succeeds(self, products: Catalogue, titles: TitleRule | None) -> bool:
        """By the strict scorer; what cannot be scored fails."""
        if self.played.said is None:
            return False
        try:
            return score_said(self.case.problem, self.played.said, products, titles=titles).success
        except ScoreError:
            return False
