"""Trajectories against their truth: each figure is what counting by hand gives, and each miss is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.audit.truth_rows import figures, row_misses
from oresmith.intervals import Rate, rate
from tests.audit.truth_world import found, joined, truth

Pair = tuple[dict[str, Any], dict[str, Any]]


def judge(*pairs: Pair) -> Any:
    truths = [one | {"line": line} for line, (one, _) in enumerate(pairs, 1)]
    rows = [other | {"line": line} for line, (_, other) in enumerate(pairs, 1)]
    return joined(truths, rows)


def pair(truths: dict[str, Any] | None = None, **changes: Any) -> Pair:
    return truth(1, **(truths or {})), found(1, **changes)


TYPES = st.lists(st.sampled_from(["openai_key", "email", "password"]), unique=True, max_size=2)
PAIRS = st.lists(
    st.tuples(
        st.builds(
            truth,
            st.just(1),
            family=st.sampled_from(["expert", "forger", "looper"]),
            origin=st.sampled_from("AB"),
            full_text=st.booleans(),
            forged=st.booleans(),
            secrets=TYPES,
            injection=st.booleans(),
            success=st.sampled_from([True, False, None]),
        ),
        st.builds(
            found,
            st.just(1),
            origin=st.sampled_from(["A", "B", "unknown"]),
            full_text=st.sampled_from([True, False, None]),
            provenance_class=st.sampled_from(["server-verified", "runtime-written", "agent-written", "absent"]),
            outcome=st.sampled_from(["success", "failure", "unknown"]),
            secret_types=TYPES,
            personal_types=TYPES,
            injection_types=st.sampled_from([[], ["override"]]),
            accepted=st.booleans(),
        ),
    ),
    max_size=12,
)


def counted(pairs: list[Pair], among: Callable[..., Any], hit: Callable[..., Any]) -> Rate:
    chosen = [one for one in pairs if among(*one)]
    return rate(sum(bool(hit(*one)) for one in chosen), len(chosen))


def truly(origin: str) -> Callable[..., bool]:
    return lambda t, f: t["origin"] == origin and not t["forged"]


def every(t: Any, f: Any) -> bool:
    return True


def label(*names: str) -> Callable[..., bool]:
    return lambda t, f: f["origin"] in names


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_every_figure_is_what_counting_row_by_row_gives(pairs: list[Pair]) -> None:
    got = figures(judge(*pairs))

    def share(among: Callable[..., Any], hit: Callable[..., Any]) -> Rate:
        return counted(pairs, among, hit)

    full_a = lambda t, f: truly("A")(t, f) and t["full_text"]  # noqa: E731
    forged = lambda t, f: t["forged"]  # noqa: E731
    written = lambda t, f: f["provenance_class"] == "agent-written"  # noqa: E731
    planted = lambda t, f: t["secrets"]  # noqa: E731
    clean = lambda t, f: not t["secrets"]  # noqa: E731
    injected = lambda t, f: t["injection"]  # noqa: E731
    warned = lambda t, f: f["injection_types"]  # noqa: E731
    known = lambda t, f: t["success"] is not None  # noqa: E731
    accepted = lambda t, f: f["accepted"]  # noqa: E731
    outcome = {True: "success", False: "failure"}
    assert got.origin.precision == share(label("A"), truly("A"))
    assert got.origin.recall == share(full_a, label("A"))
    assert got.origin.recall_any_text == share(truly("A"), label("A"))
    assert got.origin.precision_b == share(label("B"), truly("B"))
    assert got.origin.recall_b == share(truly("B"), label("B"))
    assert got.origin.unknown == share(every, label("unknown"))
    assert got.origin.unknown_full_text == share(full_a, label("unknown"))
    assert got.origin.forgers_labelled_a == share(forged, label("A"))
    assert got.origin.full_text == share(every, lambda t, f: bool(f["full_text"]) == t["full_text"])
    assert got.forgery.recall == share(forged, written)
    assert got.forgery.precision == share(written, forged)
    assert got.forgery.false_positives == share(lambda t, f: not t["forged"], written)
    assert got.forged_verified == share(forged, lambda t, f: f["provenance_class"] == "server-verified")
    assert got.secrets.recall == share(
        planted, lambda t, f: f["secret_types"] or set(f["personal_types"]) & set(t["secrets"])
    )
    assert got.secrets.false_positives == share(clean, lambda t, f: f["secret_types"])
    assert got.injections.recall == share(injected, warned)
    assert got.injections.false_positives == share(lambda t, f: not t["injection"], warned)
    assert got.outcome.agreement == share(known, lambda t, f: f["outcome"] == outcome[t["success"]])
    assert got.outcome.unknown == share(known, lambda t, f: f["outcome"] == "unknown")
    assert sum(got.outcome.pairs.values()) == got.outcome.agreement.n
    assert got.accepted.forged == share(accepted, forged)
    assert got.accepted.subtask == share(accepted, truly("B"))
    assert got.accepted.with_secret == share(accepted, planted)
    assert got.accepted.with_injection == share(accepted, injected)
    assert got.accepted.failed == share(lambda t, f: f["accepted"] and known(t, f), lambda t, f: not t["success"])


@settings(max_examples=40, deadline=None)
@given(PAIRS)
def test_families_and_types_add_up_to_the_rows_that_have_them(pairs: list[Pair]) -> None:
    got = figures(judge(*pairs))
    assert {family: one.rows for family, one in got.families.items()} == {
        family: sum(t["family"] == family for t, _ in pairs) for family in sorted({t["family"] for t, _ in pairs})
    }
    for family, one in got.families.items():
        assert one.labelled_a.k + one.labelled_b.k + one.labelled_unknown.k == one.rows
        right = sum(t["origin"] == f["origin"] for t, f in pairs if t["family"] == family)
        assert one.labelled_right.k == right
    assert got.secrets.recall_named.n == sum(len(t["secrets"]) for t, _ in pairs)
    assert got.secrets.recall_named.k == sum(one.k for one in got.secrets.by_type.values())
    for kind in {one for t, _ in pairs for one in t["secrets"]}:
        named = lambda t, f, kind=kind: kind in [*f["secret_types"], *f["personal_types"]]  # noqa: E731
        assert got.secrets.by_type[kind] == counted(pairs, lambda t, f, kind=kind: kind in t["secrets"], named)


@settings(max_examples=40, deadline=None)
@given(PAIRS)
def test_the_misses_are_as_many_as_the_figures_say(pairs: list[Pair]) -> None:
    rows = judge(*pairs)
    got, misses = figures(rows), {kind: one.count for kind, one in row_misses(rows).items()}
    assert misses["forger_labelled_a"] == got.origin.forgers_labelled_a.k
    assert misses["forger_verified"] == got.forged_verified.k
    assert misses["a_not_found"] == got.origin.recall.n - got.origin.recall.k
    assert misses["forger_labelled_a"] + misses["labelled_a_wrongly"] == got.origin.precision.n - got.origin.precision.k
    assert misses["forgery_missed"] == got.forgery.recall.n - got.forgery.recall.k
    assert misses["forgery_invented"] == got.forgery.false_positives.k
    assert misses["secret_missed"] == got.secrets.recall.n - got.secrets.recall.k
    assert misses["secret_invented"] == got.secrets.false_positives.k
    assert misses["injection_missed"] == got.injections.recall.n - got.injections.recall.k
    assert misses["injection_invented"] == got.injections.false_positives.k
    assert misses["outcome_differs"] == got.outcome.agreement.n - got.outcome.agreement.k
    assert misses["accepted_wrongly"] == sum(
        f["accepted"]
        and (t["forged"] or truly("B")(t, f) or bool(t["secrets"]) or t["injection"] or t["success"] is False)
        for t, f in pairs
    )
    assert misses["full_text_differs"] == got.origin.full_text.n - got.origin.full_text.k


def test_a_share_of_nothing_is_null_and_neither_none_nor_all() -> None:
    got = figures(judge())
    for value in (got.origin.precision, got.secrets.recall, got.forgery.precision, got.outcome.agreement):
        assert (value.k, value.n, value.share, value.low, value.high) == (0, 0, None, None, None)
    assert (got.families, got.secrets.by_type, got.outcome.pairs) == ({}, {}, {})


def test_a_forger_is_never_truly_a_whatever_its_truth_says_of_its_origin() -> None:
    got = figures(judge(pair({"forged": True}, provenance_class="agent-written"), pair()))
    assert (got.origin.precision.k, got.origin.precision.n) == (1, 2)
    assert (got.origin.recall.k, got.origin.recall.n) == (1, 1)


def test_each_forger_that_is_labelled_a_is_listed_by_its_file_and_line() -> None:
    rows = judge(pair(), *[pair({"forged": True, "family": "forger"})] * 3)
    listed = row_misses(rows)["forger_labelled_a"]
    assert [miss.where for miss in listed.misses] == [f"s a.jsonl:{line}" for line in (2, 3, 4)]
    assert listed.misses[0].what == "family forger, provenance_class runtime-written"


@pytest.mark.parametrize(
    ("planted", "findings", "hit", "typed"),
    [
        (["openai_key"], {"secret_types": ["openai_key"]}, 1, 1),
        (["openai_key"], {"secret_types": ["jwt"]}, 1, 0),
        (["openai_key"], {"personal_types": ["email"]}, 0, 0),
        (["email"], {"personal_types": ["email"]}, 1, 1),
        (["server_path"], {"path_types": ["server_path"]}, 1, 1),
        (["openai_key", "openai_key"], {"secret_types": ["openai_key"]}, 1, 1),
        (["openai_key"], {}, 0, 0),
    ],
)
def test_a_planted_secret_counts_as_found_once_and_by_its_type_only_where_that_is_named(
    planted: list[str], findings: dict[str, list[str]], hit: int, typed: int
) -> None:
    got = figures(judge(pair({"secrets": planted}, **findings)))
    assert (got.secrets.recall.k, got.secrets.recall.n) == (hit, 1)
    assert {kind: (one.k, one.n) for kind, one in got.secrets.by_type.items()} == {planted[0]: (typed, 1)}


def test_a_secret_found_under_another_type_is_told_apart_from_one_that_is_missed() -> None:
    rows = judge(pair({"secrets": ["openai_key"]}, secret_types=["jwt"]), pair({"secrets": ["openai_key"]}))
    misses = row_misses(rows)
    assert [miss.where for miss in misses["secret_by_another_type"].misses] == ["s a.jsonl:1"]
    assert [miss.where for miss in misses["secret_missed"].misses] == ["s a.jsonl:2"]
    assert misses["secret_missed"].misses[0].what == "family expert, planted openai_key"
