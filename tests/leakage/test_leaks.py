"""A training row whose problem is held out is found, whatever it shares, and told with what it shares."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.leakage.clusters import ClusterParams, cluster
from oresmith.leakage.keys import problem_keys
from oresmith.leakage.leaks import Leak, Row, find_leaks
from oresmith.records import Problem
from tests.leakage.examples import VOUCHER, VOUCHER_TEXT, hostile_problems, problem, related_problems, spec_reward

LAMP = problem("Show me red lamps", "lamp")
LONG = "Show me black cotton crew neck shirts size medium short sleeves graphic print machine washable over 50 pesos"


def _kinds(train: Problem, heldout: Problem) -> dict[str, str]:
    return {leak.kind: leak.value for leak in find_leaks([Row("t", train)], [Row("h", heldout)])}


def test_every_kind_of_leak_is_told_with_its_value() -> None:
    keys = problem_keys(LAMP)
    assert _kinds(problem("SHOW me red lamps!", "x"), LAMP) == {"query": keys.query}
    assert _kinds(problem("Show me red lamps" + VOUCHER_TEXT, "x", voucher=VOUCHER), LAMP) == {"base": keys.base}
    assert _kinds(problem("red lamp", "x"), LAMP) == {"tokens": keys.tokens}
    assert _kinds(problem("a chair", "lamp"), LAMP) == {"gold": "lamp"}
    stated = [problem(query, reward=spec_reward(gold)) for query, gold in (("a chair", "x"), ("a bed", "y"))]
    assert _kinds(*stated) == {"spec": problem_keys(stated[0]).spec}
    assert _kinds(problem(LONG, "x"), problem(LONG.replace("washable ", ""), "y")) == {"wording": "0.9375"}


def test_a_chain_through_a_third_problem_is_a_leak() -> None:
    bridge = problem("a sofa", reward=[{"product_id": "lamp"}, {"product_id": "bed"}])
    train = [Row("t", problem("a bed", "bed")), Row("bridge", bridge)]
    assert [(leak.kind, leak.train_id) for leak in find_leaks(train, [Row("h", LAMP)])] == [
        ("gold", "bridge"),
        ("chain", "t"),
    ]


def test_many_rows_of_one_problem_give_one_leak_a_training_row() -> None:
    train = [Row(f"t{number:02}", problem("lamps", "lamp")) for number in range(30)]
    heldout = [Row(f"h{number:02}", LAMP) for number in range(30)]
    assert find_leaks(train, heldout) == [
        Leak(kind="gold", train_id=f"t{number:02}", heldout_id="h00", value="lamp") for number in range(30)
    ]


def test_rows_of_unknown_problems_leak_nothing() -> None:
    assert find_leaks([Row("t", Problem())], [Row("h", Problem())]) == []
    assert find_leaks([Row("t", LAMP)], []) == []


@settings(max_examples=50, deadline=None)
@given(st.lists(related_problems(), max_size=10), st.lists(related_problems(), max_size=10))
def test_a_row_leaks_exactly_when_its_cluster_holds_a_held_out_problem(
    train: list[Problem], heldout: list[Problem]
) -> None:
    loose = ClusterParams(largest_share=1.0)
    left = [Row(f"t{number}", one) for number, one in enumerate(train)]
    right = [Row(f"h{number}", one) for number, one in enumerate(heldout)]
    leaks = find_leaks(left, right)
    cluster_of = dict(cluster([*train, *heldout], loose).assignments())
    held = {cluster_of[problem_keys(one).problem] for one in heldout}
    expected = {row.row_id for row in left if cluster_of[problem_keys(row.problem).problem] in held}
    assert {leak.train_id for leak in leaks} == expected
    assert leaks == find_leaks(left[::-1], right[::-1])


@settings(max_examples=25, deadline=None)
@given(st.lists(hostile_problems, max_size=4), st.lists(hostile_problems, max_size=4))
def test_no_json_makes_the_check_fail(train: list[Problem], heldout: list[Problem]) -> None:
    leaks = find_leaks([Row("t", one) for one in train], [Row("h", one) for one in heldout])
    assert all(leak.train_id == "t" and leak.heldout_id == "h" for leak in leaks)
