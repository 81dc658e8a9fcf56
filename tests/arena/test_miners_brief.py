"""What a miner is told: never an answer; and what it makes of the words of a request."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.arena.miners.brief import Brief, Offer, Wish, brief_of
from oresmith.arena.miners.wording import item_words
from oresmith.arena.problems import gold_ids
from oresmith.arena.scoring_items import within_budget
from oresmith.errors import OresmithError
from oresmith.records import Problem
from tests.arena.miners_world import world

ANSWERS = {"product_id", "title", "shop_id", "price_after_voucher"}


def test_a_brief_holds_no_gold_id_no_title_and_no_field_for_them() -> None:
    for problem in world().problems:
        brief = brief_of(problem)
        told = msgspec.json.encode(msgspec.structs.replace(brief, query="")).decode()
        rewards = problem.reward if isinstance(problem.reward, list) else [problem.reward]
        assert not any(gold in told for gold in gold_ids(problem))
        assert not any(title in told for reward in rewards for title in reward["title"])
        assert len(brief.wishes) == len(rewards)
    for kind in (Brief, Wish, Offer):
        assert not ANSWERS & set(kind.__struct_fields__)


def test_a_wish_keeps_every_constraint_of_its_reward() -> None:
    for problem in world().problems:
        rewards = problem.reward if isinstance(problem.reward, list) else [problem.reward]
        for wish, reward in zip(brief_of(problem).wishes, rewards, strict=True):
            pairs = {(k, v) for option in reward.get("sku_options", ()) for k, v in option.items()}
            pairs |= {(k, v) for one in reward.get("attributes", ()) for k, values in one.items() for v in values}
            assert set(wish.pairs) == pairs
            assert wish.services == tuple(reward.get("service", ()))
            assert len(wish.prices) == sum(len(entry) for entry in reward.get("price", ()))


def test_an_unscripted_agent_is_told_the_request_alone() -> None:
    brief = brief_of(world().problems[0], scripted=False)
    assert brief.query and not brief.wishes and brief.offer is None


VOUCHERS = st.fixed_dictionaries(
    {
        "voucher_type": st.sampled_from(("shop", "platform")),
        "threshold": st.integers(1, 1500),
        "discount_type": st.sampled_from(("fixed", "percentage")),
        "face_value": st.integers(1, 300),
        "discount": st.sampled_from((0.1, 0.25, 0.5)),
        "cap": st.integers(1, 300),
        "budget": st.integers(1, 1500),
    }
)
PRICES = st.lists(st.integers(1, 500_00).map(lambda cents: cents / 100), min_size=1, max_size=4)


@given(PRICES, VOUCHERS, st.booleans())
def test_a_basket_is_affordable_for_the_miner_exactly_when_the_scorer_says_so(
    prices: list[float], voucher: dict[str, Any], one_shop: bool
) -> None:
    reward = [{"product_id": "1"}]
    offer = brief_of(Problem(problem_id="p", query="q", category="Voucher", reward=reward, voucher=voucher)).offer
    assert offer is not None
    shops = ["s"] * len(prices) if one_shop else [str(place) for place in range(len(prices))]
    total = 0.0
    for price in prices:
        total += price
    assert offer.affordable(prices, shops) == within_budget(voucher, total, len(set(shops)))


@pytest.mark.parametrize(
    "problem",
    [
        Problem(query="q", category="product", reward={"product_id": "1"}),
        Problem(problem_id="p", category="product", reward={"product_id": "1"}),
        Problem(problem_id="p", query="q", category="web", reward={"product_id": "1"}),
        Problem(problem_id="p", query="q", category="product", reward=None),
        Problem(problem_id="p", query="q", category="product", reward={"price": [{"between": 3}]}),
        Problem(problem_id="p", query="q", category="product", reward={"attributes": {"brand": "x"}}),
        Problem(problem_id="p", query="q", category="voucher", reward=[{}], voucher={"budget": 3}),
        Problem(problem_id="p", query="q", category="voucher", reward=[{}]),
    ],
)
def test_a_problem_that_cannot_be_played_is_refused_by_name(problem: Problem) -> None:
    with pytest.raises(OresmithError, match="cannot be played"):
        brief_of(problem)


def test_each_item_of_a_request_gets_its_own_words_and_none_about_money() -> None:
    query = (
        "Find a shop that sells (1) a red trail backpack from Norvale priced above 100 pesos; (2) two ceramic mugs "
        "with a striped pattern and free shipping.\n\nMy budget is only `900`, but I have a voucher of `40`."
    )
    wishes = (
        Wish(pairs=(("brand", "norvale"),), prices=(("greater than", 100, None),)),
        Wish(pairs=(("pattern", "striped"),)),
    )
    words = item_words(Brief(problem_id="p", query=query, category="shop", wishes=wishes))
    assert words[0] == ["red", "trail", "backpack", "norvale"]
    assert words[1][:3] == ["ceramic", "mugs", "striped"]


@given(st.text(max_size=300), st.integers(1, 4))
def test_any_request_gives_words_for_every_item(query: str, items: int) -> None:
    wishes = tuple(Wish(pairs=(("k", f"v{place}"),)) for place in range(items))
    words = item_words(Brief(problem_id="p", query=query, category="shop", wishes=wishes))
    assert len(words) == items
    assert json.dumps(words)
