"""What must hold on the public problems themselves."""

from __future__ import annotations

import re
from functools import cache

from oresmith.arena.problems import load_problems
from oresmith.leakage.clusters import cluster
from oresmith.leakage.edges import EdgeKind
from oresmith.leakage.keys import problem_keys
from oresmith.leakage.leaks import Row, find_leaks
from oresmith.records import Problem
from tests.leakage.examples import SHARED, needs_shared

pytestmark = needs_shared


@cache
def _problems(*kinds: str) -> list[Problem]:
    return list(load_problems(*(SHARED / "shoppingbench" / f"synthesize_{kind}_test.jsonl" for kind in kinds)))


def _three() -> list[Problem]:
    return _problems("product", "shop", "voucher")


def test_the_test_problems_have_thirteen_clusters_of_two_by_shared_gold() -> None:
    report = cluster(_three()).report
    assert report.sizes == {1: 724, 2: 13}
    assert report.edges == {EdgeKind.GOLD: 25}
    assert report.unexamined_pairs == 0


def test_voucher_problems_that_share_boilerplate_stay_apart() -> None:
    vouchers = _problems("voucher")
    grams = []
    for one in vouchers:
        words = re.findall(r"\w+", (one.query or "").lower())
        grams.append({tuple(words[at : at + 3]) for at in range(len(words) - 2)})
    cluster_of = dict(cluster(_three()).assignments())
    ids = [cluster_of[problem_keys(one).problem] for one in vouchers]
    alike = [
        (a, b)
        for a in range(len(vouchers))
        for b in range(a)
        if len(grams[a] & grams[b]) >= 0.5 * len(grams[a] | grams[b])
    ]
    assert len(alike) == 17
    assert all(ids[a] != ids[b] for a, b in alike)


def test_all_voucher_text_is_found_and_no_other_text_is_taken_for_it() -> None:
    for one in _problems("voucher"):
        base = (one.query or "").split("\n\nMy budget")[0]
        for voucher in (one.voucher, None):
            assert (
                problem_keys(Problem(query=one.query, voucher=voucher)).base == problem_keys(Problem(query=base)).query
            )
    for one in _problems("product", "shop", "web_simpleqa"):
        keys = problem_keys(one)
        assert keys.base == keys.query


def test_every_problem_of_the_suite_is_a_test_problem() -> None:
    suite = list(load_problems(SHARED / "sn15" / "problem_suite_v3.json"))
    leaks = find_leaks(
        [Row(f"suite:{number}", one) for number, one in enumerate(suite)],
        [Row(f"test:{number}", one) for number, one in enumerate(_three())],
    )
    assert len(suite) == 30
    for kind in (EdgeKind.QUERY, EdgeKind.GOLD):
        assert len({leak.train_id for leak in leaks if leak.kind == kind}) == 30


def test_two_queries_that_differ_in_a_newline_and_a_space_are_one_problem() -> None:
    one = next(problem for problem in _problems("voucher") if "\n" in (problem.query or ""))
    other = Problem(query=(one.query or "").replace("\n\n", " \n", 1), voucher=one.voucher)
    assert cluster([one, other]).report.clusters == 1
    assert problem_keys(one).query == problem_keys(other).query
