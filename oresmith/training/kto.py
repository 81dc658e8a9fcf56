"""KTO on desirable and undesirable trajectories with `trl.KTOTrainer`, on ids and masks of our own renderer.

TRL tokenises, pairs, masks and cuts rows by itself; none of that is used. Its trainer is given places of rows, and our
collator makes of them what TRL's loss reads. The loss, the reference and the KL estimate are TRL's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oresmith.errors import OresmithError
from oresmith.models.rendering import Chat
from oresmith.param_training import Kto, Train
from oresmith.training.arguments import (
    load_for_training,
    load_tokenizer,
    lora_config,
    trainer_arguments,
    training_process,
    updates,
)
from oresmith.training.callbacks import step_callbacks, stopping
from oresmith.training.checkpoints import WholeCheckpoints, run_training
from oresmith.training.kto_collate import KtoCollator, Weights, check_batches, class_weights, run_order
from oresmith.training.kto_forward import share_beginnings
from oresmith.training.kto_rows import KtoRows
from oresmith.training.rowset import TrainingRow
from oresmith.training.sft import save_weights
from oresmith.training.step import Outcome


class Plan(NamedTuple):
    """What a run will see, known and checked before it begins."""

    order: list[int]
    """Places of rows; as long as updates times rows of an update."""
    updates: int
    weights: Weights
    facts: dict[str, Any]
    """Counts for training.json."""


class FittedKto(NamedTuple):
    """What came of a run."""

    outcome: Outcome
    facts: dict[str, Any]
    """Rows by class, weights, batches checked, and the KL's course."""


def plan_kto(rows: Sequence[TrainingRow], labels: Sequence[bool], settings: Kto) -> Plan:
    """Decide the order of the rows of all updates and the weights of the classes.

    Args:
        rows: checked by the renderer.
        labels: True for a success; as long.
        settings: of the step.

    Raises:
        OresmithError: only one class, or fewer than 2 rows in memory at the same time.
    """
    if settings.batch < 2 or settings.microbatch < 2:
        raise OresmithError(
            "KTO compares the rows of a microbatch with one another",
            where="kto.batch, kto.microbatch",
            expected="2 or more",
            got=f"{settings.batch}, {settings.microbatch}",
        )
    class_weights(sum(labels), len(labels) - sum(labels))  # refuses a class without rows, whatever comes first
    steps = updates(settings, len(rows))
    count = steps * settings.batch
    order = run_order(rows, labels, seed=settings.seed, count=count, microbatch=settings.microbatch)
    desirable = sum(labels[place] for place in order)
    weights = class_weights(desirable, count - desirable)
    facts = {
        "desirable_rows": sum(labels),
        "undesirable_rows": len(labels) - sum(labels),
        "desirable_seen": desirable,
        "undesirable_seen": count - desirable,
        "desirable_weight": round(weights.desirable, 6),
        "undesirable_weight": round(weights.undesirable, 6),
        "weighted_ratio": round(desirable * weights.desirable / ((count - desirable) * weights.undesirable), 6),
    }
    return Plan(order, steps, weights, facts)


def fit_kto(
    chosen: KtoRows,
    planned: Plan,
    start: Path,
    train: Train,
    settings: Kto,
    *,
    chat: Chat,
    checkpoints: Path,
    out: Path,
    name: str = "kto",
    live: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    quiet: bool = False,
) -> FittedKto:
    """Train, from the newest checkpoint where there is one, and save the adapter or the weights.

    Args:
        chosen: rows with the outcome of each.
        planned: for them, by `plan_kto`.
        start: directory of the model that is trained, and the reference.
        train: what all steps share.
        settings: of this step.
        chat: of the model.
        checkpoints: directory of this training's checkpoints (`checkpoint_home`).
        out: directory that takes `adapter/` or `model/`.
        name: of the step, for progress.
        live: directory of the curves; None for none.
        on_progress: called with updates done and in all.
        quiet: show no progress.

    Raises:
        OresmithError: a broken mask; the KL passes `max_kl`, or loss or KL are no numbers; a full disk.
        KeyboardInterrupt: stopped by a signal, with a checkpoint.
    """
    collator = KtoCollator(chosen.rows.rows, chosen.labels(), pad=chat.tokenizer.end)
    with training_process(train), stopping() as stop:
        trainer = build_trainer(collator, planned, start, train, settings, checkpoints=checkpoints)
        context = int(trainer.model.config.max_position_embeddings)
        counts = check_batches(
            trainer.data_collator, planned.order, settings.microbatch, chosen.rows, chat=chat, context=context
        )
        for callback in (
            *step_callbacks(name, stop, live=live, on_progress=on_progress, quiet=quiet),
            _guard(settings),
        ):
            trainer.add_callback(callback)
        ran = run_training(trainer, checkpoints, stop, name)
    save_weights(trainer, out, train)
    kls = [row["kl"] for row in ran.curve if "kl" in row]
    facts = planned.facts | {"checked": counts, "kl_last": kls[-1] if kls else None, "kl_most": max(kls, default=None)}
    outcome = Outcome(ran.steps, counts["tokens"], counts["supervised"], ran.curve, ran.resumed_from)
    return FittedKto(outcome, facts)


def build_trainer(
    collator: KtoCollator, planned: Plan, start: Path, train: Train, settings: Kto, *, checkpoints: Path
) -> Any:
    """TRL's trainer for a plan, without callbacks; nothing is trained yet.

    Args:
        collator: of the rows.
        planned: for the same rows.
        start: directory of the model that is trained, and the reference.
        train: what all steps share.
        settings: of this step.
        checkpoints: directory of this training's checkpoints.

    Raises:
        OresmithError: a batch that the processes cannot share evenly, no such device, or a sampler that would reorder
            the rows.
    """
    import torch
    from datasets import Dataset
    from trl.trainer.kto_config import KTOConfig
    from trl.trainer.kto_trainer import KTOTrainer

    class Trainer(WholeCheckpoints, KTOTrainer):
        """Takes the rows as they are, and tells nobody of it."""

        def _prepare_dataset(self, dataset: Any, *args: Any) -> Any:
            return dataset

        def _send_telemetry(self) -> None:
            pass

        def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
            self._metrics["train"].pop("num_tokens", None)  # of this process only: a resumed run would differ
            super().log(logs, start_time)

    arguments = trainer_arguments(train, settings, home=checkpoints, seed=settings.seed, steps=planned.updates)
    trainer = Trainer(
        model=load_for_training(start, train),
        ref_model=load_for_training(start, train).eval() if train.method == "full" else None,
        args=KTOConfig(
            **arguments,
            beta=settings.beta,
            desirable_weight=planned.weights.desirable,
            undesirable_weight=planned.weights.undesirable,
            max_length=None,
        ),
        train_dataset=Dataset.from_dict({"row": planned.order}),
        processing_class=load_tokenizer(start),
        data_collator=collator,
        peft_config=lora_config(train),
    )
    if not isinstance(trainer._get_train_sampler(), torch.utils.data.SequentialSampler):
        raise OresmithError("the trainer would change the order of the rows, which KTO's pairs depend on")
    if train.packing == "prefix" and not train.activation_checkpointing and not trainer.is_fsdp_enabled:
        for one in (trainer.model, trainer.ref_model):
            if one is not None:
                share_beginnings(one.get_base_model() if hasattr(one, "get_base_model") else one)
    return trainer


def _guard(settings: Kto) -> Any:
    from transformers import TrainerCallback

    class Guard(TrainerCallback):  # type: ignore[misc]
        """Ends a training whose policy leaves the reference, or that computes no numbers."""

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **other: Any) -> None:
            found = {key: float(logs[key]) for key in ("loss", "kl") if logs and key in logs}
            broken = [key for key, value in found.items() if not math.isfinite(value)]
            if broken or found.get("kl", 0.0) > settings.max_kl:
                raise OresmithError(
                    "KTO has left its bound",
                    where=f"update {state.global_step}",
                    expected=f"a finite loss, and a KL up to {settings.max_kl:g} (kto.max_kl)",
                    got=", ".join(f"{key} {value:.4g}" for key, value in found.items()),
                    todo="lower kto.learning_rate, or raise kto.beta or kto.max_kl",
                )

    return Guard()
