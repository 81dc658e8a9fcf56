"""The parts of a suite: vouchers whose sums are right, words that say what is meant, and a real catalogue below."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.arena.catalogue import Product
from oresmith.arena.documents import Document, product_of, read_documents
from oresmith.arena.scoring_items import within_budget
from oresmith.arena.suites import Constraint, Wish, check_suite, definition_of, make_suite
from oresmith.arena.suites.requests import VOUCHER_WORDINGS, request_of, voucher_text
from oresmith.arena.suites.vouchers import fault_of, make_voucher, needs
from oresmith.arena.suites.wishes import draw, meets, pair_constraints, price_constraint, sayable, stated_of
from oresmith.arena.suites.wording import constraint_said, key_words, wish_said
from tests.arena.suites_shop import NaiveShop
from tests.shared import CATALOGUE, needs_shared

prices = st.floats(0, 1e6, allow_nan=False).map(lambda price: round(price, 2))


@given(st.lists(prices, min_size=1, max_size=4), st.sampled_from(["platform", "shop"]), st.booleans(), st.integers())
def test_the_sums_of_a_voucher_are_right(basket: list[float], kind: str, needed: bool, seed: int) -> None:
    products = [Product(product_id=str(n), shop_id="s", title="t", price=price) for n, price in enumerate(basket)]
    voucher = make_voucher(products, kind, random.Random(seed), needed=needed)
    if voucher is None:
        assert needed or sum(basket) < 20.01
        return
    assert fault_of(voucher, products) is None
    assert needs(voucher, products) is needed
    assert within_budget(voucher, sum(basket), 1)
    assert needed is not within_budget({**voucher, "threshold": 10**9}, sum(basket), 1)


@given(st.floats(0, 1e9, allow_nan=False), st.integers())
def test_a_price_range_holds_its_price(price: float, seed: int) -> None:
    found = price_constraint(price, random.Random(seed))
    if found is not None:
        assert (found.low is None or found.low <= price) and (found.high is None or price <= found.high)
        stated = {"product_id": "", "price": [{found.key: [found.low, found.high]}]}
        assert meets(Product(product_id="1", price=price), stated) == 1


@given(
    st.dictionaries(st.text(max_size=9), st.lists(st.text(max_size=50), max_size=3), max_size=6),
    st.dictionaries(st.text(max_size=2), st.dictionaries(st.text(max_size=9), st.text(max_size=50), max_size=4)),
    st.integers(),
)
def test_drawn_pairs_are_met_by_their_document(
    attributes: dict[str, list[str]], skus: dict[str, dict[str, str]], seed: int
) -> None:
    document = Document(product_id="1", shop_id="s", title="t", price=1, attributes=attributes, sku_options=skus)
    pairs = pair_constraints(document, random.Random(seed))
    assert len({pair.key for pair in pairs}) == len(pairs)
    assert all(sayable(pair.value) for pair in pairs)
    if pairs:
        assert meets(product_of(document), stated_of(Wish(document, "thing", tuple(pairs)).reward())) == 1


LAMP = Document(product_id="77", shop_id="s", title="Desk Lamp", price=250)
STATED = (
    Constraint("attribute", "color_family", "white"),
    Constraint("sku", "fa_pattern", "plain"),
    Constraint("attribute", "waterproof", "no"),
    Constraint("service", "", "freeShipping"),
    Constraint("price", "between", low=200, high=300),
)


@given(st.permutations(STATED), st.booleans(), st.text(max_size=4))
def test_another_order_of_constraints_takes_the_same_words(order: list[Constraint], literal: bool, seed: str) -> None:
    said = [wish_said(Wish(LAMP, "desk lamp", tuple(one)), literal, seed) for one in (STATED, order)]
    first, second = (sorted(one.keywords.split()) for one in said)
    assert first == second
    bare = [sorted(one.text.replace(",", "").replace(" and ", " ").split()) for one in said]
    assert [word for word in bare[0] if word not in ("a", "an")] == [w for w in bare[1] if w not in ("a", "an")]


def test_one_request_is_worded_in_many_ways() -> None:
    wish = Wish(LAMP, "desk lamp", STATED[:3])
    assert len({request_of("product", [wish], True, seed).query for seed in range(200)}) > 150
    said = {constraint_said(STATED[3], True, seed).text for seed in range(60)}
    assert len(said) == 5


@pytest.mark.parametrize("wording", range(VOUCHER_WORDINGS))
@pytest.mark.parametrize("kind", ["platform", "shop"])
def test_every_wording_of_a_voucher_says_all_its_numbers(wording: int, kind: str) -> None:
    voucher = {"voucher_type": kind, "threshold": 111, "face_value": 222, "discount": None, "cap": None, "budget": 555}
    fixed = voucher_text({**voucher, "discount_type": "fixed"}, wording)
    assert all(f"`{number}`" in fixed for number in (111, 222, 555))
    share = voucher_text({**voucher, "discount_type": "percentage", "discount": 0.07, "cap": 333}, wording)
    assert all(f"`{number}`" in share for number in (111, 333, 555, "7%"))
    other = "shop" if kind == "platform" else "platform"
    assert fixed != voucher_text({**voucher, "discount_type": "fixed", "voucher_type": other}, wording)


@pytest.mark.parametrize(
    ("key", "said"),
    [("color_family", "color"), ("fa_pattern", "pattern"), ("units_hb", "units"), ("upper_material", "upper material")],
)
def test_keys_are_said_as_people_say_them(key: str, said: str) -> None:
    assert key_words(key) == said


@pytest.mark.parametrize("value", ["", " red", "a\nb", "`x`", "x" * 41, "N/A", "no brand", "---"])
def test_values_that_nobody_says_are_not_asked_for(value: str) -> None:
    assert not sayable(value)


def test_draws_do_not_depend_on_the_machine() -> None:
    assert [draw("abcdefgh", "key", number) for number in range(8)] == list("ceaffaad")


@needs_shared
def test_suites_are_made_over_a_real_catalogue_too() -> None:
    shop = NaiveShop(read_documents(CATALOGUE))
    counts = {"product": {"L1": 4, "L2": 2, "L3": 1}, "shop": {"L1": 2, "L2": 1}, "voucher": {"L1": 4}}
    variants = {"paraphrase": 2, "order": 2, "voucher_wording": 2, "gold": 1}
    definition = definition_of({"suite": "real", "version": 1, "counts": counts, "variants": variants}, "real.yaml")
    suite = make_suite(definition, shop.documents, shop, 1)
    assert not check_suite([made.problem for made in suite.problems], shop).faults
    assert all(share <= 0.1601 for share in suite.report["baselines"]["L1"].values())
