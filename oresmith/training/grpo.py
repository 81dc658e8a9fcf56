"""Dr. GRPO in the arena with `trl.GRPOTrainer`: multi-turn rollouts of the policy itself, trained on as sampled.

Before each update the policy plays its problems, a group of generations each (`sampling.play`), a judge tells what each
rollout is worth (`rewards.Judge`), and TRL makes advantages and loss of it: rewards minus their group's mean, unscaled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from oresmith.errors import OresmithError
from oresmith.models.rendering import Chat
from oresmith.param_training import Grpo, Train
from oresmith.training.arguments import load_for_training, load_tokenizer, lora_config, training_process
from oresmith.training.artefact import save_trained
from oresmith.training.callbacks import step_callbacks, stopping
from oresmith.training.checkpoints import run_training
from oresmith.training.grpo_bounds import Records, Update, check_rewards
from oresmith.training.grpo_plan import AGREEMENT, OUTCOME, Schedule, grpo_arguments, schedule
from oresmith.training.grpo_rounds import Arena, Rounds
from oresmith.training.kto_forward import share_beginnings
from oresmith.training.sampling import Policy
from oresmith.training.step import Outcome

RECORDS = "updates"
"""Directory of `Records`, beside the checkpoints."""


class FittedGrpo(NamedTuple):
    """What came of a run."""

    outcome: Outcome
    updates: list[Update]


def fit_grpo(
    arena: Arena,
    start: Path,
    train: Train,
    settings: Grpo,
    *,
    chat: Chat,
    checkpoints: Path,
    out: Path,
    name: str = "grpo",
    live: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    quiet: bool = False,
    policy: Policy | None = None,
) -> FittedGrpo:
    """Train, from the newest checkpoint where there is one, and save the adapter or the weights.

    Args:
        arena: problems, tools and judge.
        start: directory of the model that is trained, and the reference of the KL.
        train: what all steps share.
        settings: of this step.
        chat: of the model.
        checkpoints: directory of this training's checkpoints (`checkpoint_home`).
        out: directory that takes `adapter/` or `model/`.
        name: of the step, for progress.
        live: directory of the curves; None for none.
        on_progress: called with updates done and in all.
        quiet: show no progress.
        policy: what is sampled; None for the engine that the settings name.

    Raises:
        OresmithError: parameters that do not fit together; rewards without variance, too many rollouts cut by a limit,
            or a KL out of bounds, beyond which nothing is saved; a broken mask; a full disk.
        KeyboardInterrupt: stopped by a signal, with a checkpoint.
    """
    arena.judge.check(arena.cases)
    planned = schedule(arena.cases, settings)
    records = Records(checkpoints / RECORDS)
    with training_process(train), stopping() as stop:
        trainer = build_trainer(planned, start, train, settings, chat=chat, checkpoints=checkpoints)
        policy = policy or _policy(trainer, start, train, settings, chat)
        rounds = Rounds(trainer, arena, policy, train, settings)
        rounds.go_on(records, checkpoints)
        for callback in (
            _callback(rounds, records),
            *step_callbacks(name, stop, live=live, on_progress=on_progress, quiet=quiet),
        ):
            trainer.add_callback(callback)
        try:
            ran = run_training(trainer, checkpoints, stop, name)
        finally:
            policy.close()
    check_rewards(rounds.updates, settings, ended=True)
    if trainer.is_world_process_zero():
        save_trained(trainer.accelerator.unwrap_model(trainer.model), out)
    rows = [row for update in rounds.updates for kept in update.rollouts for row in kept.trained]
    tokens, supervised = sum(len(row.ids) for row in rows), sum(sum(row.mask) for row in rows)
    return FittedGrpo(Outcome(ran.steps, tokens, supervised, ran.curve, ran.resumed_from), rounds.updates)


def build_trainer(
    planned: Schedule, start: Path, train: Train, settings: Grpo, *, chat: Chat, checkpoints: Path
) -> Any:
    """TRL's trainer for a schedule, without rollouts; nothing is trained yet.

    Args:
        planned: for the same settings.
        start: directory of the model that is trained.
        train: what all steps share.
        settings: of this step.
        chat: of the model.
        checkpoints: directory of this training's checkpoints.

    Raises:
        OresmithError: parameters that do not fit together, or a trainer that would compute another loss.
    """
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.utils import add_fused_lm_head

    from oresmith.training.grpo_trainer import SegmentTrainer

    model = load_for_training(start, train)
    context = int(model.config.max_position_embeddings)
    places = [
        {"prompt": f"{number}:{slot}"} for number, some in enumerate(planned.prompts) for slot in range(len(some))
    ]
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # `rollout_func` may change, which constraints.txt sees to
    trainer = SegmentTrainer(
        model=model,
        reward_funcs=[_part(OUTCOME), _part(AGREEMENT)],
        args=GRPOConfig(**grpo_arguments(train, settings, home=checkpoints, context=context)),
        train_dataset=Dataset.from_list(places),
        processing_class=load_tokenizer(start),
        peft_config=lora_config(train),
        rollout_func=lambda prompts, its_trainer: its_trainer.rounds(prompts),
    )
    trainer.chat, trainer.planned = chat, planned
    _require_dr_grpo(trainer, settings)
    models = [trainer.model]
    if train.method == "full":
        trainer.start_model = trainer.ref_model or load_for_training(start, train).eval().to(trainer.accelerator.device)
        models.append(trainer.start_model)
        if trainer.ref_model is None:
            add_fused_lm_head(trainer.start_model, temperature=settings.temperature, outputs=("log_probs", "entropy"))
    recomputed = train.packing == "prefix" and train.dropout == 0  # which draws no dropout a second time
    if recomputed and not train.activation_checkpointing and not trainer.is_fsdp_enabled:
        for one in models:
            share_beginnings(one.get_base_model() if hasattr(one, "get_base_model") else one, settings.temperature)
    return trainer


def _policy(trainer: Any, start: Path, train: Train, settings: Grpo, chat: Chat) -> Policy:
    from oresmith.evaluation.engines.model import end_tokens
    from oresmith.models.directory import check_directory
    from oresmith.training.policy import InProcessPolicy, VllmPolicy

    if settings.rollouts == "vllm":
        ends = end_tokens(check_directory(start))
        return VllmPolicy(trainer.vllm_generation.llm, chat, ends, int(trainer.args.vllm_max_model_length))
    if trainer.is_fsdp_enabled:
        raise OresmithError(
            "a copy in the process cannot be made of a model that is spread over GPUs",
            where="grpo.rollouts",
            got="inprocess",
            todo="set it to vllm",
        )
    return InProcessPolicy(start, train, settings.batch)


def _callback(rounds: Rounds, records: Records) -> Any:
    from transformers import TrainerCallback

    class Closing(TrainerCallback):  # type: ignore[misc]
        """Closes each update before it is logged and checkpointed."""

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            rounds.finish(records)

    return Closing()


def _part(name: str) -> Callable[..., list[float]]:
    """A reward function that hands on what the judge found."""

    def reward(**given: Any) -> list[float]:
        found: list[float] = given[name]
        return found

    reward.__name__ = name
    return reward


def _require_dr_grpo(trainer: Any, settings: Grpo) -> None:
    """Refuse a trainer that took the arguments for something else."""
    args = trainer.args
    found = {
        "loss_type": trainer.loss_type,
        "scale_rewards": trainer.scale_rewards,
        "beta": trainer.beta,
        "iterations": trainer.num_iterations,
        "updates of one round": args.steps_per_generation / args.gradient_accumulation_steps,
        "aggregation": trainer.multi_objective_aggregation,
        "balancing of experts": trainer.aux_loss_enabled,
    }
    expected = {
        "loss_type": "dr_grpo",
        "scale_rewards": "none",
        "beta": settings.beta,
        "iterations": 1,
        "updates of one round": 1.0,
        "aggregation": "sum_then_normalize",
        "balancing of experts": False,
    }
    if found != expected:
        wrong = [name for name, value in expected.items() if found[name] != value]
        raise OresmithError(
            "the trainer is not one of Dr. GRPO",
            where="grpo",
            expected=", ".join(f"{name} {expected[name]}" for name in wrong),
            got=", ".join(f"{name} {found[name]}" for name in wrong),
            todo="install the versions that constraints.txt names",
        )
