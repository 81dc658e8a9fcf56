"""The stage `grpo`: what it publishes, what it agrees with, and how it ends where there is nothing to learn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from oresmith.anyfile import read_any
from oresmith.errors import OresmithError
from oresmith.evaluation.engines.inprocess import Answer
from oresmith.evaluation.engines.model import prompt_ids
from oresmith.evaluation.records import ChatRequest, Sampling
from oresmith.evaluation.scored import open_rollouts, score_rollouts
from oresmith.evaluation.suite import cases_of_table
from oresmith.evaluation.writing import ROLLOUTS
from oresmith.models import Chat
from oresmith.param_models import Rollout as Settings
from oresmith.params import Params, load_params
from oresmith.records import Reject
from oresmith.training.agreement import load_teachers
from oresmith.training.grpo import FittedGrpo
from oresmith.training.manifest import read_rows
from oresmith.training.sampled import Source, sample, train_problems
from oresmith.training.step import find_model
from oresmith.training.trained import read_training
from stages import grpo, index
from stages.score import catalogue_of
from tests.pipeline.project import Project
from tests.training.grpo_build import ids_of
from tests.training.players import Change, Player, always_wrong, as_it_is, odd_samples_fail, train_cases
from tests.training.project import SNAPSHOT, copied, inside

OUT, CHECKPOINTS = Path("data/grpo"), Path("data/.grpo.checkpoints")
STEP = {
    "enabled": True,
    "from": "base",
    "problems": 2,
    "steps": 2,
    "batch": 4,
    "microbatch": 4,
    "generations": 2,
    "learning_rate": 0.001,
    "warmup": 0.0,
    "max_completion": 16000,
    "max_new_tokens": 16,
}


class Playing:
    """The terse policy of the world in place of the model, as GRPO samples it."""

    context = 100_000

    def __init__(self, change: Change) -> None:
        self.chat, self._player = Chat.load(Path("data/base")), Player(change)

    def answer(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[Answer]:
        end = self.chat.tokenizer.end
        return [
            Answer(reply, prompt_ids(request, self.chat), [*ids_of(reply.text, self.chat), end])
            for request, reply in zip(requests, self._player.chat(requests, sampling), strict=True)
        ]

    def refresh(self, model: Any) -> None:
        pass

    def close(self) -> None:
        self._player.close()


def params_of(made: Project, **changes: Any) -> Params:
    made.write_params(grpo=STEP | changes)
    return load_params()


def run(made: Project, change: Change = odd_samples_fail, **changes: Any) -> FittedGrpo:
    done = grpo.run(params_of(made, **changes), Playing(change), quiet=True)
    assert done is not None
    return done


@pytest.fixture(scope="module")
def shop(certified: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The certified project with its shop. Not to be changed."""
    made = copied(certified, tmp_path_factory.mktemp("shop"))
    made.write_params(train=made.params["train"] | {"min_rows": 2, "max_tokens": 14336})
    with inside(made):
        index.run(load_params(), SNAPSHOT)
    return made


@pytest.fixture(scope="module")
def trained(shop: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, FittedGrpo]:
    """The same, after the stage. Not to be changed."""
    made = copied(shop, tmp_path_factory.mktemp("trained"))
    with inside(made):
        return made, run(made)


@pytest.fixture
def done(trained: tuple[Project, FittedGrpo]) -> Iterator[FittedGrpo]:
    """What the stage came to, in its project as the working directory."""
    with inside(trained[0]):
        yield trained[1]


@pytest.fixture
def played(shop: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy of the project of `shop` that is the working directory."""
    made = copied(shop, tmp_path / "played")
    with inside(made):
        yield made


def test_a_whole_model_is_published_with_all_that_it_was_trained_on(done: FittedGrpo) -> None:
    names = {path.name for path in OUT.iterdir()}
    assert names >= {"adapter", "model", ROLLOUTS, "rows.jsonl.zst", "training.json", "curve.csv", "manifest.json"}
    assert find_model("grpo", "kto.from").facts.origin.endswith("step grpo, seed 1")
    stated = read_training(OUT)
    assert stated is not None
    facts = stated.extra["grpo"]
    assert (stated.steps, facts["updates"], facts["rollouts"], facts["problems"]) == (2, 2, 8, 2)
    assert facts["first"]["outcome"] == facts["last"]["outcome"] == 0.5
    assert facts["kl_most"] > 0
    assert facts["clipped"] == 0
    assert facts["teachers"]["corpus"] > 0
    assert not CHECKPOINTS.exists()
    assert json.loads(Path("metrics/grpo.json").read_bytes())["kl_most"] == facts["kl_most"]
    columns = (OUT / "curve.csv").read_text().splitlines()[0].split(",")
    assert {"step", "loss", "reward", "kl_to_start", "rewards/outcome/mean", "rewards/agreement/mean"} <= set(columns)


def test_the_rows_are_those_that_the_loss_was_computed_on(done: FittedGrpo) -> None:
    trained = [part for update in done.updates for one in update.rollouts for part in one.trained]
    rows = list(read_rows(OUT))
    assert [(row.tokens, row.supervised) for row in rows] == [(len(one.ids), sum(one.mask)) for one in trained]
    assert {row.origin for row in rows} == {"rollout"}
    stated = read_training(OUT)
    assert stated is not None
    assert stated.tokens == sum(row.tokens for row in rows)
    assert [(one["conversations"], one.get("leaks", [])) for one in stated.leaks] == [(8, [])]


def test_the_rollouts_are_read_by_all_and_scored_as_they_were(done: FittedGrpo) -> None:
    path = OUT / ROLLOUTS
    found = [one for one in read_any(path) if not isinstance(one, Reject)]
    columns = [one.extra["columns"] for one in found]
    kept = [one for update in done.updates for one in update.rollouts]
    assert [(one["update"], one["outcome"], one["trained"]) for one in columns] == [
        (update.number, one.outcome, bool(one.trained)) for update in done.updates for one in update.rollouts
    ]
    scored = score_rollouts(
        open_rollouts(OUT / ROLLOUTS),
        lambda names: cases_of_table(Path("data/cluster/problems.parquet"), names),
        catalogue_of,
    )
    verdicts = {(row["problem"], row["sample"]): row["success"] for row in scored.table.iter_rows(named=True)}
    assert [bool(one.outcome) for one in kept] == [verdicts[one.rollout.problem, one.rollout.sample] for one in kept]


def test_rollouts_agree_with_the_corpus_and_successes_agree_more(done: FittedGrpo) -> None:
    kept = [one for update in done.updates for one in update.rollouts]
    good = [one.agreement for one in kept if one.outcome]
    bad = [one.agreement for one in kept if not one.outcome]
    assert min(good) > max(bad)
    assert all(one.reward == one.outcome + 0.5 * one.agreement for one in kept)


def test_the_strict_successes_of_a_teacher_are_agreed_with_too(played: Project) -> None:
    source, cases = Source(Path("data"), catalogue_of), train_cases()
    names = [case.name for case in cases]
    before = load_teachers(source, names)
    player = Player(odd_samples_fail)
    settings = Settings(samples=2, max_turns=30)
    sample(
        player,
        train_problems(source, 2),
        source,
        Path("data/teacher"),
        name="teacher",
        settings=settings,
        observed=Path("o.json"),
        quiet=True,
    )
    player.close()
    after = load_teachers(source, names)
    assert (before.counts["teacher"], after.counts["teacher"]) == (0, 2)
    assert before.counts["corpus"] == after.counts["corpus"] > 0
    assert before.sha256() != after.sha256()
    assert load_teachers(source, []).of_problem == {}


def test_a_step_that_is_switched_off_says_so_and_has_no_model(played: Project) -> None:
    assert grpo.run(params_of(played, enabled=False)) is None
    stated = read_training(OUT)
    assert stated is not None
    assert stated.skipped == "switched off"
    assert not (OUT / "model").exists()


def test_where_nothing_is_to_be_learned_nothing_is_published_and_checkpoints_stay(played: Project) -> None:
    with pytest.raises(OresmithError, match="rewards do not vary"):
        run(played, always_wrong, flat_steps=2, agreement_weight=0.0)
    assert not OUT.exists()
    assert any(CHECKPOINTS.rglob("checkpoint-1"))
    with pytest.raises(OresmithError, match="do not vary"):
        run(played, as_it_is, flat_steps=1)


def test_problems_without_groups_are_refused_before_anything_is_played(played: Project) -> None:
    with pytest.raises(OresmithError, match="whole groups"):
        run(played, batch=5, microbatch=5)
