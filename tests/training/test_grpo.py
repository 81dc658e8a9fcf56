"""Dr. GRPO on the tiny model: TRL's loss on what was sampled, its bounds, and the same end whatever interrupts it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from oresmith.errors import OresmithError
from oresmith.evaluation.records import ChatReply, Rollout
from oresmith.models import Chat
from oresmith.param_training import Grpo, Train
from oresmith.training import grpo, grpo_trainer
from oresmith.training.agreement import Teachers
from oresmith.training.grpo_bounds import Kept, Records, Trained, Update, check_kl, check_rewards
from oresmith.training.grpo_plan import grpo_arguments, schedule
from oresmith.training.grpo_rounds import Arena, Rounds
from oresmith.training.rewards import Judge, Worth
from tests.evaluation.engines_build import tiny
from tests.evaluation.scripted import small_shop
from tests.training.grpo_build import SETTINGS, TRAIN, Written, arena, cases, fit, toolboxes

ADAPTER = "adapter/adapter_model.safetensors"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("grpo"), template="hermes")


class Uneven(Written):
    """Spells the first sample letter by letter, so that it has two segments, and gives two samples one worth."""

    def _answer(self, request: Any) -> Any:
        answer = super()._answer(request)
        if request.key.split("/")[1] != "0":
            return answer
        spelled = [token for letter in answer.reply.text for token in self.chat.tokenizer.plain(letter)]
        return answer._replace(sampled=[*spelled, self.chat.tokenizer.end])


class Parity(Judge):
    """Finds every other sample good, whatever it says."""

    def worth(self, rollouts: Sequence[tuple[Any, Rollout]]) -> list[Worth]:
        return [Worth(float(rollout.sample % 2), 0.0) for _, rollout in rollouts]


def built(
    start: Path, work: Path, settings: Grpo, train: Train = TRAIN, *, policy: Any = None, play: Arena | None = None
) -> Any:
    """A trainer with the batch of its first update: (trainer, that batch)."""
    chat, play = Chat.load(start), play or arena()
    planned = schedule(play.cases, settings)
    trainer = grpo.build_trainer(planned, start, train, settings, chat=chat, checkpoints=work)
    Rounds(trainer, play, policy or Written(chat), train, settings)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    asked = [{"prompt": f"0:{slot}"} for slot in range(len(planned.prompts[0])) for _ in range(settings.generations)]
    return trainer, trainer._generate_and_score_completions(asked)


def gradients(trainer: Any, loss: Any) -> Any:
    trainer.model.zero_grad()
    loss.backward()
    found = [weight.grad for weight in trainer.model.parameters() if weight.requires_grad]
    return torch.cat([torch.zeros(1) if one is None else one.flatten() for one in found])


@pytest.mark.parametrize("packing", ["none", "prefix"])
def test_loss_and_gradients_are_trls_own_with_the_rows_that_move_nothing_left_out(
    start: Path, tmp_path: Path, packing: Any
) -> None:
    from trl.trainer.grpo_trainer import GRPOTrainer

    play = Arena(cases()[:2], toolboxes(), Mixed({"": small_shop()[0]}, Teachers({}, {}), 0.5, None))
    settings, found = replace(SETTINGS, temperature=0.7), {}
    for name, chosen in (("ours", packing), ("stock", "none")):
        trainer, batch = built(start, tmp_path, settings, replace(TRAIN, packing=chosen, rank=2), play=play)
        with torch.no_grad():
            for part, weight in trainer.model.named_parameters():
                if "lora_B" in part:
                    weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)) * 0.05)
        assert batch["advantages"].tolist() == [0.5, -0.5, 0.0, 0.0]
        if name == "stock":
            batch = {part: value for part, value in batch.items() if part != "place"}
            trainer.__class__ = GRPOTrainer
        loss = trainer._compute_loss(trainer.model, batch)
        found[name] = loss.item(), gradients(trainer, loss)
        assert name == "stock" or trainer._now["prompt_ids"].shape[0] == 2
    assert found["ours"][0] == pytest.approx(found["stock"][0], rel=1e-5)
    assert float(found["stock"][1].norm()) > 1e-4
    assert torch.allclose(found["ours"][1], found["stock"][1], atol=1e-7, rtol=1e-4)


class Mixed(Judge):
    """Finds one of two samples good, and both of the next problem."""

    def worth(self, rollouts: Sequence[tuple[Any, Rollout]]) -> list[Worth]:
        first = rollouts[0][0].name
        return [Worth(float(case.name != first or rollout.sample == 0), 0.0) for case, rollout in rollouts]


def test_the_segments_of_a_rollout_weigh_as_one_rollout(start: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, batch=2, microbatch=2)
    trainer, batch = built(start, tmp_path, settings, policy=Uneven(Chat.load(start)), play=arena(1))
    assert [len(one.segments) for one in trainer.sampled] == [2, 1]
    loss = trainer._compute_loss(trainer.model, batch)
    assert trainer._now["prompt_ids"].shape[0] == 3
    # On policy, and before any update, the ratio is 1: the loss is minus the advantages of all sampled tokens.
    tokens = [sum(sum(part.mask) for part in one.segments) for one in trainer.sampled]
    expected = -sum(a * n for a, n in zip(batch["advantages"].tolist(), tokens, strict=True))
    assert loss.item() == pytest.approx(expected / (2 * settings.max_completion), rel=1e-5)


def test_microbatches_sum_to_the_same_gradient(start: Path, tmp_path: Path) -> None:
    one, other = (
        fit(start, tmp_path / str(rows), replace(SETTINGS, batch=2, microbatch=rows)).outcome.curve for rows in (2, 1)
    )
    for whole, split in zip(one, other, strict=True):
        for name in ("loss", "grad_norm", "kl_to_start"):
            assert split[name] == pytest.approx(whole[name], rel=1e-3, abs=1e-9)


def test_only_what_was_sampled_is_in_the_loss_end_tokens_included(start: Path, tmp_path: Path) -> None:
    chat = Chat.load(start)
    trainer, batch = built(start, tmp_path, SETTINGS, TRAIN)
    trainer._compute_loss(trainer.model, batch)
    now = trainer._now
    ids = now["completion_ids"][(now["tool_mask"] * now["completion_mask"]) == 1].tolist()
    expected = [
        token for one in trainer.sampled for part in one.segments for turn in part.turns for token in turn.sampled
    ]
    assert ids == expected
    said = chat.tokenizer.decode(ids)
    assert "<tool_response>" not in said
    assert said.count("<|im_end|>") == sum(len(one.rollout.replies) for one in trainer.sampled)


@pytest.mark.parametrize("broken", ["prompt", "end", "result"])
def test_a_broken_mask_stops_the_step(
    start: Path, tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = grpo_trainer.batch_of

    def batch(chosen: Any, *others: Any) -> Any:
        found = made(chosen, *others)
        mask = found["tool_mask"]
        first, place = int(mask[0].argmax()), int(mask[0].nonzero()[-1])
        gap = first + int((mask[0, first:] == 0).nonzero()[0])
        if broken == "prompt":  # of the row whose prompt is longer than the part that is cut off in front
            row = next(row for row in range(len(mask)) if mask[row, 0] == 0)
            mask[row, : int(mask[row].argmax())] = 1
        elif broken == "end":
            mask[0, place] = 0
        else:
            mask[0, gap : gap + 20] = 1
        return found

    monkeypatch.setattr(grpo_trainer, "batch_of", batch)
    with pytest.raises(OresmithError, match="not sampled"):
        fit(start, tmp_path, replace(SETTINGS, steps=1))
    assert not (tmp_path / "out/adapter").exists()


def test_the_trainer_is_one_of_dr_grpo_with_unscaled_rewards_or_none(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = schedule(cases()[:2], SETTINGS)
    chat = Chat.load(start)
    trainer = grpo.build_trainer(planned, start, TRAIN, SETTINGS, chat=chat, checkpoints=tmp_path)
    assert (trainer.loss_type, trainer.scale_rewards, trainer.num_iterations) == ("dr_grpo", "none", 1)
    assert (trainer.top_p, trainer.top_k, trainer.temperature) == (1.0, 0, SETTINGS.temperature)
    for change in ({"loss_type": "dapo"}, {"scale_rewards": "group"}, {"num_iterations": 2}):
        told = {**grpo_arguments(TRAIN, SETTINGS, home=tmp_path, context=100), **change}
        monkeypatch.setattr(grpo, "grpo_arguments", lambda *args, told=told, **more: told)
        with pytest.raises(OresmithError, match="not one of Dr"):
            grpo.build_trainer(planned, start, TRAIN, SETTINGS, chat=chat, checkpoints=tmp_path)


def test_a_run_keeps_what_it_sampled_and_measures_its_kl_without_beta(start: Path, tmp_path: Path) -> None:
    policy = Written(Chat.load(start))
    done = fit(start, tmp_path, policy=policy)
    assert policy.closed
    assert len(policy.refreshed) == 2
    assert [update.number for update in done.updates] == [0, 1]
    for update in done.updates:
        assert [one.outcome for one in update.rollouts] == [1.0, 0.0] * 2
        assert [one.reward for one in update.rollouts] == [1.0, 0.0] * 2
        assert [one.advantage for one in update.rollouts] == [0.5, -0.5] * 2
        assert all(one.trained for one in update.rollouts)
    first, second = done.updates
    assert first.kl == pytest.approx(0.0, abs=1e-9)
    assert second.kl is not None
    assert second.kl > 1e-7
    assert [row["kl_to_start"] for row in done.outcome.curve] == [first.kl, second.kl]
    assert [row["clipped"] for row in done.outcome.curve] == [0.0, 0.0]
    named = {(one.rollout.problem, one.rollout.sample) for update in done.updates for one in update.rollouts}
    assert len(named) == 8
    assert (tmp_path / "out" / ADAPTER).is_file()


def test_with_beta_the_kl_is_in_the_loss_and_is_trls(start: Path, tmp_path: Path) -> None:
    done = fit(start, tmp_path, replace(SETTINGS, beta=0.5))
    for row in done.outcome.curve:
        assert row["kl"] == pytest.approx(row["kl_to_start"], rel=1e-3, abs=1e-9)


def test_all_weights_can_be_trained_and_are_held_against_the_start(start: Path, tmp_path: Path) -> None:
    done = fit(start, tmp_path, replace(SETTINGS, learning_rate=1e-4), replace(TRAIN, method="full"), problems=1)
    assert done.updates[0].kl == pytest.approx(0.0, abs=1e-9)
    assert done.updates[1].kl is not None
    assert done.updates[1].kl > 1e-9
    assert (tmp_path / "out/model/model.safetensors").is_file()


def test_the_model_itself_is_sampled_and_the_same_seeds_train_the_same_adapter(start: Path, tmp_path: Path) -> None:
    chat = Chat.load(start)
    settings = replace(SETTINGS, max_new_tokens=12, max_turns=2, max_clipped=1.0, temperature=0.7)
    adapters, said = [], []
    for name in ("one", "two"):
        play = Arena(cases()[:2], toolboxes(), Parity({"": small_shop()[0]}, Teachers({}, {}), 0.5, None))
        work = tmp_path / name
        (work / "out").mkdir(parents=True)
        done = grpo.fit_grpo(
            play, start, TRAIN, settings, chat=chat, checkpoints=work / "checkpoints", out=work / "out", quiet=True
        )
        adapters.append((work / "out" / ADAPTER).read_bytes())
        said.append([reply.text for update in done.updates for one in update.rollouts for reply in one.rollout.replies])
    assert adapters[0] == adapters[1]
    assert said[0] == said[1]
    assert len(set(said[0])) > len(said[0]) // 2


class KilledError(Exception):
    """Stands for a kill: nothing of ours catches it."""


@pytest.mark.parametrize("interval", [1, 2])
def test_a_run_that_was_killed_ends_as_one_that_was_not(start: Path, tmp_path: Path, interval: int) -> None:
    train, settings = replace(TRAIN, checkpoint_steps=interval), replace(SETTINGS, steps=3, batch=2, microbatch=1)
    whole = fit(start, tmp_path / "whole", settings, train)

    class Dies(Written):
        def refresh(self, model: Any) -> None:
            super().refresh(model)
            if len(self.refreshed) == 3:
                raise KilledError

    with pytest.raises(KilledError):
        fit(start, tmp_path / "killed", settings, train, policy=Dies(Chat.load(start)))
    again = fit(start, tmp_path / "killed", settings, train)
    assert again.outcome.resumed_from == 2
    assert again.updates == whole.updates
    assert again.outcome.curve == whole.outcome.curve
    assert again.outcome[:3] == whole.outcome[:3]
    assert (tmp_path / "killed/out" / ADAPTER).read_bytes() == (tmp_path / "whole/out" / ADAPTER).read_bytes()


def test_rollouts_with_a_leak_are_kept_and_not_trained_on(start: Path, tmp_path: Path) -> None:
    chat, found = Chat.load(start), arena(1)._replace(leaks=lambda rollouts: {0: "gold"})
    settings = replace(SETTINGS, batch=2, microbatch=2, steps=1)
    (tmp_path / "out").mkdir()
    done = grpo.fit_grpo(
        found,
        start,
        TRAIN,
        settings,
        chat=chat,
        checkpoints=tmp_path / "checkpoints",
        out=tmp_path / "out",
        quiet=True,
        policy=Written(chat),
    )
    assert [(one.leak, bool(one.trained), one.advantage) for one in done.updates[0].rollouts] == [
        ("gold", False, 0.5),
        ("", True, -0.5),
    ]


def test_rewards_without_variance_stop_the_step(start: Path, tmp_path: Path) -> None:
    policy = Written(Chat.load(start), lambda request, turn: "I do not know.")
    with pytest.raises(OresmithError, match="rewards do not vary"):
        fit(start, tmp_path, replace(SETTINGS, flat_steps=2, steps=5), policy=policy)
    assert len(policy.refreshed) == 2


def test_rollouts_that_a_limit_cuts_stop_the_step(start: Path, tmp_path: Path) -> None:
    policy = Written(Chat.load(start), lambda request, turn: ChatReply(key="", text="So", finish="length"))
    settings = replace(SETTINGS, steps=1)
    with pytest.raises(OresmithError, match="cut by a limit"):
        fit(start, tmp_path, settings, policy=policy)


def test_a_kl_beyond_its_bound_stops_the_step_before_its_checkpoint(start: Path, tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="has left the model"):
        fit(start, tmp_path, replace(SETTINGS, max_kl=1e-9, steps=3, learning_rate=0.01))
    found = sorted(path.name for path in (tmp_path / "checkpoints").glob("checkpoint-*"))
    assert found == ["checkpoint-1"]


def kept(advantage: float = 0.5, clipped: bool = False) -> Kept:
    rollout = Rollout(
        problem="p", problem_id=None, sample=0, seed=0, messages=[], ended="turns" if clipped else "stopped"
    )
    trained = [Trained(ids=[1], mask=[1])]
    return Kept(
        rollout=rollout, outcome=0, agreement=0, reward=0, advantage=advantage, clipped=clipped, trained=trained
    )


def updates(*advantages: float, clipped: int = 0, each: int = 4) -> list[Update]:
    return [
        Update(number=number, rollouts=[kept(advantage, place < clipped) for place in range(each)], kl=None)
        for number, advantage in enumerate(advantages)
    ]


def test_bounds_look_at_the_newest_rollouts_and_updates_in_a_row() -> None:
    settings = replace(SETTINGS, flat_steps=3, max_clipped=0.25)
    check_rewards(updates(0, 0, 0.5, 0, 0), settings)
    with pytest.raises(OresmithError, match="rewards do not vary"):
        check_rewards(updates(0.5, 0, 0, 0), settings)
    check_rewards(updates(*[0.5] * 20, clipped=1), settings)
    check_rewards(updates(*[0.5] * 7, clipped=4), settings)  # 28 rollouts are too few to judge
    with pytest.raises(OresmithError, match="16 of the last 32"):
        check_rewards(updates(*[0.5] * 8, clipped=2), settings)
    with pytest.raises(OresmithError, match="2 of the last 4"):
        check_rewards(updates(0.5, clipped=2), settings, ended=True)
    check_rewards(updates(*[0.5] * 8, clipped=4) + updates(*[0.5] * 8), settings)
    for wrong in (1.1, float("nan"), float("inf")):
        with pytest.raises(OresmithError, match="has left the model"):
            check_kl(wrong, 3, replace(SETTINGS, max_kl=1.0))
    check_kl(None, 3, SETTINGS)
    check_kl(1.0, 3, replace(SETTINGS, max_kl=1.0))


def test_records_of_updates_that_no_checkpoint_holds_are_not_taken_up(tmp_path: Path) -> None:
    records = Records(tmp_path / "updates")
    for update in updates(0.5, 0.25, 0.0):
        records.write(update)
    assert Records(tmp_path / "updates").read(2) == updates(0.5, 0.25)
    assert len(list((tmp_path / "updates").iterdir())) == 2
    with pytest.raises(OresmithError, match="cannot be read"):
        records.read(3)


def test_a_schedule_gives_every_problem_its_turn_and_every_sample_its_own_number() -> None:
    settings = replace(SETTINGS, steps=6, batch=4, generations=2)
    planned = schedule(cases()[:3], settings)
    jobs = [[(job.case.name, job.sample) for job in planned.jobs(update)] for update in range(6)]
    assert len({one for some in jobs for one in some}) == 24
    for first in range(0, 6, 3):
        turns = [name for some in jobs[first : first + 3] for name, _ in some[::2]]
        assert sorted(turns) == sorted([case.name for case in cases()[:3]] * 2)
    assert jobs != [
        [(job.case.name, job.sample) for job in schedule(cases()[:3], replace(settings, seed=2)).jobs(n)]
        for n in range(6)
    ]
    longer = schedule(cases()[:3], replace(settings, max_steps=9))
    assert longer.prompts[:6] == planned.prompts
    assert len(longer.prompts) == 9
    with pytest.raises(OresmithError, match="whole groups"):
        schedule(cases()[:3], replace(settings, batch=3))
    with pytest.raises(OresmithError, match="0 problems"):
        schedule([], settings)


def test_the_configuration_for_vllm_is_built_without_a_gpu(tmp_path: Path) -> None:
    from trl.trainer.grpo_config import GRPOConfig

    settings = replace(SETTINGS, rollouts="vllm", vllm_memory=0.4)
    told = GRPOConfig(**grpo_arguments(replace(TRAIN, max_tokens=8192), settings, home=tmp_path, context=10_000))
    assert (told.use_vllm, told.vllm_mode, told.vllm_gpu_memory_utilization) == (True, "colocate", 0.4)
    assert told.vllm_max_model_length == 10_000
    assert (told.loss_type, told.scale_rewards, told.steps_per_generation) == ("dr_grpo", "none", 1)


def test_against_another_sampler_each_token_is_weighted_by_the_ratio_up_to_a_bound(start: Path, tmp_path: Path) -> None:
    class Scored(Written):
        def _answer(self, request: Any) -> Any:
            answer = super()._answer(request)
            return answer._replace(scores=[-9.0] * len(answer.sampled))

    trainer, batch = built(start, tmp_path, replace(SETTINGS, batch=2, microbatch=2), policy=Scored(Chat.load(start)))
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
    trainer.vllm_importance_sampling_clip_max = 3.0
    trainer._compute_loss(trainer.model, batch)
    now = trainer._now
    mask = now["tool_mask"] == 1
    ratio = now["importance_sampling_ratio"]
    # Tokens of random weights have log-probabilities about -6: the sampler found them less likely.
    assert ratio[mask].max() == 3.0
    assert bool((ratio[~mask] == 1.0).all())
    expected = (now["ref_per_token_logps"] + 9.0).exp().clamp(max=3.0)
    assert torch.allclose(ratio[mask], expected[mask], rtol=1e-4)
