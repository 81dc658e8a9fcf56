"""What an agent is told of a problem: the request and, for scripted policies, what it asks for in exact terms.

No field can hold a gold id or a gold title: a `Wish` has constraints only, so a policy must find its products.
"""

from __future__ import annotations

from typing import Any

from oresmith.errors import OresmithError
from oresmith.records import Problem, Record

Pair = tuple[str, str]
_CATEGORIES = ("product", "shop", "voucher")


class Wish(Record, frozen=True):
    """One reward without its product id and its title."""

    pairs: tuple[Pair, ...] = ()
    """(key, value) of SKU options, then of attributes; each must stand in one SKU's options or in the attributes."""
    prices: tuple[tuple[str, float | None, float | None], ...] = ()
    """(mode, low, high) with the modes of `sn15.md` section 2; bounds inclusive, in PHP."""
    services: tuple[str, ...] = ()

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The lowest and the highest price that all ranges admit; None where there is no such bound."""
        lows = [low for mode, low, _ in self.prices if mode != "less than" and low is not None]
        highs = [high for mode, _, high in self.prices if mode != "greater than" and high is not None]
        return max(lows, default=None), min(highs, default=None)


class Offer(Record, frozen=True):
    """Budget and voucher of a voucher problem; amounts in PHP."""

    budget: float
    threshold: float
    shop_only: bool
    """The voucher applies only to products of one shop."""
    percentage: bool
    """The discount is a share of the total, up to `cap`; else it is `face_value`."""
    face_value: float = 0.0
    discount: float = 0.0
    cap: float = 0.0

    def payable(self, prices: list[float], shops: list[str]) -> float:
        """What is left to pay for products of these prices from these shops."""
        total = 0.0
        for price in prices:
            total += price
        if total < self.threshold or (self.shop_only and len(set(shops)) != 1):
            return total
        return max(total * (1 - self.discount), total - self.cap) if self.percentage else total - self.face_value

    def affordable(self, prices: list[float], shops: list[str]) -> bool:
        """Whether the total fits the budget, with the voucher or without."""
        return sum(prices) <= self.budget or self.payable(prices, shops) <= self.budget


class Brief(Record, frozen=True):
    """What an agent gets."""

    problem_id: str
    query: str
    category: str
    """product, shop or voucher."""
    wishes: tuple[Wish, ...] = ()
    """For scripted policies alone; () for an agent that has to read the query. Items in the order of the request."""
    offer: Offer | None = None
    """For scripted policies alone."""


def brief_of(problem: Problem, *, scripted: bool = True) -> Brief:
    """Return what an agent may know of a problem.

    Args:
        problem: with id, query, category, reward and, for vouchers, voucher.
        scripted: whether the constraints are told in exact terms, beside the words of the query.

    Raises:
        OresmithError: a problem of another kind, or one whose reward or voucher is malformed.
    """
    category = (problem.category or "").lower()
    rewards = problem.reward if isinstance(problem.reward, list) else [problem.reward]
    try:
        if not problem.problem_id or not problem.query or category not in _CATEGORIES:
            raise ValueError
        return Brief(
            problem_id=problem.problem_id,
            query=problem.query,
            category=category,
            wishes=tuple(map(_wish, rewards)) if scripted else (),
            offer=_offer(problem.voucher) if scripted and category == "voucher" else None,
        )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise OresmithError(
            "a problem cannot be played",
            where=str(problem.problem_id)[:80],
            expected="an id, a query, a category of product, shop or voucher, with reward and voucher as sn15 has them",
        ) from error


def _wish(reward: dict[str, Any]) -> Wish:
    pairs = [(key, str(value)) for options in reward.get("sku_options", ()) for key, value in options.items()]
    for attribute in reward.get("attributes", ()):
        pairs += [(key, str(value)) for key, values in attribute.items() for value in values]
    prices = [(mode, low, high) for entry in reward.get("price", ()) for mode, (low, high) in entry.items()]
    return Wish(pairs=tuple(dict.fromkeys(pairs)), prices=tuple(prices), services=tuple(reward.get("service", ())))


def _offer(voucher: dict[str, Any]) -> Offer:
    return Offer(
        budget=voucher["budget"],
        threshold=voucher["threshold"],
        shop_only=voucher["voucher_type"] == "shop",
        percentage=voucher["discount_type"] == "percentage",
        face_value=voucher.get("face_value") or 0.0,
        discount=voucher.get("discount") or 0.0,
        cap=voucher.get("cap") or 0.0,
    )
