"""Variants are their base problem in disguise, and the truth says of which."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from oresmith.arena.suites import SuiteProblem
from oresmith.leakage.clusters import cluster
from oresmith.leakage.keys import problem_keys
from tests.arena.suites_build import VARIANTS, hidden_suite, open_suite, rewards_of

SEEDS = (1, 2, 3)
EVERYTHING = [made for seed in SEEDS for made in [*open_suite(seed).problems, *hidden_suite(seed).problems]]
BY_ID = {made.problem_id: made for made in EVERYTHING}


def variants(kind: str) -> list[tuple[SuiteProblem, SuiteProblem]]:
    """(variant, its base) of one kind."""
    found = [(made, BY_ID[made.cluster]) for made in EVERYTHING if made.variant == kind]
    assert len(found) >= 3 * VARIANTS[kind]
    return found


def words(text: object) -> Counter[str]:
    return Counter(re.findall(r"[\w.%]*\w", str(text).lower()))


def stated(made: SuiteProblem) -> list[dict[str, object]]:
    return [{k: v for k, v in reward.items() if k not in ("product_id", "title")} for reward in rewards_of(made)]


def test_a_base_problem_is_its_own_cluster_and_variants_stand_in_that_of_a_base() -> None:
    for made in EVERYTHING:
        assert BY_ID[made.cluster].variant == "base"
        assert (made.cluster == made.problem_id) is (made.variant == "base")
        assert made.level == BY_ID[made.cluster].level


def test_a_paraphrase_keeps_the_reward_and_no_sentence() -> None:
    for made, base in variants("paraphrase"):
        assert made.problem.reward == base.problem.reward
        assert made.problem.query != base.problem.query


def test_another_order_keeps_the_words_and_what_is_wanted() -> None:
    for made, base in variants("order"):
        assert made.problem.query != base.problem.query
        kept = {"first", "second", "third", "fourth", "lastly", "and", "also", "a", "an"}
        before, after = words(base.problem.query), words(made.problem.query)
        assert {word: before[word] for word in before if word not in kept} == {
            word: after[word] for word in after if word not in kept
        }
        assert sorted(made.plan.golds()) == sorted(base.plan.golds())
        assert made.plan.specification() == base.plan.specification()


def test_another_voucher_wording_changes_the_rules_text_alone() -> None:
    for made, base in variants("voucher_wording"):
        assert (made.problem.reward, made.problem.voucher) == (base.problem.reward, base.problem.voucher)
        own, other = (str(one.problem.query).split("\n\n", 1) for one in (made, base))
        assert own[0] == other[0]
        assert own[1] != other[1]


def test_the_same_gold_is_asked_for_by_other_constraints() -> None:
    for made, base in variants("gold"):
        assert made.plan.golds() == base.plan.golds()
        assert made.plan.specification() != base.plan.specification()


def test_the_same_specification_has_other_golds_and_another_query() -> None:
    for made, base in variants("same_specification"):
        assert not set(made.plan.golds()) & set(base.plan.golds())
        assert stated(made) == stated(base)
        assert made.problem.query != base.problem.query


def test_planted_variants_are_of_the_open_suite_and_all_else_is_new() -> None:
    for seed in SEEDS:
        opened = {gold for made in open_suite(seed).problems for gold in made.plan.golds()}
        bases = {made.problem_id for made in open_suite(seed).problems}
        for made in hidden_suite(seed).problems:
            assert (made.cluster in bases) is (made.variant != "base")
            assert made.variant != "base" or not opened & set(made.plan.golds())


@pytest.mark.parametrize("seed", SEEDS)
def test_the_clusters_that_are_found_are_the_true_ones(seed: int) -> None:
    """Nothing but the disguise joins two problems, and every disguise is seen through."""
    made = [*open_suite(seed).problems, *hidden_suite(seed).problems]
    name_of = {problem_keys(one.problem).problem: one for one in made}
    found = {name_of[name].problem_id: group for name, group in cluster([one.problem for one in made]).assignments()}
    for one in made:
        assert found[one.problem_id] == found[one.cluster]
    assert len(set(found.values())) == len({one.cluster for one in made})
