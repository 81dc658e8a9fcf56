"""The state of one suite in the making: what is taken already, what may still be spent, and who is accepted."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from oresmith.arena.documents import Document, Shop
from oresmith.arena.suites.levels import BASELINE_LIMIT, LEVELS, ONE_OF_TEN, USUAL_RANDOM_LIMIT
from oresmith.arena.suites.nouns import Nouns
from oresmith.arena.suites.plan import Plan, SuiteProblem, problem_of
from oresmith.arena.suites.probe import PAGE, POLICIES, Guesses, Prober, Standing
from oresmith.arena.suites.rivals import RivalDraw

Cell = tuple[str, str]
"""Category and level."""
NEAREST = 0.6
"""Jaccard similarity of two requests' words from which they would pass for one; bases stay below it."""
KEPT_HITS = 50
"""Hits that the tools keep: a gold product is always among those of its reference query."""
_WORDS = re.compile(r"\w+")


class Quota:
    """What policies without judgement may still succeed on, cell by cell."""

    def __init__(self, planned: dict[Cell, int]) -> None:
        self._planned = planned
        self._count: Counter[Cell] = Counter()
        self._spent: dict[Cell, Counter[str]] = defaultdict(Counter)

    def chances(self, cell: Cell, guesses: Guesses, twinned: bool) -> dict[str, float] | None:
        """The chance of each policy on a problem; None once one is over what its cell may still spend.

        A first hit succeeds or does not, so its successes may come at any time. Chances of a random hit are spent no
        faster than problems are made, `twinned` ones up to the limit and others up to the usual one.
        """
        so_far, spent = self._count[cell] + 1, self._spent[cell]
        first = BASELINE_LIMIT * max(self._planned.get(cell, 0), so_far)
        found: dict[str, float] = {}
        for policy in POLICIES:
            chance = found[policy] = guesses.of(policy)
            if policy.startswith("first"):
                most = first
            else:
                most = (BASELINE_LIMIT if twinned or chance <= ONE_OF_TEN + 1e-9 else USUAL_RANDOM_LIMIT) * so_far
            if spent[policy] + chance > most + 1e-9:
                return None
        return found

    def affords_twin(self, cell: Cell) -> bool:
        """Whether the cell's next problem may have two good hits of ten under all random choices."""
        spent = self._spent[cell]
        most = max((spent[policy] for policy in POLICIES if policy.startswith("random")), default=0.0)
        return most + 2 * ONE_OF_TEN <= BASELINE_LIMIT * (self._count[cell] + 1) + 1e-9

    def spend(self, cell: Cell, found: dict[str, float]) -> None:
        """Count a problem in."""
        self._count[cell] += 1
        self._spent[cell].update(found)


class Workshop:
    """What the makers of bases and variants share."""

    def __init__(self, documents: Sequence[Document], shop: Shop, origin: str, planned: dict[Cell, int]) -> None:
        self.documents = documents
        self.origin = origin
        self.prober = Prober(shop)
        self.nouns = Nouns(documents)
        self.draws = RivalDraw(self.nouns)
        self.quota = Quota(planned)
        self.golds: set[str] = set()
        """Taken: one gold product, one cluster."""
        self._queries: set[str] = set()
        self._bags: list[tuple[str, frozenset[str]]] = []
        """(cluster, words of the request without its voucher)."""
        self._specifications: dict[str, str] = {}

    def reserve(self, problems: Iterable[SuiteProblem]) -> None:
        """Keep clear of the problems of another suite."""
        for made in problems:
            self._take(made)

    def accept(
        self,
        plan: Plan,
        standings: Sequence[Standing],
        variant: str = "base",
        cluster: str | None = None,
        *,
        twinned: bool = False,
    ) -> SuiteProblem | None:
        """The problem of a plan, counted in; None where it is too easy to guess or passes for another problem.

        Args:
            plan: what it is made of.
            standings: of its wanted products.
            variant: base, or a kind of variant.
            cluster: of a variant: that of its source. Only problems of one cluster may share golds and words.
            twinned: whether twins of the gold products are wanted.
        """
        request = plan.request()
        if request.query in self._queries or self._clashes(plan, _bag(request.base), cluster):
            return None
        cell = (plan.category, plan.level)
        guesses = Guesses(self.prober, plan.category, plan.wishes, request, plan.voucher)
        found = self.quota.chances(cell, guesses, twinned or variant != "base")
        if found is None:
            return None
        problem = problem_of(plan, request, self.origin)
        made = SuiteProblem(
            problem=problem,
            cluster=cluster or str(problem.problem_id),
            variant=variant,
            level=plan.level,
            plan=plan,
            standings=tuple(standings),
            shares=found,
        )
        self.quota.spend(cell, found)
        self._take(made)
        return made

    def told(self, plan: Plan) -> bool:
        """Whether the whole request, searched as it stands, brings every gold product as far up as the level asks."""
        deepest, golds, seen = LEVELS[plan.level].told, {wish.gold.product_id for wish in plan.wishes}, 0
        if deepest >= KEPT_HITS:
            return True
        query = plan.request().query
        for number in range(1, -(-deepest // PAGE) + 1):
            golds -= set(self.prober.page(query, number=number)[: deepest - seen])
            seen += PAGE
        return not golds

    def _take(self, made: SuiteProblem) -> None:
        request = made.plan.request()
        self.golds.update(made.plan.golds())
        self._queries.add(request.query)
        self._bags.append((made.cluster, _bag(request.base)))
        self._specifications.setdefault(made.plan.specification(), made.cluster)

    def _clashes(self, plan: Plan, bag: frozenset[str], cluster: str | None) -> bool:
        if self._specifications.get(plan.specification(), cluster) != cluster:
            return True
        return any(other != cluster and _similarity(bag, words) >= NEAREST for other, words in self._bags)


def _bag(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(text.casefold()))


def _similarity(a: frozenset[str], b: frozenset[str]) -> float:
    common = len(a & b)
    return common / (len(a) + len(b) - common) if common else 0.0
