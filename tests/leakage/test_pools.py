"""A problem's pool is decided once, with its whole cluster, and nothing that comes later changes it."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.errors import OresmithError, ParameterError
from oresmith.leakage.clusters import ClusterParams, Clusters, cluster, extend
from oresmith.leakage.keys import problem_keys
from oresmith.leakage.ledger import LedgerLine, check_ledger, encode_ledger
from oresmith.leakage.pools import Assignment, Fact, PoolParams, Split, assign, pool_counts, trainable
from oresmith.leakage.vault import Vault, encode_vault
from oresmith.records import Problem
from tests.leakage.examples import problem, related_problems

LOOSE = ClusterParams(largest_share=1.0)
OPEN = PoolParams(held_out="2026-05-01")
LAMP, CHAIR = problem("Show me red lamps", "lamp"), problem("a chair", "chair")
BRIDGE = problem("a sofa", reward=[{"product_id": "lamp"}, {"product_id": "chair"}])
SECRET = b"sixteen bytes or more"


def _name(one: Problem) -> str:
    return problem_keys(one).problem


def _facts(*wished: tuple[Problem, str]) -> dict[str, Fact]:
    return {_name(one): Fact(wishes=(wish,)) for one, wish in wished}


def _of(split: Split, one: Problem) -> Assignment:
    (found,) = (entry for entry in split.assignments if entry.problem == _name(one))
    return found


def _two_pools() -> tuple[Clusters, list[LedgerLine]]:
    clusters = cluster([LAMP, CHAIR], LOOSE)
    return clusters, assign(clusters, _facts((LAMP, "train"), (CHAIR, "heldout")), [], "0.1.0", params=OPEN).lines


def test_shares_are_kept_within_each_category() -> None:
    many = [problem(f"thing number{n}", f"g{n}") for n in range(300)]
    facts = {_name(one): Fact(category="Shop" if n % 3 else "product") for n, one in enumerate(many)}
    split = assign(cluster(many), facts, [], "0.1.0", params=PoolParams(held_out="2026-05-01", heldout_share=0.2))
    counts = Counter((facts[one.problem].category, one.pool) for one in split.assignments)
    assert (counts["product", "heldout"], counts["product", "dev"]) == (20, 5)
    assert (counts["Shop", "heldout"], counts["Shop", "dev"]) == (40, 10)
    assert pool_counts(split) == {"dev": 15, "heldout@2026-05-01": 60, "train": 225}
    other = PoolParams(held_out="2026-05-01", heldout_share=0.2, seed="other")
    again = assign(cluster(many), facts, [], "0.1.0", params=other)
    assert pool_counts(again) == pool_counts(split)
    assert again.assignments != split.assignments


def test_a_new_problem_of_a_known_cluster_inherits_its_pool() -> None:
    clusters, lines = _two_pools()
    again = problem("SHOW me red lamps", "another")
    split = assign(extend(clusters, [again]), {}, lines, "0.2.0", params=PoolParams(held_out="2026-06-01"))
    assert (_of(split, again).pool, _of(split, again).new) == ("train", True)
    held = problem("A CHAIR", "other")
    split = assign(extend(clusters, [held]), {}, lines, "0.2.0", params=PoolParams(held_out="2026-06-01"))
    assert _of(split, held).held_out == "2026-05-01"


def test_a_problem_that_would_join_two_pools_is_quarantined_and_moves_nobody() -> None:
    clusters, lines = _two_pools()
    merged = extend(clusters, [BRIDGE])
    split = assign(merged, {}, lines, "0.2.0")
    bridge = _of(split, BRIDGE)
    assert (bridge.pool, bridge.joined) == ("quarantine", ("heldout@2026-05-01", "train"))
    assert (_of(split, LAMP).pool, _of(split, CHAIR).pool) == ("train", "heldout")
    assert _of(split, LAMP).cluster != _of(split, CHAIR).cluster
    assert _of(split, LAMP).component == _of(split, CHAIR).component
    (line,) = split.lines
    assert (line.pool, line.joined, len(line.aliases)) == ("quarantine", bridge.joined, 1)
    later = problem("SOFA", "fresh")
    next_split = assign(extend(merged, [later]), {}, [*lines, *split.lines], "0.3.0")
    assert (_of(next_split, later).pool, _of(next_split, later).joined) == (bridge.pool, bridge.joined)


def test_what_shares_something_with_a_quarantined_problem_is_quarantined_for_the_same_reason() -> None:
    clusters, lines = _two_pools()
    golds = [{"product_id": gold} for gold in ("lamp", "chair", "sofa")]
    lines += assign(extend(clusters, [problem("a set", reward=golds)]), {}, lines, "0.2.0").lines
    stranger = problem("something else", "sofa")
    found = _of(assign(cluster([stranger]), {}, lines, "0.3.0"), stranger)
    assert (found.pool, found.joined) == ("quarantine", ("heldout@2026-05-01", "train"))


def test_the_ledger_recognises_problems_that_are_no_longer_here() -> None:
    _, lines = _two_pools()
    stranger = problem("something else", "chair")
    assert _of(assign(cluster([stranger]), {}, lines, "0.2.0"), stranger).pool == "heldout"


@pytest.mark.parametrize(
    ("wishes", "pool"),
    [
        (("train", "dev"), "dev"),
        (("dev", "heldout", "train"), "heldout"),
        (("train",), "train"),
        (("benchmark:b", "train"), "benchmark:b"),
    ],
)
def test_of_conflicting_wishes_the_most_careful_wins(wishes: tuple[str, ...], pool: str) -> None:
    twins = [problem("Show me red lamps" + "!" * n, f"g{n}") for n in range(len(wishes))]
    split = assign(cluster(twins), _facts(*zip(twins, wishes, strict=True)), [], "0.1.0", params=OPEN)
    assert {one.pool for one in split.assignments} == {pool}


def test_a_wish_is_not_heard_once_the_ledger_has_spoken() -> None:
    clusters, lines = _two_pools()
    split = assign(clusters, _facts((LAMP, "heldout"), (CHAIR, "train")), lines, "0.2.0", params=OPEN)
    assert (_of(split, LAMP).pool, _of(split, CHAIR).pool, split.lines) == ("train", "heldout", [])


def test_a_benchmark_is_never_train_unless_allowed_by_name() -> None:
    split = assign(cluster([LAMP, CHAIR]), _facts((LAMP, "benchmark:suite-v3")), [], "0.1.0")
    lamp, chair = _of(split, LAMP), _of(split, CHAIR)
    assert (lamp.pool, lamp.benchmarks) == ("benchmark:suite-v3", ("suite-v3",))
    assert [trainable(lamp), trainable(lamp, ["other"]), trainable(lamp, ["suite-v3"])] == [False, False, True]
    assert trainable(chair) and not chair.benchmarks


def test_a_problem_of_two_benchmarks_needs_both_allowed() -> None:
    facts = {_name(LAMP): Fact(wishes=("benchmark:b", "benchmark:a"))}
    lamp = _of(assign(cluster([LAMP]), facts, [], "0.1.0"), LAMP)
    assert lamp.pool == "benchmark:a+b"
    assert [trainable(lamp, ["a"]), trainable(lamp, ["a", "b"])] == [False, True]


def test_a_benchmark_named_later_guards_what_was_train_before() -> None:
    clusters = cluster([LAMP])
    lines = assign(clusters, _facts((LAMP, "train")), [], "0.1.0").lines
    twin = problem("SHOW me red lamps", "x")
    split = assign(extend(clusters, [twin]), _facts((twin, "benchmark:b")), lines, "0.2.0")
    assert (_of(split, LAMP).pool, trainable(_of(split, LAMP))) == ("train", False)
    assert _of(split, twin).joined == ("benchmark:b", "train")


def test_nothing_is_assigned_to_what_the_vault_holds() -> None:
    vault = Vault(encode_vault([(problem_keys(LAMP), False)], SECRET).splitlines()[1:], SECRET)
    near = problem("RED lamps", "x")
    split = assign(cluster([near, CHAIR]), _facts((near, "train")), [], "0.1.0", vault=vault)
    assert (_of(split, near).pool, _of(split, near).joined) == ("quarantine", ("vault",))
    assert not trainable(_of(split, near)) and trainable(_of(split, CHAIR))
    known = assign(cluster([near]), _facts((near, "train")), [], "0.1.0").lines
    late = _of(assign(cluster([near]), {}, known, "0.2.0", vault=vault), near)
    assert (late.pool, late.vault, trainable(late)) == ("train", True, False)


def test_a_problem_without_gold_waits_in_quarantine_until_its_reward_is_known() -> None:
    bare = Problem(query="Show me red lamps")
    clusters = cluster([bare])
    split = assign(clusters, {}, [], "0.1.0")
    assert (_of(split, bare).joined, split.lines) == (("no_gold",), [])
    later = assign(extend(clusters, [LAMP]), {}, split.lines, "0.2.0")
    assert {_of(later, bare).pool, _of(later, LAMP).pool} == {"train"}
    loose = assign(clusters, {}, [], "0.1.0", params=PoolParams(require_gold=False))
    assert _of(loose, bare).pool == "train"


@pytest.mark.parametrize(
    "params",
    [PoolParams(heldout_share=-0.1), PoolParams(dev_share=2), PoolParams(dev_share=0.9), PoolParams(held_out="May")],
)
def test_impossible_sizes_and_dates_are_refused(params: PoolParams) -> None:
    with pytest.raises(ParameterError):
        assign(cluster([LAMP]), {}, [], "0.1.0", params=params)


@pytest.mark.parametrize("wish", ["test", "benchmark:", "benchmark:a b", "heldout"])
def test_a_wish_that_cannot_be_met_is_refused(wish: str) -> None:
    with pytest.raises(OresmithError):
        assign(cluster([LAMP]), _facts((LAMP, wish)), [], "0.1.0")


wishes = st.sampled_from([(), (), (), ("train",), ("dev",), ("heldout",), ("benchmark:b",)])
snapshots = st.lists(st.lists(st.tuples(related_problems(), wishes), max_size=6), min_size=1, max_size=5)


@settings(max_examples=200, deadline=None)
@given(snapshots)
def test_appending_snapshots_moves_nobody_and_splits_no_cluster(
    steps: list[list[tuple[Problem, tuple[str, ...]]]],
) -> None:
    clusters, ledger, facts = cluster([], LOOSE), list[LedgerLine](), dict[str, Fact]()
    placed: dict[str, tuple[str, str | None]] = {}
    for number, step in enumerate(steps, 1):
        for one, wish in step:
            facts[_name(one)] = Fact(category=one.category, wishes=wish)
        clusters = extend(clusters, [one for one, _ in step])
        params = PoolParams(heldout_share=0.3, dev_share=0.2, held_out=f"2026-0{number}-01")
        split = assign(clusters, facts, ledger, f"0.{number}.0", params=params)
        for one in split.assignments:
            assert placed.get(one.problem, (one.pool, one.held_out)) == (one.pool, one.held_out)
            if one.joined != ("no_gold",):
                placed[one.problem] = (one.pool, one.held_out)
        pools: dict[str, set[tuple[str, str | None]]] = {}
        for one in split.assignments:
            pools.setdefault(one.cluster, set()).add((one.pool, one.held_out))
        assert all(len(found - {("quarantine", None)}) <= 1 for found in pools.values())
        old_pools = {one.component: set[str]() for one in split.assignments}
        for one in split.assignments:
            if not one.new:
                old_pools[one.component].add(f"{one.pool}{one.held_out}")
        fresh = [one for one in split.assignments if one.new and len(old_pools[one.component]) > 1]
        assert all(one.pool == "quarantine" for one in fresh)
        ledger += split.lines
        check_ledger(ledger)
        assert encode_ledger(assign(clusters, facts, ledger, f"0.{number}.0", params=params).lines) == encode_ledger(
            split.lines
        )
    assert (
        msgspec.json.decode(b"[" + b",".join(encode_ledger(ledger).splitlines()) + b"]", type=list[LedgerLine])
        == ledger
    )
