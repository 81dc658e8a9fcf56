"""Suites over small worlds for the tests of `oresmith.arena.suites`."""

from __future__ import annotations

from functools import cache
from typing import Any

from oresmith.arena.documents import product_of
from oresmith.arena.suites import Suite, SuiteProblem, definition_of, make_suite
from oresmith.arena.world import documents
from tests.arena.suites_shop import NaiveShop

SIZE = 4000
COUNTS = {
    "product": {"L1": 7, "L2": 3, "L3": 2, "L4": 2, "L5": 1},
    "shop": {"L1": 3, "L2": 2, "L3": 1, "L4": 1, "L5": 1},
    "voucher": {"L1": 7, "L2": 2, "L3": 1, "L4": 1, "L5": 1},
}
VARIANTS = {"paraphrase": 3, "order": 3, "voucher_wording": 2, "gold": 3, "same_specification": 2}
OPEN: dict[str, Any] = {"suite": "open", "version": 1, "counts": COUNTS, "variants": VARIANTS}
HIDDEN: dict[str, Any] = {
    "suite": "hidden",
    "version": 1,
    "pool": "heldout",
    "counts": {"product": {"L1": 3, "L2": 3, "L3": 2}, "shop": {"L1": 1, "L2": 1}, "voucher": {"L1": 2}},
    "variants": {"paraphrase": 2, "order": 1, "voucher_wording": 1, "gold": 1, "same_specification": 1},
    "variants_of": "open.yaml",
}


@cache
def shop_of(seed: int) -> NaiveShop:
    """The search of a small world."""
    return NaiveShop(documents(seed, SIZE))


@cache
def open_suite(seed: int) -> Suite:
    """A suite with variants of its own problems."""
    shop = shop_of(seed)
    return make_suite(definition_of(OPEN, "open.yaml"), shop.documents, shop, seed)


@cache
def hidden_suite(seed: int) -> Suite:
    """A suite with planted variants of the open one."""
    shop = shop_of(seed)
    return make_suite(definition_of(HIDDEN, "hidden.yaml"), shop.documents, shop, seed, base=open_suite(seed))


def rewards_of(made: SuiteProblem) -> list[dict[str, Any]]:
    """The rewards as a list, whatever the category."""
    reward = made.problem.reward
    return reward if isinstance(reward, list) else [reward]


def recommending(ids: list[str]) -> list[dict[str, Any]]:
    """A dialogue that recommends products and says nothing."""
    call = {"name": "recommend_product", "parameters": {"product_ids": ",".join(ids)}}
    return [{"completion": {"message": {"think": "", "tool_call": [call], "response": ""}}, "extra_info": {}}]


def catalogue_of(shop: NaiveShop) -> dict[str, Any]:
    """Products by id, as the scorer reads them."""
    return {document.product_id: product_of(document) for document in shop.documents}
