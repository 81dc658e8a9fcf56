"""What rollouts are worth: the strict scorer's verdict, and agreement with teachers step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.arena.search import index_of
from oresmith.arena.world import documents
from oresmith.errors import OresmithError
from oresmith.evaluation.problems import Case
from oresmith.evaluation.records import Rollout
from oresmith.evaluation.scored import score_folder
from oresmith.evaluation.writing import read_rollouts
from oresmith.records import Message, ToolCall
from oresmith.training.agreement import Step, Steps, Teachers, agreement, step_agreement, steps_of
from oresmith.training.sampled import rollout_of
from tests.evaluation.scripted import small_shop
from tests.evaluation.talks import play, shop_files
from tests.training.grpo_build import cases, judge

FIND = Step("find_product", {"q": "red kettle", "price": "0-200"})
VIEW = Step("view_product_information", {"product_ids": "1,2"})
BUY = Step("recommend_product", {"product_ids": "1"})
DONE = Step("terminate", {"status": "success"})
TEACHER = (FIND, VIEW, BUY, DONE)

NAMES = st.sampled_from(["find_product", "terminate", ""])
VALUES = st.one_of(st.text("ab ,", max_size=4), st.integers(0, 2), st.none(), st.lists(st.integers(0, 1), max_size=2))
STEPS = st.lists(
    st.builds(Step, NAMES, st.dictionaries(st.sampled_from(["q", "page"]), VALUES, max_size=2)), max_size=5
).map(tuple)


@given(STEPS, STEPS, st.floats(0, 1))
def test_agreement_is_a_share_and_the_same_from_both_sides(mine: Steps, teacher: Steps, weight: float) -> None:
    found = agreement(mine, teacher, weight)
    assert 0.0 <= found <= 1.0
    assert found == pytest.approx(agreement(teacher, mine, weight))


@given(STEPS, st.floats(0, 1))
def test_a_rollout_agrees_with_itself_as_far_as_it_makes_calls(mine: Steps, weight: float) -> None:
    calls = sum(bool(step.name) for step in mine)
    assert agreement(mine, mine, weight) == pytest.approx(calls / len(mine) if mine else 0.0)


def test_name_and_arguments_weigh_as_they_are_told_to() -> None:
    other = Step("find_product", {"q": "red lamp", "price": "0-200"})
    assert step_agreement(FIND, FIND, 0.3) == pytest.approx(1.0)
    assert step_agreement(Step("find_product", {}), FIND, 0.3) == pytest.approx(0.3)
    assert step_agreement(other, FIND, 0.3) == pytest.approx(0.3 + 0.7 * (1 / 3 + 1) / 2)
    assert step_agreement(VIEW, FIND, 1.0) == 0.0
    assert step_agreement(Step("x", {}), Step("x", {}), 0.3) == 1.0
    assert step_agreement(Step("x", {"a": 1, "b": 2}), Step("x", {"a": 1}), 0.0) == 0.5
    assert step_agreement(Step("", {}), Step("", {}), 1.0) == 0.0
    assert step_agreement(Step("x", {"ids": "2, 1"}), Step("x", {"ids": "1,2"}), 0.0) == 1.0


def test_steps_left_out_and_needless_steps_cost_their_share() -> None:
    assert agreement(TEACHER, TEACHER, 0.5) == 1.0
    assert agreement((FIND, BUY, DONE), TEACHER, 0.5) == pytest.approx(3 / 4)
    assert agreement((FIND, FIND, *TEACHER[1:]), TEACHER, 0.5) == pytest.approx(4 / 5)
    assert agreement((DONE, BUY, VIEW, FIND), TEACHER, 0.5) == pytest.approx(1 / 4)
    assert agreement((), TEACHER, 0.5) == agreement(TEACHER, (), 0.5) == 0.0
    assert agreement((Step("", {}), *TEACHER), TEACHER, 0.5) == pytest.approx(4 / 5)


def test_the_best_teacher_of_the_same_problem_counts_and_none_is_worth_nothing() -> None:
    teachers = Teachers({"one": [(DONE,), TEACHER], "two": [(DONE,)]}, {})
    assert teachers.best("one", TEACHER, 0.5) == 1.0
    assert teachers.best("two", TEACHER, 0.5) == pytest.approx(1 / 4)
    assert teachers.best("three", TEACHER, 0.5) == 0.0
    assert teachers.sha256() == Teachers({"two": [(DONE,)], "one": [TEACHER, (DONE,)]}, {"corpus": 3}).sha256()
    assert teachers.sha256() != Teachers({"one": [TEACHER]}, {}).sha256()


@given(st.text(max_size=20))
def test_whatever_the_arguments_are_steps_are_read(text: str) -> None:
    call = ToolCall(id="c", name="find_product", arguments=text)
    found = steps_of([Message(role="assistant", tool_calls=[call]), Message(role="assistant", content="Done.")])
    assert [step.name for step in found] == ["find_product", ""]


def ours(folder: Path) -> list[Rollout]:
    return [rollout_of(trajectory) for trajectory in read_rollouts(folder)]


@pytest.mark.parametrize("errs", [0, 1, None])
def test_the_verdict_is_that_of_the_stage_score(tmp_path: Path, errs: int | None) -> None:
    folder = play(tmp_path / "rollouts", errs)
    scored = score_folder(folder, *shop_files(tmp_path)).table
    verdicts = {row["problem_id"]: row["success"] for row in scored.iter_rows(named=True)}
    by_id = {case.problem.problem_id: case for case in cases()}
    rollouts = [(by_id[rollout.problem_id], rollout) for rollout in ours(folder)]
    found = judge().worth(rollouts)
    assert [bool(one.outcome) for one in found] == [verdicts[case.problem.problem_id] for case, _ in rollouts]
    assert {one.outcome for one in found} == {0: {1.0}, 1: {0.0, 1.0}, None: {0.0}}[errs]


def test_a_rollout_that_cannot_be_scored_is_worth_nothing() -> None:
    broken: list[Any] = [[], [Message(role="user", content="x")], [Message(role="assistant", content="\x00")]]
    case = cases()[0]
    rollouts = [
        (case, Rollout(problem=case.name, problem_id="p", sample=0, seed=0, messages=one, ended="stopped"))
        for one in broken
    ]
    assert [one.outcome for one in judge().worth(rollouts)] == [0.0] * 3
    odd = Case("0", case.problem.__class__(problem_id="p", query="q", category="web", reward=None), "")
    assert judge().worth([(odd, rollouts[0][1])])[0].outcome == 0.0


def test_problems_whose_gold_products_the_shop_lacks_are_refused() -> None:
    judge().check(cases())
    with pytest.raises(OresmithError):
        judge(shop=index_of(list(documents(5, 400))[1:3])).check(cases()[:1])
    assert small_shop()[1][0].reward["product_id"] == next(iter(documents(5, 400))).product_id
