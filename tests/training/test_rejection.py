"""The stage `rejection`: what is sampled, which successes are trained on, and how it goes on after a kill."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from oresmith.errors import OresmithError
from oresmith.evaluation.engines.agreement import replies_of
from oresmith.evaluation.scored import open_rollouts
from oresmith.models.replies import END, write_reply
from oresmith.params import Params, load_params
from oresmith.training.manifest import read_rows
from oresmith.training.rejection import rollout_settings
from oresmith.training.rowset import RowSet, rows_sha256
from oresmith.training.sampled import Source, load_attempts
from oresmith.training.step import find_model
from oresmith.training.trained import read_training
from stages import index, rejection
from stages.score import catalogue_of
from tests.pipeline.project import Project
from tests.training.players import (
    TRAIN_STEP,
    Change,
    Player,
    StopBeforeTrainingError,
    always_wrong,
    as_it_is,
    content,
    never_terminating,
    odd_samples_fail,
    opening,
    train_cases,
)
from tests.training.project import SNAPSHOT, copied, inside

OUT = Path("data/rejection")
SAMPLED = Path("data/.rejection.sampled")
STEP = TRAIN_STEP | {"enabled": True, "policy": "base", "samples": 2, "problems": 4, "keep_per_problem": 1}


@pytest.fixture(scope="module")
def shop(certified: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The certified project with its shop. Not to be changed."""
    made = copied(certified, tmp_path_factory.mktemp("shop"))
    made.write_params(sft={"max_rows": 6}, rollout={"batch": 4})
    with inside(made):
        index.run(load_params(), SNAPSHOT)
    return made


@pytest.fixture(scope="module")
def finished(shop: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same, after the stage: the policy fails at every odd sample. Not to be changed."""
    made = copied(shop, tmp_path_factory.mktemp("finished"))
    with inside(made):
        run(made, odd_samples_fail, samples=4, problems=None)
    return made


@pytest.fixture
def ended(finished: Project) -> Iterator[Project]:
    """The project of `finished` as the working directory."""
    with inside(finished):
        yield finished


@pytest.fixture
def played(shop: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy of the project of `shop` that is the working directory."""
    made = copied(shop, tmp_path / "played")
    with inside(made):
        yield made


def params_of(made: Project, **changes: Any) -> Params:
    made.write_params(rejection=STEP | changes)
    return load_params()


def run(made: Project, change: Change = as_it_is, **changes: Any) -> dict[str, Any]:
    done = rejection.run(params_of(made, **changes), opening(Player(change)), quiet=True)
    assert done is not None
    return done


def sampled(params: Params, player: Player) -> int:
    """Run the step until it would train; returns what the player was asked."""
    with pytest.raises(StopBeforeTrainingError):
        rejection.run(params, opening(player), quiet=True)
    assert player.closed
    assert not OUT.exists()
    return player.asked


def stated() -> Any:
    found = read_training(OUT)
    assert found is not None
    return found


def test_successes_of_the_policy_are_mixed_with_the_corpus_and_trained_on(ended: Project):
    training = stated()
    done = training.extra["rejection"]
    chosen, mix, passes = done["selection"], done["mix"], done["sampled"]["pass_at"]
    problems = len(train_cases())
    assert (chosen["sampled"], chosen["successes"], chosen["solved"]) == (4 * problems, 2 * problems, problems)
    assert chosen["sampled"] == chosen["kept"] + sum(chosen["dropped"].values())
    assert chosen["dropped"]["failed"] == 2 * problems
    rows = list(read_rows(OUT))
    origins = Counter(row.origin for row in rows)
    assert origins == {"rollout": mix["rollout_rows"], "corpus": mix["corpus_rows"]}
    assert training.rows["origins"] == dict(origins)
    assert 0 < mix["share"] <= 0.5
    assert mix["share"] == round(origins["rollout"] / len(rows), 6)
    assert len({row.problem for row in rows if row.origin == "rollout"}) == chosen["kept_problems"] == chosen["kept"]
    # 2 of 4 samples succeed everywhere: one draw does by 1/2, two draws by 1 - 1/6.
    assert passes["1"]["value"] == 0.5
    assert passes["2"]["value"] == pytest.approx(5 / 6, abs=1e-6)
    assert passes["4"]["value"] == 1.0
    assert done["cost"]["completion_tokens"] == 3 * done["cost"]["requests"]
    metrics = json.loads(Path("metrics/rejection.json").read_bytes())
    assert metrics["selection"] == chosen
    assert metrics["pass_at"]["1"]["n"] == problems
    assert json.loads(Path("data/observed/rejection-rollouts.json").read_bytes())["samples"] == 4 * problems
    assert find_model("rejection", "test").facts.origin


def test_what_was_sampled_is_published_in_the_form_of_rollouts_with_its_scores(ended: Project):
    for part in ("rollouts", "score"):
        assert content(OUT / part) == content(SAMPLED / part)
    rollouts = open_rollouts(OUT / "rollouts")
    assert rollouts.configuration is not None
    assert rollouts.configuration["problems"]["pool"] == "train"
    assert rollouts.configuration["view"]["id"] == "compare/1"
    table = pl.read_parquet(OUT / "score" / "rows.parquet")
    attempts = load_attempts(OUT, Source(Path("data"), catalogue_of))
    found = {(one.rollout.problem, one.rollout.sample): one.success for one in attempts}
    assert found == {(row["problem"], row["sample"]): row["success"] for row in table.iter_rows(named=True)}
    assert all(success == (sample % 2 == 0) for (_, sample), success in found.items())


def test_a_later_step_reads_the_conversations_word_for_word(ended: Project):
    attempts = load_attempts(OUT, Source(Path("data"), catalogue_of))
    said = replies_of(OUT / "rollouts")
    for one in attempts:
        rollout, turn = one.rollout, 0
        assert [message.role for message in rollout.messages[:2]] == ["system", "user"]
        for message in rollout.messages:
            if message.role == "assistant":
                reply = said[f"{rollout.problem}/{rollout.sample}/{turn}"]
                calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in message.tool_calls]
                told = {"content": message.content, "reasoning_content": message.reasoning_content, "tool_calls": calls}
                assert write_reply(told).removesuffix(END) == reply.text
                turn += 1
        made = [call for message in rollout.messages for call in message.tool_calls]
        assert [call.id for call in made] == [m.tool_call_id for m in rollout.messages if m.role == "tool"]
        assert all(call.original_id is None for call in made)
        assert len(rollout.results) == len(made)


def test_the_policy_plays_as_the_step_says_in_the_view_that_is_trained(played: Project):
    params = params_of(played, temperature=0.8, top_p=0.7, problems=5, seed=9)
    settings = rollout_settings(params)
    assert (settings.temperature, settings.top_p, settings.problems, settings.samples) == (0.8, 0.7, 5, 2)
    assert (settings.seed, settings.view, settings.prompt) == (9, params.train.view, params.train.prompt)
    assert (settings.max_turns, settings.batch) == (params.rollout.max_turns, params.rollout.batch)


def test_a_killed_run_plays_no_sample_twice_and_ends_the_same(played: Project, taken: list[RowSet]):
    params = params_of(played)
    whole = sampled(params, Player(odd_samples_fail))
    expected = content(SAMPLED / "rollouts")
    # Killed before it trained: nothing is played again.
    assert sampled(params, Player(odd_samples_fail)) == 0
    shutil.rmtree(SAMPLED)
    # Killed while it played: what was finished is not played again.
    with pytest.raises(KeyboardInterrupt):
        rejection.run(params, opening(Player(odd_samples_fail, breaks=12)), quiet=True)
    assert 0 < sampled(params, Player(odd_samples_fail)) < whole
    assert content(SAMPLED / "rollouts") == expected
    assert [rows_sha256(one.rows) for one in taken] == [rows_sha256(taken[0].rows)] * 3


def test_other_settings_are_sampled_anew_but_not_another_use_of_the_samples(played: Project, taken: list[RowSet]):
    for changes in ({"problems": 3}, {"problems": 2, "samples": 1}, {"temperature": 0.5}):
        assert sampled(params_of(played, **changes), Player()) > 0
        assert sampled(params_of(played, **changes, keep_per_problem=2, mix=0.3), Player()) == 0


def test_rollouts_make_up_their_share_of_the_rows_or_as_much_as_there_are(played: Project, taken: list[RowSet]):
    played.write_params(train={"max_tokens": 20_000})
    for mix in (0.25, 0.9, 1.0):
        sampled(params_of(played, mix=mix), Player())
    shares = [Counter(row.origin for row in rows.rows) for rows in taken]
    corpus = shares[0]["corpus"]
    assert 0 < shares[0]["rollout"] <= round(corpus / 3)
    assert shares[1]["corpus"] == corpus
    assert shares[0]["rollout"] < shares[1]["rollout"] < 9 * corpus
    assert (shares[2]["corpus"], shares[2]["rollout"]) == (0, shares[1]["rollout"])
    names = [{row.row_id for row in rows.rows if row.origin == "rollout"} for rows in taken]
    assert names[0] < names[1]
    for rows in taken:  # no conversation in part
        sizes = Counter(row.row_id for row in rows.rows)
        turns = {name: [one["role"] for one in talk.messages].count("assistant") for name, talk in rows.talks.items()}
        assert sizes == (dict.fromkeys(turns, 1) if rows.keeps_prefixes else turns)


def test_a_policy_without_any_success_is_refused_with_the_counts(played: Project):
    with pytest.raises(OresmithError, match=r"(?s)^rejection: no rollout is fit.*8 rollouts: 8 failed"):
        run(played, always_wrong)
    with pytest.raises(OresmithError, match="8 rollouts: 8 not_terminated"):
        run(played, never_terminating)
    assert not OUT.exists()


def test_a_rollout_that_quotes_a_held_out_request_stops_the_step(played: Project):
    table = pl.read_parquet("data/cluster/problems.parquet")
    held = pl.read_parquet("data/split/assignments.parquet").filter(pl.col("pool") == "heldout")["problem"].to_list()
    query = table.filter(pl.col("problem").is_in(held))["query"].to_list()[0]
    with pytest.raises(OresmithError, match="rollout:"):
        run(
            played,
            lambda problem, sample, turn, text: f"<think>\n{query}\n</think>\n\n{text.rpartition('</think>')[2]}",
        )
    assert not OUT.exists()


def test_a_step_that_is_switched_off_says_so_and_nothing_starts_from_it(played: Project):
    assert rejection.run(params_of(played, enabled=False)) is None
    assert stated().skipped == "switched off"
    with pytest.raises(OresmithError, match="rejection is switched off"):
        find_model("rejection", "kto.from")
    with pytest.raises(OresmithError, match=r"rejection\.policy"):
        run(played, policy="sft/9")


def test_a_served_model_is_no_policy(played: Project):
    played.write_params(rollout={"engine": "openai", "url": "http://127.0.0.1:1/v1"})
    with pytest.raises(OresmithError, match="which one a server runs"):
        run(played)
