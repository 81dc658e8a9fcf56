"""Variants of problems: the same one in disguise, so that it is known which clusters have to be found."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from oresmith.arena.documents import Document, product_of
from oresmith.arena.scoring_items import total_price
from oresmith.arena.suites.levels import LEVELS
from oresmith.arena.suites.plan import Plan, SuiteProblem
from oresmith.arena.suites.probe import Standing, all_suit, suits
from oresmith.arena.suites.requests import VOUCHER_WORDINGS
from oresmith.arena.suites.vouchers import discounted, fault_of
from oresmith.arena.suites.wishes import Wish, stream
from oresmith.arena.suites.workshop import Workshop
from oresmith.errors import OresmithError

WORDINGS = 6
"""Tries for one source before the next one's turn."""

Draft = tuple[Plan, Sequence[Standing]]


class VariantMaker:
    """Makes variants of given problems."""

    def __init__(
        self, workshop: Workshop, sources: Sequence[SuiteProblem], get: Callable[[str], Document | None]
    ) -> None:
        self._workshop = workshop
        self._sources = sources
        self._get = get

    def make(self, kind: str, count: int) -> list[SuiteProblem]:
        """Make `count` variants of one kind, spread over the sources.

        Raises:
            OresmithError: the sources do not give as many, each taken twice at most.
        """
        made: list[SuiteProblem] = []
        for turn in range(2):
            sources = list(self._sources)
            stream(self._workshop.origin, kind, turn).shuffle(sources)
            for source in sources:
                if len(made) == count:
                    return made
                variant = self._variant(kind, source, turn)
                if variant is not None:
                    made.append(variant)
        if len(made) == count:
            return made
        raise OresmithError(
            "the base problems do not give as many variants",
            where=f"variants: {kind}",
            expected=f"{count}",
            got=f"{len(made)} from {len(self._sources)} base problems",
            todo="lower the count, or take a larger suite or catalogue",
        )

    def _variant(self, kind: str, source: SuiteProblem, turn: int) -> SuiteProblem | None:
        self._workshop.prober.forget()
        draft = {
            "paraphrase": self._paraphrase,
            "order": self._order,
            "voucher_wording": self._voucher_wording,
            "gold": self._gold,
            "same_specification": self._same_specification,
        }[kind]
        for attempt in range(WORDINGS):
            rng = stream(self._workshop.origin, kind, source.problem_id, turn, attempt)
            made = draft(source, rng)
            if made is None:
                continue
            variant = self._workshop.accept(*made, variant=kind, cluster=source.cluster)
            if variant is not None:
                return variant
        return None

    def _paraphrase(self, source: SuiteProblem, rng: random.Random) -> Draft | None:
        """The same reward, said in other words: also the product's name, where its title gives another."""
        plan = source.plan
        wishes = tuple(wish._replace(noun=rng.choice(self._workshop.nouns.of(wish.gold))) for wish in plan.wishes)
        return self._restood(plan._replace(wishes=wishes, wording=str(rng.getrandbits(64))))

    def _order(self, source: SuiteProblem, rng: random.Random) -> Draft | None:
        """The same words, with products and constraints in another order."""
        plan, standings = source.plan, source.standings
        places = list(range(len(plan.wishes)))
        rng.shuffle(places)
        wishes = []
        for place in places:
            constraints = list(plan.wishes[place].constraints)
            rng.shuffle(constraints)
            wishes.append(plan.wishes[place]._replace(constraints=tuple(constraints)))
        return plan._replace(wishes=tuple(wishes)), [standings[place] for place in places]

    def _voucher_wording(self, source: SuiteProblem, rng: random.Random) -> Draft | None:
        """The same request, with the rules of its voucher in another wording."""
        plan = source.plan
        if plan.voucher is None:
            return None
        other = (plan.voucher_wording + rng.randrange(1, VOUCHER_WORDINGS)) % VOUCHER_WORDINGS
        return plan._replace(voucher_wording=other), source.standings

    def _gold(self, source: SuiteProblem, rng: random.Random) -> Draft | None:
        """The same gold products, asked for by other constraints and in other words."""
        plan, wishes = source.plan, []
        for wish in plan.wishes:
            drawn = self._workshop.draws.draw(
                wish.gold, LEVELS[plan.level].constraints, rng, price=plan.category != "voucher"
            )
            if not drawn:
                return None
            wishes.append(drawn[0].wish)
        other = plan._replace(wishes=tuple(wishes), wording=str(rng.getrandbits(64)))
        return None if other.specification() == plan.specification() else self._restood(other)

    def _same_specification(self, source: SuiteProblem, rng: random.Random) -> Draft | None:
        """The same specification, with other gold products that meet it, in other words."""
        plan, shops = source.plan, set()
        wishes: list[Wish] = []
        for wish, standing in zip(plan.wishes, source.standings, strict=True):
            taken = self._workshop.golds | {other.gold.product_id for other in wishes}
            free = [twin for twin in standing.twins if twin not in taken]
            twin = self._get(rng.choice(free)) if free else None
            if twin is None:
                return None
            shops.add(twin.shop_id)
            # Under the same name the same hits come, so the twin is as hard to guess as the first gold product.
            wishes.append(wish._replace(gold=twin))
        if plan.category == "shop" and len(shops) > 1:
            return None
        voucher = plan.voucher
        if voucher is not None:
            products = [product_of(wish.gold) for wish in wishes]
            voucher = voucher | {"price_after_voucher": round(discounted(voucher, total_price(products)), 4)}
            if fault_of(voucher, products) is not None:
                return None
        return self._restood(plan._replace(wishes=tuple(wishes), wording=str(rng.getrandbits(64)), voucher=voucher))

    def _restood(self, plan: Plan) -> Draft | None:
        """The plan with the standings of its own words; None where they are not those of its level."""
        level, found = LEVELS[plan.level], []
        for wish in plan.wishes:
            standing = self._workshop.prober.standing(wish, level.rank[1])
            if standing is None or not suits(standing, level, len(plan.wishes) == 1):
                return None
            found.append(standing)
        return (plan, found) if all_suit(found, level) else None
