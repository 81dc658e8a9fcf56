"""The stage `kto`: its rows from corpus and rollouts, what it publishes, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl
import pytest

from oresmith.blocks.atomic import load_manifest
from oresmith.errors import OresmithError
from oresmith.evaluation.prompts import system_prompt
from oresmith.evaluation.records import Rollout
from oresmith.models.directory import check_directory
from oresmith.models.rendering import Chat
from oresmith.params import load_params
from oresmith.records import Message, Problem, ToolCall
from oresmith.training.kto_rows import corpus_kto_rows, sampled_kto_rows
from oresmith.training.manifest import read_rows
from oresmith.training.selection import Attempt
from oresmith.training.trained import TRAINING_SCHEMA, read_training
from stages import kto
from tests.pipeline.project import Project
from tests.training.project import FIT, copied, corpus_project, inside

DATA = Path("data")
KTO = FIT | {"enabled": True, "from": "base", "batch": 2, "microbatch": 2, "max_steps": 2, "max_rows": 4}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A certified corpus with successes and failures. Not to be changed."""
    return corpus_project(tmp_path_factory.mktemp("both"), failures=True)


@pytest.fixture
def project(made: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy of it that is the working directory."""
    own = copied(made, tmp_path / "project")
    own.write_params(kto=KTO)
    with inside(own):
        yield own


@pytest.fixture
def chat(project: Project) -> Chat:
    return Chat.load(DATA / "base")


def published() -> pl.DataFrame:
    return pl.read_parquet(DATA / "corpus/kto/train-*.parquet", columns=["row_id", "label"])


def test_the_step_publishes_a_model_with_the_account_of_its_classes(project: Project) -> None:
    done = kto.run(load_params())
    assert done is not None
    assert done.outcome.steps == 2
    load_manifest(DATA / "kto", TRAINING_SCHEMA)
    check_directory(DATA / "kto/model")
    training = read_training(DATA / "kto")
    assert training is not None
    facts = training.extra["kto"]
    labels = dict(published().iter_rows())
    rows = [labels[row.row_id] for row in read_rows(DATA / "kto")]
    assert len({row.row_id for row in read_rows(DATA / "kto")}) == 4
    assert (facts["desirable_rows"], facts["undesirable_rows"]) == (sum(rows), len(rows) - sum(rows))
    assert (facts["rows"], facts["left_out"]) == ("corpus", {"limit": len(labels) - 4})
    assert 1 <= facts["weighted_ratio"] <= 4 / 3 + 1e-6
    assert facts["checked"]["batches"] == 2
    assert "kl" in (DATA / "kto/curve.csv").read_text().splitlines()[0].split(",")
    assert json.loads(Path("metrics/kto.json").read_bytes())["steps"] == 2
    assert Path("plots/training/kto").is_dir()
    assert not list(DATA.glob(".kto.checkpoints/*"))


def test_a_step_that_is_switched_off_says_so_and_has_no_model(project: Project) -> None:
    project.write_params(kto={"enabled": False})
    assert kto.run(load_params()) is None
    training = read_training(DATA / "kto")
    assert training is not None
    assert training.skipped == "switched off"
    assert not (DATA / "kto/model").exists()


def test_corpus_rows_have_their_problem_and_our_prompt_and_a_limit_takes_both_classes(
    project: Project, chat: Chat
) -> None:
    options = {"view": "compare/1", "prompt": "shopper-1", "max_tokens": None}
    whole = corpus_kto_rows(DATA, chat, **options)
    some = corpus_kto_rows(DATA, chat, **options, max_rows=4)
    known = dict(pl.read_parquet(DATA / "split/assignments.parquet", columns=["problem", "pool"]).iter_rows())
    assert {known[row.problem] for row in whole.rows.rows} == {"train"}
    assert all(row.cluster for row in whole.rows.rows)
    assert whole.success == dict(published().iter_rows())
    assert all(
        talk.messages[0] == {"role": "system", "content": system_prompt("shopper-1")}
        for talk in whole.rows.talks.values()
    )
    assert set(some.rows.talks) <= set(whole.rows.talks)
    assert sorted(whole.success[row_id] for row_id in some.rows.talks) == [False, False, True, True]
    assert some.rows.left_out == {"limit": len(published()) - 4}


def test_rows_over_the_limit_of_tokens_are_counted_and_none_is_cut(project: Project, chat: Chat) -> None:
    options = {"view": "compare/1", "prompt": "shopper-1"}
    whole = corpus_kto_rows(DATA, chat, **options, max_tokens=None).rows
    limit = sorted(len(row.ids) for row in whole.rows)[len(whole.rows) // 2]
    short = corpus_kto_rows(DATA, chat, **options, max_tokens=limit).rows
    assert [row.ids for row in short.rows] == [row.ids for row in whole.rows if len(row.ids) <= limit]
    assert short.report.rejected == {"too_long": len(whole.rows) - len(short.rows)}


def test_too_few_rows_are_refused(project: Project) -> None:
    project.write_params(kto=KTO | {"max_rows": 1}, train=project.params["train"] | {"min_rows": 500})
    with pytest.raises(OresmithError, match="too few rows"):
        kto.run(load_params())


def rollout(problem: str, sample: int, ended: str = "terminated") -> Rollout:
    def calling(name: str, number: int, **arguments: str) -> Message:
        text = msgspec.json.encode(arguments).decode()
        call = ToolCall(id=f"call_{number}", name=name, arguments=text)
        return Message(role="assistant", content="", reasoning_content=f"I try {sample}.", tool_calls=[call])

    return Rollout(
        problem=problem,
        problem_id=None,
        sample=sample,
        seed=1,
        messages=[
            Message(role="system", content=system_prompt("shopper-1")),
            Message(role="user", content="I want something."),
            calling("find_product", 0, q="something"),
            Message(role="tool", content="[]", tool_call_id="call_0", name="find_product"),
            calling("terminate", 1, status="failure"),
        ],
        ended=ended,
    )


def test_rollouts_of_rejection_give_rows_of_both_outcomes_and_cut_replies_give_none(
    project: Project, chat: Chat
) -> None:
    assigned = pl.read_parquet(DATA / "split/assignments.parquet")
    trained = sorted(assigned.filter(pl.col("pool") == "train")["problem"])
    held_out = assigned.filter(pl.col("pool") == "heldout")["problem"][0]
    attempts = [
        Attempt(rollout(problem, sample), Problem(query="I want something."), "c", sample == 0)
        for problem in trained[:3]
        for sample in range(2)
    ]
    attempts += [
        Attempt(rollout(trained[3], 0, "length"), Problem(query="q"), "c", False),
        Attempt(rollout(held_out, 0), Problem(query="q"), "c", False),
    ]
    chosen = sampled_kto_rows(attempts, DATA, chat, max_tokens=None)
    answers = {row.row_id for row in chosen.rows.rows}
    assert answers == {f"rollout:{problem}:{sample}" for problem in trained[:3] for sample in range(2)}
    assert all(chosen.success[row.row_id] is row.row_id.endswith(":0") for row in chosen.rows.rows)
    assert chosen.rows.left_out["unfinished"] == 1
    assert sum(chosen.rows.left_out.values()) == 2
