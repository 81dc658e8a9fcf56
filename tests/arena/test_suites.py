"""Suites: solvable, hard to guess, of their level, and the same for everybody."""

from __future__ import annotations

import itertools
import random
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from oresmith.arena.documents import Document
from oresmith.arena.problems import load_problems
from oresmith.arena.scoring import score
from oresmith.arena.suites import LEVELS, Suite, SuiteProblem, collisions, definition_of, make_suite, suite_jsonl
from oresmith.arena.suites.make import truth_rows
from oresmith.arena.suites.wording import SERVICE_WORDS, key_words, reference_query, value_words
from oresmith.errors import OresmithError
from tests.arena.suites_build import (
    HIDDEN,
    OPEN,
    catalogue_of,
    hidden_suite,
    open_suite,
    recommending,
    rewards_of,
    shop_of,
)
from tests.arena.suites_shop import NaiveShop

SEEDS = (1, 2, 3)


def all_problems() -> Iterator[tuple[NaiveShop, SuiteProblem]]:
    for seed in SEEDS:
        for made in [*open_suite(seed).problems, *hidden_suite(seed).problems]:
            yield shop_of(seed), made


def succeeds(made: SuiteProblem, ids: list[str], shop: NaiveShop) -> bool:
    return score(made.problem, recommending(ids), catalogue_of(shop)).success


def test_recommending_the_golds_solves_every_problem() -> None:
    for shop, made in all_problems():
        assert succeeds(made, made.plan.golds(), shop), made.problem.query


def test_every_gold_meets_all_that_its_reward_states_and_states_a_pair() -> None:
    for shop, made in all_problems():
        for reward in rewards_of(made):
            assert reward.get("attributes") or reward.get("sku_options")
            stranger = {**reward, "product_id": "none"}
            problem = type(made.problem)(category="product", query="q", reward=stranger)
            assert score(problem, recommending([reward["product_id"]]), catalogue_of(shop)).score["rule"] == 1


def test_voucher_problems_need_their_voucher_as_often_as_was_asked_for() -> None:
    for seed in SEEDS:
        vouchers = [made for made in open_suite(seed).problems if made.variant == "base" and made.problem.voucher]
        products = catalogue_of(shop_of(seed))
        needed = [
            sum(products[gold].price for gold in made.plan.golds()) > made.problem.voucher["budget"]
            for made in vouchers
        ]
        assert statistics.fmean(needed) >= 0.9
        assert {made.problem.voucher["voucher_type"] for made in vouchers} == {"platform", "shop"}


def test_the_query_says_every_constraint_of_the_reward() -> None:
    for _, made in all_problems():
        query, literal = str(made.problem.query), LEVELS[made.level].literal
        for wish in made.plan.wishes:
            for constraint in wish.constraints:
                if constraint.kind == "price":
                    assert all(str(side) in query for side in (constraint.low, constraint.high) if side is not None)
                elif constraint.kind == "service":
                    assert any(words in query for words in SERVICE_WORDS[constraint.value])
                elif constraint.value.lower() in ("yes", "no"):
                    assert key_words(constraint.key) in query
                    assert re.search(rf"\b{constraint.value.lower()}\b", query)
                elif literal:
                    assert value_words(constraint.value, True) in query
        if made.problem.voucher is not None:
            assert f"`{made.problem.voucher['budget']}`" in query
            assert f"`{made.problem.voucher['threshold']}`" in query


def test_every_problem_stays_within_the_bounds_of_its_level() -> None:
    for shop, made in all_problems():
        level, wishes = LEVELS[made.level], made.plan.wishes
        assert len(wishes) == level.products[str(made.problem.category)]
        ranks = []
        for wish in wishes:
            assert level.constraints[0] <= len(wish.constraints) <= level.constraints[1]
            price, service = wish.filters
            pages = [
                shop.find_product(reference_query(wish), page=page, price=price, service=service)
                for page in range(1, 6)
            ]
            hits = [hit["product_id"] for page in pages for hit in page]
            ranks.append(hits.index(wish.gold.product_id) + 1)
        assert max(ranks) <= level.rank[1]
        assert max(ranks) >= level.rank[0]
        assert all(standing.near >= (level.near if len(wishes) == 1 else 1) for standing in made.standings)
        assert not level.details or any(standing.details for standing in made.standings)


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("query", ["verbatim", "keywords", "reference"])
@pytest.mark.parametrize("seed", SEEDS)
def test_on_the_easiest_level_no_judgement_succeeds_on_less_than_a_fifth(seed: int, query: str, filtered: bool) -> None:
    """Measured anew, by the scorer, with recommendations of the first hits and of all combinations of hits."""
    shop, first, anyone = shop_of(seed), [], []
    problems = [made for made in open_suite(seed).problems if made.level == "L1"]
    assert len(problems) >= 15
    for made in problems:
        request, wishes = made.plan.request(), made.plan.wishes
        if query == "verbatim":
            price, service = wishes[0].filters if filtered and len(wishes) == 1 else (None, None)
            page = [hit["product_id"] for hit in shop.find_product(request.query, price=price, service=service)]
            lists = [page] * len(wishes)
            chosen = page[: len(wishes)]
        else:
            words = request.keywords if query == "keywords" else [reference_query(wish) for wish in wishes]
            lists = []
            for wish, text in zip(wishes, words, strict=True):
                price, service = wish.filters if filtered else (None, None)
                lists.append([hit["product_id"] for hit in shop.find_product(text, price=price, service=service)])
            chosen = [page[0] for page in lists]
        first.append(succeeds(made, chosen, shop))
        combinations = list(itertools.product(*lists))
        anyone.append(statistics.fmean(succeeds(made, list(ids), shop) for ids in combinations))
    assert statistics.fmean(first) < 0.2
    assert statistics.fmean(anyone) < 0.2


def test_the_report_tells_what_policies_without_judgement_reach() -> None:
    for seed in SEEDS:
        report = open_suite(seed).report
        assert set(LEVELS) <= set(report["baselines"])
        assert all(share <= 0.1601 for cell in report["baselines"].values() for share in cell.values())
        assert report["counts"]["variant"]["base"] == 35
        assert report["problems"] == len(open_suite(seed).problems) == open_suite(seed).definition.size


def test_the_order_of_the_documents_changes_nothing() -> None:
    definition, documents = definition_of(OPEN, "open.yaml"), list(shop_of(1).documents)
    random.Random(5).shuffle(documents)
    again = make_suite(definition, documents, NaiveShop(documents), 1)
    assert suite_jsonl(again) == suite_jsonl(open_suite(1))
    assert truth_rows(again) == truth_rows(open_suite(1))


def test_another_seed_shares_no_gold_and_no_query() -> None:
    for one, other in itertools.combinations(SEEDS, 2):
        common = collisions(open_suite(one).problems, open_suite(other).problems)
        assert common["golds"] == common["queries"] == []


def test_collisions_of_specifications_are_reported() -> None:
    made = open_suite(1).problems
    twins = [one for one in made if one.variant == "same_specification"]
    common = collisions([one for one in made if one.variant == "base"], twins)
    assert common["golds"] == common["queries"] == []
    assert common["specifications"] == sorted(one.cluster for one in twins)


def test_what_is_avoided_shares_nothing() -> None:
    definition = definition_of({**OPEN, "suite": "next", "variants": {}}, "next.yaml")
    shop = shop_of(1)
    other = make_suite(definition, shop.documents, shop, 1, avoid=[open_suite(1)])
    assert not any(collisions(open_suite(1).problems, other.problems).values())


def test_ids_are_unique_and_names_of_the_content() -> None:
    for seed in SEEDS:
        ids = [made.problem_id for made in [*open_suite(seed).problems, *hidden_suite(seed).problems]]
        assert len(set(ids)) == len(ids)
    renamed = definition_of({**OPEN, "version": 2}, "open.yaml")
    shop = shop_of(1)
    other = make_suite(renamed, shop.documents, shop, 1)
    assert not {made.problem_id for made in other.problems} & {made.problem_id for made in open_suite(1).problems}


def test_a_suite_is_read_back_as_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "suite.jsonl"
    path.write_bytes(suite_jsonl(open_suite(1)))
    assert list(load_problems(path)) == [made.problem for made in open_suite(1).problems]
    assert b'"category":"Voucher"' in path.read_bytes()


def test_queries_hold_no_truth() -> None:
    for _, made in all_problems():
        query = str(made.problem.query)
        assert not any(gold in query for gold in made.plan.golds())
        assert "{" not in query and "  " not in query and "None" not in query


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "needs a catalogue"),
        ([Document(product_id="1", shop_id="s", title="Lamp", price=10, attributes={"color": ["red"]})], "product L1"),
    ],
)
def test_a_catalogue_that_is_too_poor_is_refused_by_name(documents: list[Document], message: str) -> None:
    with pytest.raises(OresmithError, match=message):
        make_suite(definition_of(OPEN, "open.yaml"), documents, NaiveShop(documents), 1)


def test_more_variants_than_the_problems_give_are_refused_by_name() -> None:
    definition = definition_of({**OPEN, "counts": {"product": {"L1": 1}}, "variants": {"voucher_wording": 1}}, "o")
    shop = shop_of(1)
    with pytest.raises(OresmithError, match="variants: voucher_wording"):
        make_suite(definition, shop.documents, shop, 1)


@pytest.mark.parametrize("base", [False, True])
def test_variants_of_another_suite_need_that_suite(base: bool) -> None:
    definition = definition_of(OPEN if base else HIDDEN, "suite.yaml")
    given: Suite | None = open_suite(1) if base else None
    with pytest.raises(OresmithError, match="variants_of"):
        make_suite(definition, shop_of(1).documents, shop_of(1), 1, base=given)
