"""Clusters and pools against their truth: pairs are counted as if each were looked at, by the kind of the variant."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.audit.truth_clusters import (
    Known,
    Node,
    Nodes,
    figures,
    names_of,
    pair_kind,
    pairs_by_kind,
    read_known,
    use_of,
)
from oresmith.audit.truth_file import PlantedProblem
from oresmith.errors import OresmithError
from oresmith.intervals import rate
from tests.audit.truth_world import Tables

VARIANTS = ("base", "paraphrase", "order", "gold", "same_specification")
ROWS = st.lists(
    st.tuples(
        st.sampled_from("xyz"),
        st.sampled_from(VARIANTS),
        st.sampled_from("123"),
        st.sampled_from(["train", "dev", "heldout", None]),
    ),
    max_size=14,
)


def nodes_of(rows: list[tuple[str, str, str, str | None]]) -> Nodes:
    """Rows of (true cluster, variant, found cluster, pool) as the distinct problems of one snapshot."""
    names = {f"p{place}": f"n{place}" for place in range(len(rows))}
    cluster = {f"n{place}": row[2] for place, row in enumerate(rows)}
    pool = {f"n{place}": row[3] for place, row in enumerate(rows)}
    planted = [PlantedProblem(problem_id=f"p{n}", cluster=row[0], variant=row[1]) for n, row in enumerate(rows)]
    nodes = Nodes(Known(cluster, pool, {}))
    nodes.add("s", planted, names)
    return nodes


@settings(max_examples=80, deadline=None)
@given(ROWS)
def test_figures_are_what_looking_at_every_pair_gives(rows: list[tuple[str, str, str, str | None]]) -> None:
    true, found, both = Counter[str](), Counter[str](), Counter[str]()
    leaks, pools = Counter[bool](), Counter[str]()
    for (a, u, x, p), (b, v, y, q) in combinations(rows, 2):
        kind = pair_kind(u, v)
        true[kind] += a == b
        found[kind] += x == y
        both[kind] += a == b and x == y
        if a == b and p and q and p != q:
            leaks[kind == "same_specification"] += 1
            pools["/".join(sorted((p, q)))] += 1
    got = figures(nodes_of(rows))
    stated = [kind for kind in true if kind != "same_specification"]
    assert got.clusters.recall == rate(sum(both[k] for k in stated), sum(true[k] for k in stated))
    assert got.clusters.precision == rate(both.total(), found.total())
    for kind, one in {**got.clusters.by_kind, "same_specification": got.clusters.same_specification}.items():
        assert one.recall == rate(both[kind], true[kind])
        assert one.precision == rate(both[kind], found[kind])
    assert set(got.clusters.by_kind) >= {kind for kind in +true + +found if kind != "same_specification"}
    assert got.leaks.pairs == rate(leaks[False], sum(true[k] for k in stated))
    assert got.leaks.same_specification == rate(leaks[True], true["same_specification"])
    assert got.leaks.by_pools == dict(pools)


@given(st.lists(st.sampled_from(VARIANTS), max_size=9))
def test_pairs_of_a_group_are_counted_without_looking_at_each(variants: list[str]) -> None:
    by_hand = Counter(pair_kind(one, other) for one, other in combinations(variants, 2))
    assert +pairs_by_kind(Counter(variants)) == by_hand


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("base", "base", "base"),
        ("base", "gold", "gold"),
        ("gold", "gold", "gold"),
        ("gold", "order", "mixed"),
        ("same_specification", "base", "same_specification"),
        ("gold", "same_specification", "same_specification"),
        ("same_specification", "same_specification", "same_specification"),
    ],
)
def test_a_pair_is_of_the_kind_of_its_variant(one: str, other: str, kind: str) -> None:
    assert pair_kind(one, other) == pair_kind(other, one) == kind


@pytest.mark.parametrize(
    ("pool", "vault", "trainable", "use"),
    [
        ("train", False, True, "train"),
        ("dev", False, False, "dev"),
        ("heldout", False, False, "heldout"),
        ("quarantine", False, False, None),
        ("train", True, False, None),
        ("benchmark:shop", False, False, "benchmark"),
        ("benchmark:shop", False, True, "train"),
    ],
)
def test_what_a_pool_is_good_for(pool: str, vault: bool, trainable: bool, use: str | None) -> None:
    assert use_of(pool, vault, trainable) == use


def test_two_problems_of_a_cluster_that_may_not_be_used_are_no_leak() -> None:
    got = figures(nodes_of([("x", "base", "1", "train"), ("x", "gold", "2", None)]))
    assert (got.leaks.pairs.k, got.leaks.pairs.n) == (0, 1)


def test_a_leak_and_a_split_and_a_merged_cluster_are_named_by_their_problems() -> None:
    rows = [("x", "base", "1", "train"), ("x", "order", "2", "heldout"), ("y", "base", "2", "dev")]
    misses = figures(nodes_of(rows)).misses
    assert misses["leak"].misses[0].what == "s p0 (base) in train | s p1 (order) in heldout"
    assert misses["cluster_split"].misses[0].what == "s p0 (base, 1) | s p1 (order, 1)"
    assert misses["cluster_merged"].misses[0].what == "s p1 (order, 1) | s p2 (base, 1)"


def test_a_problem_that_two_snapshots_hold_is_one_problem() -> None:
    known = Known({"n": "1"}, {"n": "train"}, {})
    nodes = Nodes(known)
    for snapshot in ("day-1", "day-2"):
        nodes.add(snapshot, [PlantedProblem(problem_id="p", cluster="p", variant="base")], {"p": "n"})
    got = figures(nodes).clusters
    assert (got.problems, got.repeated, got.one_problem_two_clusters) == (1, 1, 0)


def test_true_clusters_that_share_a_problem_word_for_word_are_one() -> None:
    known = Known({"n": "1", "m": "1"}, {}, {})
    nodes = Nodes(known)
    nodes.add("day-1", [PlantedProblem(problem_id="p", cluster="p", variant="base")], {"p": "n"})
    later = [PlantedProblem(problem_id=one, cluster="q", variant="base") for one in ("q", "r")]
    nodes.add("day-2", later, {"q": "n", "r": "m"})
    got = figures(nodes).clusters
    assert (got.problems, got.one_problem_two_clusters) == (2, 1)
    assert (got.precision.k, got.precision.n) == (1, 1)


def test_a_problem_that_the_pipeline_does_not_know_is_joined_to_nothing_and_named() -> None:
    nodes = Nodes(Known({"n": "1"}, {}, {}))
    planted = [PlantedProblem(problem_id=one, cluster="p", variant="base") for one in ("p", "lost", "gone")]
    nodes.add("s", planted, {"p": "n", "gone": "no such problem"})
    got = figures(nodes)
    assert got.clusters.without_row == 2
    assert [miss.where for miss in got.misses["problem_without_row"].misses] == ["s lost", "s gone"]
    assert (got.clusters.recall.k, got.clusters.recall.n) == (0, 3)
    assert all(isinstance(one, Node) and one.pool is None for one in nodes)


def test_a_problem_is_found_by_its_own_snapshots_file_although_another_held_it_first(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.add("day-1", None, problems={"first:lamp": ("c", "train")})
    tables.add("day-2", None, problems={"second:lamp": ("c", "train")})
    known = read_known(tables.data)
    names = [names_of(tables.data, day, known) for day in ("day-1", "day-2")]
    assert names[0]["first:lamp"] == names[1]["second:lamp"]
    assert known.cluster[names[1]["second:lamp"]] == "c"


def test_without_a_problem_file_a_problem_is_found_by_what_the_clusters_say(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.add("s", None)
    tables.problems.append({"problem": "n", "problem_id": "p", "snapshot": "s", "cluster": "c"})
    tables.write()
    assert names_of(tables.data, "s", read_known(tables.data)) == {"p": "n"}


@pytest.mark.parametrize("gone", ["cluster/problems.parquet", "split/assignments.parquet"])
def test_a_stage_that_has_not_run_is_named(tmp_path: Path, gone: str) -> None:
    data = Tables(tmp_path).data
    (data / gone).unlink()
    with pytest.raises(OresmithError, match=gone):
        read_known(data)


def test_the_figures_of_nothing_are_null() -> None:
    got: Any = figures(Nodes(Known({}, {}, {})))
    assert got.clusters.recall.share is got.clusters.precision.share is got.leaks.pairs.share is None
    assert got.clusters.by_kind == {} and got.leaks.by_pools == {}
