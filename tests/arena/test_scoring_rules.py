"""Each rule of the outcome scorer by a case of its own."""

from typing import Any

import msgspec
import pytest

from oresmith.arena.scoring import SCORER, Score, ScoreError, TitleRule, recommended_ids, score, score_envelope
from oresmith.arena.scoring_steps import last_recommendation, step_format
from oresmith.records import Problem
from tests.arena.build import (
    by_id,
    call,
    finish,
    product,
    product_problem,
    recommend,
    shop_problem,
    step,
    voucher_problem,
)


class TestRecommendation:
    def test_ids_are_split_stripped_and_kept_once_in_order(self) -> None:
        assert recommended_ids(" 2, 1,,2 ,\n3") == ["2", "1", "3"]

    @pytest.mark.parametrize("value", [None, 5, ["1", "2"], {"1": 2}, True, ""])
    def test_anything_but_a_string_recommends_nothing(self, value: object) -> None:
        assert recommended_ids(value) == []

    def test_the_last_recommendation_counts(self) -> None:
        assert last_recommendation([step(recommend("1")), step(recommend("2"), recommend("3"))]) == "3"

    @pytest.mark.parametrize("broken", [{"parameters": {}}, {"name": "recommend_product", "parameters": "1"}, "x"])
    def test_a_broken_call_ends_the_reading_of_its_own_step_only(self, broken: Any) -> None:
        first = step(recommend("1"), broken, recommend("2"))
        assert last_recommendation([first]) == "1"
        assert last_recommendation([first, step(recommend("3"))]) == "3"

    @pytest.mark.parametrize("broken", [None, [], "done", {}, {"completion": None}, {"completion": {"message": []}}])
    def test_a_step_without_a_message_recommends_nothing(self, broken: Any) -> None:
        assert last_recommendation([step(recommend("1")), broken]) == "1"


class TestFormat:
    def test_thinking_with_a_call_or_a_response_is_well_formed(self) -> None:
        assert step_format(step(call("find_product", q="mug"))) == 1
        assert step_format(step(response="Here.")) == 1

    @pytest.mark.parametrize("bad", [step(), step(call("x"), think=""), {}, None, [], "x", {"completion": {}}])
    def test_missing_parts_count_nothing(self, bad: Any) -> None:
        assert step_format(bad) == 0

    @pytest.mark.parametrize("timestamp", [None, 0, -5, "1777000000000", [1]])
    def test_a_step_without_a_positive_timestamp_counts_half(self, timestamp: Any) -> None:
        untimed = step(response="Here.") | {"extra_info": {"timestamp": timestamp}}
        assert step_format(untimed) == 0.5

    def test_a_step_without_extra_info_counts_half_and_with_a_wrong_one_nothing(self) -> None:
        timed = step(response="Here.")
        assert step_format({"completion": timed["completion"]}) == 0.5
        assert step_format(timed | {"extra_info": None}) == 0

    @pytest.mark.parametrize("tag", ["<think>", "</think>", "<tool_call>", "</response>"])
    def test_a_further_tag_in_thinking_or_response_spoils_the_step(self, tag: str) -> None:
        assert step_format(step(think=f"a {tag} b", response="Here.")) == 0
        assert step_format(step(response=f"Here. {tag}")) == 0

    def test_a_call_can_hold_a_closing_tag_but_no_opening_one(self) -> None:
        assert step_format(step(call("find_product", q="a</think>"))) == 1
        assert step_format(step(call("find_product", q="a<think>"))) == 0
        assert step_format(step(call("find_product", **{"<response>": [{"x": 1}]}))) == 0
        assert step_format(step(call("find_product", q="a") | {"result": [{"title": "<tool_call>"}]})) == 0

    @pytest.mark.parametrize(
        "bad", [{"parameters": {}}, {"name": "x"}, {"name": 7, "parameters": {}}, {"name": "x", "parameters": [1]}]
    )
    def test_a_call_needs_a_name_and_an_object_of_parameters(self, bad: dict[str, Any]) -> None:
        assert step_format(step(call("find_product", q="a"), bad)) == 0

    @pytest.mark.parametrize(
        "parts",
        [
            {"think": 1},
            {"think": None},
            {"response": None},
            {"user": 1},
            {"tool_call": None},
            {"tool_call": {}},
            {"tool_call": ["x"]},
            {"obs": "x"},
        ],
    )
    def test_parts_of_wrong_types_are_an_error(self, parts: dict[str, Any]) -> None:
        with pytest.raises(ScoreError):
            step_format({"completion": {"message": {"think": "a", **parts}}, "extra_info": {"timestamp": 1}})

    def test_a_number_that_json_cannot_write_is_an_error(self) -> None:
        with pytest.raises(ScoreError):
            step_format(step(call("find_product", q=float("inf"))))


def scored(problem: Problem, ids: Any, *products: Any) -> Score:
    return score(problem, finish(ids), by_id(*products))


class TestDialogue:
    def test_length_is_one_by_the_steps_when_the_last_one_terminates(self) -> None:
        problem = product_problem()
        assert score(problem, finish("1"), {}).score["length"] == 0.5
        assert score(problem, [*finish("1"), step(response="Bye.")], {}).score["length"] == 0

    def test_no_steps_score_nothing_and_an_envelope_without_them_is_unscored(self) -> None:
        assert score(product_problem(), [], {}).score == {"length": 0, "format": 0}
        nothings: list[Any] = [[], None]
        for nothing in nothings:
            with pytest.raises(ScoreError):
                score_envelope(product_problem(), nothing, {})

    @pytest.mark.parametrize("last", [None, "done", [], {}, {"completion": None}, step({"parameters": {}})])
    def test_a_last_step_that_cannot_be_read_is_an_error(self, last: Any) -> None:
        with pytest.raises(ScoreError):
            score(product_problem(), [step(recommend("gold")), last], {})

    @pytest.mark.parametrize("dialogue", [None, {}, "x", 5])
    def test_a_dialogue_that_is_no_list_is_an_error(self, dialogue: object) -> None:
        with pytest.raises(ScoreError):
            score(product_problem(), dialogue, {})

    @pytest.mark.parametrize("problem", [Problem(), Problem(category="web", reward={}), Problem(category="shop")])
    def test_a_problem_without_scorable_category_or_reward_is_an_error(self, problem: Problem) -> None:
        with pytest.raises(ScoreError):
            score(problem, finish("1"), {})

    def test_the_scorer_names_itself(self) -> None:
        assert score(product_problem(), [], {}).scorer == SCORER


class TestProduct:
    def test_the_gold_product_succeeds_whatever_its_other_fields(self) -> None:
        problem = product_problem(title=["Mug"], price=[{"less than": [None, 5]}], service=["COD"])
        got = scored(problem, "gold", product("gold", service=["COD"]))
        expected = {"length": 0.5, "format": 1, "product": 1, "gt": 1, "rule": 1, "title": 1, "price": 0, "service": 1}
        assert got.success
        assert got.score == {**expected, "sku & attrs": 0}

    def test_only_the_first_id_counts(self) -> None:
        products = (product("gold"), product("other"))
        assert not scored(product_problem(), "other,gold", *products).success
        assert scored(product_problem(), "gold,other", *products).success

    @pytest.mark.parametrize("ids", ["", "unknown", "unknown,gold", ["gold"]])
    def test_without_a_known_first_id_no_item_key_is_set(self, ids: Any) -> None:
        got = scored(product_problem(), ids, product("gold"))
        assert got.score.keys() == {"length", "format"}
        assert not got.success

    def test_another_product_scores_met_by_stated_constraints_without_its_title(self) -> None:
        problem = product_problem(
            title=["Mug"],
            price=[{"between": [10, 20]}],
            service=["COD", "official"],
            sku_options=[{"color": "red", "size": "s"}],
            attributes=[{"brand": ["acme"]}],
        )
        skus = {"1": {"color": "red"}, "2": {"size": "s"}}
        other = product("other", service=["COD"], sku_options=skus, attributes={"brand": ["acme", "oem"]})
        got = scored(problem, "other", other)
        assert got.score["rule"] == 4 / 6
        assert (got.score["title"], got.score["gt"]) == (0, 0)
        assert got.score["sku & attrs"] == 2 / 3, "the best single SKU: colour and size are never in one"

    def test_a_product_that_meets_every_constraint_succeeds_without_being_gold(self) -> None:
        assert scored(product_problem(service=["COD"]), "other", product("other", service=["COD"])).success

    def test_without_a_stated_constraint_another_product_scores_nothing(self) -> None:
        assert scored(product_problem(title=["Mug"]), "other", product("other")).score["rule"] == 0

    @pytest.mark.parametrize(
        ("bounds", "met"),
        [
            ({"less than": [None, 10]}, 1),
            ({"less than": [None, 9.99]}, 0),
            ({"greater than": [10, None]}, 1),
            ({"greater than": [10.01, None]}, 0),
            ({"between": [10, 10]}, 1),
            ({"about": [10, 10]}, 0),
        ],
    )
    def test_price_bounds_are_inclusive_and_an_unknown_kind_is_never_met(self, bounds: Any, met: int) -> None:
        assert scored(product_problem(price=[bounds]), "other", product("other", price=10.0)).score["price"] == met

    @pytest.mark.parametrize("document", [{"price": "10"}, {"price": None}, {"price": msgspec.UNSET}])
    def test_a_price_that_cannot_be_compared_is_an_error(self, document: dict[str, Any]) -> None:
        with pytest.raises(ScoreError):
            scored(product_problem(price=[{"less than": [None, 10]}]), "other", product("other", **document))

    @pytest.mark.parametrize("threshold", [0.7, 0.8])
    def test_a_title_similarity_counts_titles_and_shows_in_the_scorers_name(self, threshold: float) -> None:
        problem = product_problem(title=["Mug", "Cup"], service=["COD"])
        got = score(
            problem,
            finish("other"),
            by_id(product("other", title="Mug", service=["COD"])),
            titles=TitleRule("some-model", threshold, lambda title, wanted: 0.75 if title == wanted else 0.1),
        )
        assert got.score["title"] == (0.5 if threshold == 0.7 else 0)
        assert got.score["rule"] == (2 / 3 if threshold == 0.7 else 1 / 3)
        assert got.scorer == f"{SCORER}+title(some-model)>={threshold}"


class TestShop:
    def test_all_gold_from_one_shop_succeeds_and_from_two_does_not(self) -> None:
        one = scored(shop_problem("a", "b"), "a,b", product("a"), product("b"))
        two = scored(shop_problem("a", "b"), "a,b", product("a"), product("b", shop_id="s2"))
        assert (one.success, one.score["shop"]) == (True, 1)
        assert (two.success, two.score["shop"], two.score["rule"]) == (False, 0, 1)

    def test_items_are_matched_by_position_and_extra_ones_ignored(self) -> None:
        products = (product("a"), product("b"), product("c"))
        assert scored(shop_problem("a", "b"), "b,a", *products).score["gt"] == 0
        assert scored(shop_problem("a", "b"), "a,b,c", *products).success

    def test_missing_and_unknown_items_score_nothing_and_sums_are_divided_by_the_rewards(self) -> None:
        got = scored(shop_problem("a", "b", "c", "d"), "a,unknown,c", product("a"), product("c"))
        assert (got.score["product"], got.score["gt"], got.score["shop"]) == (0.5, 0.5, 0)

    def test_without_any_item_the_item_keys_are_zero(self) -> None:
        got = scored(shop_problem("a"), "")
        assert (got.score["product"], got.score["rule"], got.score["shop"]) == (0, 0, 0)

    def test_a_fitting_product_without_a_shop_is_an_error(self) -> None:
        with pytest.raises(ScoreError):
            scored(shop_problem("a"), "a", product("a", shop_id=msgspec.UNSET))


class TestVoucher:
    @pytest.mark.parametrize(
        ("budget", "terms", "met"),
        [
            (20, {"voucher_type": "none", "threshold": 99}, 1),
            (15, {}, 1),
            (14.99, {}, 0),
            (15, {"threshold": 20}, 1),
            (15, {"threshold": 20.01}, 0),
            (15, {"voucher_type": "shop"}, 1),
            (15, {"voucher_type": "other"}, 0),
            (10, {"discount_type": "percentage", "discount": 0.5, "cap": 10}, 1),
            (10, {"discount_type": "percentage", "discount": 0.5, "cap": 9}, 0),
            (9.99, {"discount_type": "percentage", "discount": 0.5, "cap": 99}, 0),
        ],
    )
    def test_a_total_of_20_against_budget_and_voucher(self, budget: float, terms: dict[str, Any], met: int) -> None:
        got = scored(voucher_problem(budget, "a", "b", **terms), "a,b", product("a"), product("b"))
        assert (got.score["budget"], got.success) == (met, bool(met))

    def test_a_shops_voucher_needs_one_shop_but_a_total_in_budget_does_not(self) -> None:
        products = (product("a"), product("b", shop_id="s2"))
        assert scored(voucher_problem(15, "a", "b", voucher_type="shop"), "a,b", *products).score["budget"] == 0
        assert scored(voucher_problem(20, "a", "b", voucher_type="shop"), "a,b", *products).score["budget"] == 1

    def test_the_budget_needs_every_item(self) -> None:
        got = scored(voucher_problem(99, "a", "b"), "a", product("a"))
        assert got.score["budget"] == 0

    def test_an_unknown_discount_or_a_missing_voucher_is_an_error_only_when_it_is_reached(self) -> None:
        strange = voucher_problem(15, "a", "b", discount_type="cashback")
        assert scored(strange, "a", product("a")).score["budget"] == 0
        for problem in (strange, Problem(category="voucher", reward=[{"product_id": "a"}, {"product_id": "b"}])):
            with pytest.raises(ScoreError):
                scored(problem, "a,b", product("a"), product("b"))
