"""Small well-formed pieces of a dialogue, to be bent by the tests."""

from typing import Any

from oresmith.arena.catalogue import Product
from oresmith.records import Problem


def call(name: str, **parameters: Any) -> dict[str, Any]:
    return {"name": name, "parameters": parameters, "tool_call_id": "x", "result": "ok"}


def recommend(ids: Any) -> dict[str, Any]:
    return call("recommend_product", product_ids=ids)


def step(*calls: Any, think: Any = "I compare.", **parts: Any) -> dict[str, Any]:
    message = {"think": think, "tool_call": list(calls), **parts}
    return {"completion": {"message": message}, "extra_info": {"timestamp": 1_777_000_000_000}}


def finish(ids: Any) -> list[Any]:
    """A search, then recommendation and end in one step."""
    return [step(call("find_product", q="mug")), step(recommend(ids), call("terminate", status="success"))]


def product(product_id: str, **fields: Any) -> Product:
    defaults: dict[str, Any] = {"shop_id": "s1", "title": "Mug", "price": 10.0, "service": [], "sku_options": {}}
    return Product(product_id=product_id, **{"attributes": {}, **defaults, **fields})


def by_id(*products: Product) -> dict[str, Product]:
    return {item.product_id: item for item in products}


def product_problem(**reward: Any) -> Problem:
    return Problem(category="product", query="q", reward={"product_id": "gold", **reward})


def shop_problem(*golds: str) -> Problem:
    rewards = [{"product_id": gold, "title": ["Mug"], "service": ["COD"]} for gold in golds]
    return Problem(category="shop", query="q", reward=rewards)


def voucher_problem(budget: float, *golds: str, **voucher: Any) -> Problem:
    terms = {"voucher_type": "platform", "threshold": 15, "discount_type": "fixed", "face_value": 5}
    rewards = [{"product_id": gold} for gold in golds]
    return Problem(category="voucher", query="q", reward=rewards, voucher={**terms, "budget": budget, **voucher})
