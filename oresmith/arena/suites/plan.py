"""A problem before it is written down, and after: the plan that variants are made from, the problem of the suite."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

from oresmith.arena.suites.levels import LEVELS
from oresmith.arena.suites.probe import Standing
from oresmith.arena.suites.requests import Request, request_of
from oresmith.arena.suites.wishes import Wish
from oresmith.records import Problem

_NAMESPACE = uuid.UUID("032c66a4-3e6c-50f6-ba28-fa045db11d6f")


class Plan(NamedTuple):
    """Everything that a problem is made of."""

    category: str
    level: str
    wishes: tuple[Wish, ...]
    wording: str
    """Seed of the words."""
    voucher: dict[str, Any] | None = None
    voucher_wording: int = 0

    def request(self) -> Request:
        """The query and its parts."""
        voucher = None if self.voucher is None else (self.voucher, self.voucher_wording)
        return request_of(self.category, self.wishes, LEVELS[self.level].literal, self.wording, voucher)

    def reward(self) -> Any:
        """One object for product, a list for the others."""
        rewards = [wish.reward() for wish in self.wishes]
        return rewards[0] if self.category == "product" else rewards

    def golds(self) -> list[str]:
        """Gold ids in the order of the rewards."""
        return [wish.gold.product_id for wish in self.wishes]

    def specification(self) -> str:
        """What the rewards state, order-free and without golds and titles: equal texts are equal specifications."""
        items = [sorted("\x1f".join(map(str, constraint)) for constraint in wish.constraints) for wish in self.wishes]
        return json.dumps(sorted(items), ensure_ascii=False)


@dataclass(frozen=True)
class SuiteProblem:
    """One problem of a suite, with the truth about it that no agent sees."""

    problem: Problem
    """Category in lower case, difficulty L1 to L5."""
    cluster: str
    """`problem_id` of the base problem; for a base its own."""
    variant: str
    """base, paraphrase, order, voucher_wording, gold or same_specification."""
    level: str
    plan: Plan
    standings: tuple[Standing, ...]
    """Of each wanted product."""
    shares: dict[str, float]
    """Probability of success of each of `probe.POLICIES`."""

    @property
    def problem_id(self) -> str:
        """The problem's id."""
        return str(self.problem.problem_id)


def problem_of(plan: Plan, request: Request, origin: str) -> Problem:
    """Write a plan down. The id is a UUID derived from `origin` (seed, suite and version) and the content alone."""
    content = [plan.category, request.query, plan.reward(), plan.voucher]
    text = origin + "\0" + json.dumps(content, ensure_ascii=False, sort_keys=True)
    name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Problem(
        problem_id=str(uuid.uuid5(_NAMESPACE, name)),
        query=request.query,
        category=plan.category,
        difficulty=plan.level,
        reward=plan.reward(),
        voucher=plan.voucher,
    )
