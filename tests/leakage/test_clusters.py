"""Problems that are one are joined, others are not, and no order of anything changes that."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.leakage.clusters import ClusterParams, Clusters, cluster, extend
from oresmith.leakage.edges import EdgeKind
from oresmith.leakage.keys import problem_keys
from oresmith.leakage.table import KeyTable
from oresmith.records import Problem
from tests.leakage.examples import VOUCHER, VOUCHER_TEXT, hostile_problems, problem, related_problems, spec_reward

LONG = "Show me black cotton crew neck shirts size medium short sleeves graphic print machine washable over 50 pesos"
LOOSE = ClusterParams(largest_share=1.0)


def _partition(clusters: Clusters) -> set[frozenset[str]]:
    return {frozenset(names) for names in clusters.members().values()}


def _kinds(*problems: Problem) -> set[EdgeKind]:
    return {edge.kind for edge in cluster(problems).edges()}


def _together(*problems: Problem) -> bool:
    return cluster(problems).report.clusters == 1


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (problem("SHOW ME\n red lamps!", "b"), EdgeKind.QUERY),
        (problem("Show me red lamps." + VOUCHER_TEXT, "b", voucher=VOUCHER), EdgeKind.BASE),
        (problem("lamps red show me", "b"), EdgeKind.TOKENS),
        (problem("a chair that rocks", "a", category="shop"), EdgeKind.GOLD),
    ],
)
def test_each_key_joins_and_its_edge_says_so(other: Problem, kind: EdgeKind) -> None:
    lamp = problem("Show me red lamps", "a")
    assert _together(lamp, other)
    assert kind in _kinds(lamp, other)


def test_equal_specifications_join_only_when_they_state_enough() -> None:
    def pair(**stated: object) -> tuple[Problem, Problem]:
        rewards = [spec_reward(gold, **stated) for gold in "ab"]
        return problem("red lamps", reward=rewards[0]), problem("a chair", reward=rewards[1:])

    assert _kinds(*pair()) == {EdgeKind.SPEC}
    few = {"attributes": [{"material": ["steel"]}], "sku_options": [], "service": []}
    assert not _together(*pair(**few))
    assert not _together(*pair(attributes=[], sku_options=[]))
    assert cluster(pair(**few), ClusterParams(min_constraints=2)).report.clusters == 1


def test_a_near_wording_joins_and_keeps_its_similarity() -> None:
    left, right = problem(LONG, "a"), problem(LONG.replace("washable ", ""), "b")
    (edge,) = cluster([left, right]).edges()
    assert edge.kind is EdgeKind.WORDING
    assert edge.value == f"{15 / 16:.4f}"


def test_another_product_in_the_same_words_stays_apart_and_is_counted() -> None:
    report = cluster([problem(LONG, "a"), problem(LONG.replace("shirts", "curtains"), "b")]).report
    assert (report.clusters, report.one_value_pairs) == (2, 1)


def test_a_word_that_only_one_gold_title_has_is_another_product() -> None:
    def titled(query: str, gold: str, title: str) -> Problem:
        return problem(query, reward={"product_id": gold, "title": [title]})

    short = LONG.replace("shirts ", "")
    shirt, rack = titled(LONG, "a", "Cotton shirts black"), titled(short, "b", "Cotton rack black")
    assert not _together(shirt, rack)
    assert _together(shirt, titled(short, "b", "Cotton shirts black"))
    swapped = titled(LONG.replace("neck", "collar"), "b", "Cotton shirts black")
    assert _together(shirt, swapped)


def test_rows_of_one_problem_may_come_in_any_order_whatever_their_titles() -> None:
    titles = ("Cotton shirts black", "Cotton rack black")
    rows = [problem(LONG, reward={"product_id": "a", "title": [title]}) for title in titles]
    short = problem(LONG.replace("shirts ", ""), reward={"product_id": "b", "title": [titles[1]]})
    assert cluster([*rows, short]).report == cluster([short, *rows[::-1]]).report


def test_a_chain_of_different_reasons_is_one_cluster() -> None:
    chain = [problem("red lamps", "a"), problem("a chair", reward=[{"product_id": "a"}, {"product_id": "b"}])]
    chain += [problem("a sofa", "b"), problem("sofa" + VOUCHER_TEXT, "c", voucher=VOUCHER), problem("SOFA", "d")]
    clusters = cluster(chain)
    assert clusters.report.sizes == {5: 1}
    assert clusters.report.glue[0].edges >= 1


def test_a_hub_costs_one_edge_a_problem_and_key() -> None:
    hub = [problem(f"thing number{n} of its own", "hub") for n in range(40)]
    assert cluster(hub).report.edges == {EdgeKind.GOLD: 39}


def test_what_is_missing_joins_nothing() -> None:
    empty = [Problem(query=query, problem_id=str(n)) for n, query in enumerate([None, "", "?!", VOUCHER_TEXT.strip()])]
    assert cluster(empty).report.clusters == 4


def test_no_problem_is_no_cluster() -> None:
    report = cluster([]).report
    assert (report.problems, report.clusters, report.largest, report.sizes) == (0, 0, 0, {})


def test_a_cluster_over_the_bound_is_refused_and_its_glue_named() -> None:
    many = [problem(f"thing number{n}", "everywhere") for n in range(60)]
    with pytest.raises(OresmithError, match="59 by gold everywhere") as refusal:
        cluster(many)
    assert refusal.value.exit_code == 2
    assert cluster(many, LOOSE).report.largest == 60


def test_pairs_found_by_other_means_are_joined() -> None:
    left, right = problem("red lamps", "a"), problem("lampes rouges", "b")
    names = [problem_keys(one).problem for one in (left, right)]
    clusters = cluster([left, right], given=[(names[1], names[0], 0.91), (names[0], "f" * 64, 0.99)])
    (edge,) = clusters.edges()
    assert (edge.kind, edge.value) == (EdgeKind.GIVEN, "0.9100")


def test_a_grown_cluster_keeps_its_id_and_a_merged_one_gets_an_alias() -> None:
    first = cluster([problem("red lamps", "a")])
    second = extend(first, [problem("a chair", "b")])
    bridge = problem("a sofa", reward=[{"product_id": "a"}, {"product_id": "b"}])
    third = extend(second, [bridge])
    old, newer = (problem_keys(one).problem for one in (problem("red lamps", "a"), problem("a chair", "b")))
    assert set(third.members()) == {old}
    assert third.aliases == {newer: old}
    assert extend(third, [problem("a bed", "c")]).aliases == {newer: old}


def test_what_was_together_stays_together_when_nothing_says_why() -> None:
    left, right = problem("red lamps", "a"), problem("lampes rouges", "b")
    names = [problem_keys(one).problem for one in (left, right)]
    grown = extend(cluster([left, right], given=[(names[0], names[1], 0.9)]), [problem("a bed", "c")])
    assert {edge.kind for edge in grown.edges()} == {EdgeKind.EARLIER}


@settings(max_examples=60, deadline=None)
@given(st.lists(related_problems(), max_size=25), st.randoms(use_true_random=False), st.integers(1, 4))
def test_neither_order_nor_pieces_change_the_clusters(problems: list[Problem], rng: random.Random, pieces: int) -> None:
    whole = cluster(problems, LOOSE)
    shuffled = rng.sample(problems, len(problems))
    parts = [KeyTable.read(shuffled[start::pieces]) for start in range(pieces)]
    again = cluster(KeyTable.concat(parts), LOOSE)
    assert list(again.assignments()) == list(whole.assignments())
    assert list(again.edges()) == list(whole.edges())
    assert again.report == whole.report


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(related_problems(), max_size=6), min_size=1, max_size=5))
def test_growth_changes_no_id_and_ends_where_one_step_would(batches: list[list[Problem]]) -> None:
    grown = cluster(batches[0], LOOSE)
    for batch in batches[1:]:
        before, grown = grown, extend(grown, batch)
        known = {**grown.aliases, **{name: name for name in grown.members()}}
        now = dict(grown.assignments())
        assert all(now[name] == known[cluster_id] for name, cluster_id in before.assignments())
        assert set(before.aliases) <= set(grown.aliases)
    at_once = cluster([one for batch in batches for one in batch], LOOSE)
    assert _partition(grown) == _partition(at_once)


@settings(max_examples=40, deadline=None)
@given(st.lists(hostile_problems, max_size=6))
def test_no_json_makes_clustering_fail(problems: list[Problem]) -> None:
    clusters = cluster(problems, LOOSE)
    assert sum(size * count for size, count in clusters.report.sizes.items()) == clusters.report.problems
    assert [keys.problem for keys in clusters.table.rows()] == sorted({problem_keys(one).problem for one in problems})
