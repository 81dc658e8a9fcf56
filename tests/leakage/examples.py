"""Small problems for the tests of `oresmith.leakage`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from oresmith.records import Problem
from tests.shared import SHARED, needs_shared  # noqa: F401  re-exported to the tests beside it

VOUCHER = {
    "voucher_type": "platform",
    "threshold": 170,
    "discount_type": "percentage",
    "face_value": None,
    "discount": 0.34,
    "cap": 60,
    "price_after_voucher": 419.0,
    "budget": 1425,
}
VOUCHER_TEXT = (
    "\n\nMy budget is only `1425`, but I have a voucher with the following rules:\n"
    "1. The voucher applies to all products.\n"
    "2. It is valid only when the total price of the products exceeds `170`.\n"
    "3. It provides a percentage discount of `34%` with a cap of `60`."
)


def problem(query: str | None, gold: Any = None, category: str = "product", **more: Any) -> Problem:
    """A problem whose reward has one gold id, unless `reward` is given."""
    reward = more.pop("reward", {"product_id": gold, "title": ["T"]} if gold is not None else None)
    return Problem(query=query, reward=reward, category=category, **more)


def spec_reward(gold: str, **more: Any) -> dict[str, Any]:
    """A reward that states enough to be a key."""
    reward: dict[str, Any] = {
        "product_id": gold,
        "title": [f"Title of {gold}"],
        "attributes": [{"material": ["steel"]}, {"brand": ["Acme"]}],
        "sku_options": [{"size": "12 inch"}],
        "price": [{"between": [50, 75.5]}],
        "service": ["COD", "freeShipping"],
    }
    return reward | more


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
field_names = st.sampled_from(["product_id", "title", "attributes", "sku_options", "price", "service"])
reward_like = st.dictionaries(field_names, json_values, max_size=6)
hostile_rewards = json_values | reward_like | st.lists(reward_like | json_values, max_size=4)
voucher_fields = st.sampled_from(["budget", "threshold", "face_value", "discount", "cap"])
hostile_vouchers = json_values | st.dictionaries(voucher_fields, json_values, max_size=5)
hostile_problems = st.builds(
    Problem,
    problem_id=st.none() | st.text(max_size=5),
    query=st.none()
    | st.text(alphabet=st.characters(), max_size=60)
    | st.from_regex(r"(my budget is \d+ voucher \d+ ?)+"),
    reward=hostile_rewards,
    voucher=hostile_vouchers,
)


@st.composite
def related_problems(draw: st.DrawFn) -> Problem:
    """Problems of a small world, so that many share a gold id, a wording or a specification."""
    nouns = st.sampled_from(["hammer", "drill", "saw", "lamp", "chair", "kettle"])
    query = f"Show me a {draw(st.sampled_from(['red', 'blue']))} {draw(nouns)} over {draw(st.integers(1, 3))} pesos"
    if draw(st.booleans()):
        query += VOUCHER_TEXT
    golds = draw(st.lists(st.integers(1, 12), max_size=2))
    reward: list[dict[str, Any]] = [{"product_id": f"g{gold}"} for gold in golds]
    if draw(st.integers(0, 3)) == 0:
        reward.append(spec_reward(f"g{draw(st.integers(20, 40))}", price=[{"between": [draw(st.integers(1, 4)), 9]}]))
    return Problem(query=query, reward=reward or None, category=draw(st.sampled_from(["product", "shop"])))
