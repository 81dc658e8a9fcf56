"""Vouchers whose sums are right for a basket: threshold, discount, cap, the price after it, and the budget."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from oresmith.arena.catalogue import Product
from oresmith.arena.scoring_items import total_price


def discounted(voucher: dict[str, Any], total: float) -> float:
    """What a total is after the voucher, its threshold and scope left aside: the scorer's sum.

    Raises:
        KeyError, TypeError, ValueError: a voucher that is none.
    """
    if voucher["discount_type"] == "fixed":
        return float(total - voucher["face_value"])
    if voucher["discount_type"] == "percentage":
        return float(max(total * (1 - voucher["discount"]), total - voucher["cap"]))
    raise ValueError("discount_type is neither fixed nor percentage")


def make_voucher(products: Sequence[Product], kind: str, rng: random.Random, *, needed: bool) -> dict[str, Any] | None:
    """A voucher for a basket.

    Args:
        products: the gold products, in order.
        kind: platform or shop.
        rng: of this voucher.
        needed: whether the basket fits the budget by the voucher alone; else it fits as it is.

    Returns:
        The voucher in the form of sn15.md section 2; None where whole pesos leave no room between the discounted and
        the full price.
    """
    total = total_price(list(products))
    if total < 20:
        return None
    voucher: dict[str, Any] = {
        "voucher_type": kind,
        "threshold": max(1, int(total * rng.uniform(0.15, 0.95))),
        "discount_type": rng.choice(("fixed", "percentage")),
        "face_value": None,
        "discount": None,
        "cap": None,
    }
    if voucher["discount_type"] == "fixed":
        voucher["face_value"] = max(1, int(total * rng.uniform(0.06, 0.45)))
    else:
        percent = rng.randint(8, 50)
        voucher["discount"] = percent / 100
        # Half of the caps bind, so that the sum cannot be done without them.
        voucher["cap"] = max(1, int(total * percent / 100 * rng.choice((rng.uniform(0.4, 0.95), rng.uniform(1.05, 2)))))
    after = discounted(voucher, total)
    low, high = math.ceil(after), math.ceil(total) - 1
    if needed:
        if low > high:
            return None
        budget = min(high, math.ceil(after * rng.uniform(1.0, 1.08)))
    else:
        budget = math.ceil(total * rng.uniform(1.0, 1.1))
    return voucher | {"price_after_voucher": round(after, 4), "budget": budget}


def fault_of(voucher: dict[str, Any], products: Sequence[Product]) -> str | None:
    """What is wrong with a voucher's sums for its gold basket; None where they are right.

    Checked: the scope (`shop` wants one shop), the threshold, `price_after_voucher` to a hundredth, and the budget.
    """
    total = total_price(list(products))
    shops = len({product.shop_id for product in products})
    if voucher["voucher_type"] not in ("platform", "shop"):
        return "voucher_type is neither platform nor shop"
    if voucher["voucher_type"] == "shop" and shops > 1:
        return "a shop's voucher over products of several shops"
    if total < voucher["threshold"]:
        return "the gold basket does not reach the threshold"
    after = discounted(voucher, total)
    stated = voucher.get("price_after_voucher")
    if stated is not None and abs(stated - after) > 0.01:
        return f"price_after_voucher is {stated}, the sum is {after:.4f}"
    if min(after, total) > voucher["budget"]:
        return "the gold basket does not fit the budget"
    return None


def needs(voucher: dict[str, Any], products: Sequence[Product]) -> bool:
    """Whether the gold basket fits the budget by the voucher alone."""
    return total_price(list(products)) > float(voucher["budget"])
