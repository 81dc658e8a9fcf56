"""Supervised fine-tuning of `TrainingRow`s with TRL: loss on what the model is to emit, and on nothing else.

Three things differ from TRL's trainer, and none of them changes a gradient beyond the last bits: scores over the
vocabulary are computed for supervised tokens only (TRL does that on GPUs alone); rows of a microbatch that begin alike
have that beginning computed once; and a checkpoint is whole or not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from oresmith.errors import OresmithError
from oresmith.models.rendering import Chat
from oresmith.param_training import Fit, Train
from oresmith.training.arguments import (
    load_for_training,
    load_tokenizer,
    lora_config,
    trainer_arguments,
    training_process,
    updates,
)
from oresmith.training.artefact import ADAPTER, MODEL, save_trained
from oresmith.training.callbacks import step_callbacks, stopping
from oresmith.training.checkpoints import WholeCheckpoints, run_training
from oresmith.training.collate import IGNORED, Collator, Packing, check_batches, order_sha256, row_order
from oresmith.training.rowset import TrainingRow


class Fitted(NamedTuple):
    """What a training came to."""

    steps: int
    tokens: int
    """Of the rows, each time that one was seen, padding aside."""
    supervised: int
    computed: int
    """Tokens that went through the model: shared beginnings count once, padding counts."""
    curve: list[dict[str, float]]
    """A row an update: `step`, `loss`, `learning_rate`, `grad_norm`, `mean_token_accuracy`."""
    resumed_from: int
    order_sha256: str
    """Over the rows in the order in which they were seen."""
    packing: Packing
    """As done: beginnings are not shared between processes, nor where activations are recomputed."""


def fit(
    rows: Sequence[TrainingRow],
    start: Path,
    train: Train,
    settings: Fit,
    *,
    seed: int,
    checkpoints: Path,
    out: Path,
    name: str,
    live: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    quiet: bool = False,
) -> Fitted:
    """Train, from the newest checkpoint where there is one, and save the adapter or the weights.

    On a CPU the same rows, parameters, seed and machine give the same bytes, whether or not it was interrupted.

    Args:
        rows: checked (`rows`), in any order.
        start: directory of the model that is trained.
        train: what all steps share.
        settings: the step's own.
        seed: of the order of rows and of the adapter.
        checkpoints: directory of this training's checkpoints (`checkpoint_home`).
        out: existing directory that takes `adapter/` or `model/`.
        name: of the step, for progress.
        live: directory of the curves; None for none.
        on_progress: called with updates done and in all.
        quiet: show no progress.

    Raises:
        OresmithError: no rows, a batch that would train on something else than the assistant's turns, a loss that is no
            number, a full disk at a checkpoint.
        KeyboardInterrupt: stopped by a signal, with a checkpoint.
    """
    if not rows:
        raise OresmithError("there are no rows to train on", where=name)
    chat = Chat.load(start)
    steps = updates(settings, len(rows))
    order = row_order(len(rows), steps * settings.batch, seed)
    with training_process(train), stopping() as stop:
        trainer = build_trainer(rows, order, start, train, settings, seed=seed, checkpoints=checkpoints, chat=chat)
        collator = trainer.data_collator
        counts = check_batches(collator, rows, order, settings.microbatch, chat)
        for callback in step_callbacks(name, stop, live=live, on_progress=on_progress, quiet=quiet):
            trainer.add_callback(callback)
        ran = run_training(trainer, checkpoints, stop, name)
    save_weights(trainer, out, train)
    return Fitted(
        steps=ran.steps,
        curve=ran.curve,
        resumed_from=ran.resumed_from,
        order_sha256=order_sha256(rows, order),
        packing=collator.packing,
        **counts,
    )


def build_trainer(
    rows: Sequence[TrainingRow],
    order: Sequence[int],
    start: Path,
    train: Train,
    settings: Fit,
    *,
    seed: int,
    checkpoints: Path,
    chat: Chat,
) -> Any:
    """The trainer for rows in an order, without callbacks; nothing is trained yet.

    Args:
        rows: as in `fit`.
        order: places among the rows, as many as all updates take.
        start: as in `fit`.
        train: as in `fit`.
        settings: as in `fit`.
        seed: as in `fit`.
        checkpoints: as in `fit`.
        chat: of the model.

    Raises:
        OresmithError: a batch that cannot be split evenly, or no such device.
    """
    from datasets import Dataset
    from trl.trainer.sft_config import SFTConfig

    steps = len(order) // settings.batch
    arguments = trainer_arguments(train, settings, home=checkpoints, seed=seed, steps=steps)
    model = load_for_training(start, train)
    trainer = trainer_class()(
        model=model,
        args=SFTConfig(
            **arguments,
            max_length=None,
            packing=False,
            dataset_kwargs={"skip_prepare_dataset": True},
        ),
        train_dataset=Dataset.from_dict({"row": list(order)}),
        data_collator=Collator(rows, "none", chat.tokenizer.end),
        processing_class=load_tokenizer(start),
        peft_config=lora_config(train),
    )
    if train.packing == "prefix" and _can_share(trainer, model.config, settings):
        trainer.data_collator.packing, trainer.data_collator.reach = "prefix", _reach(model)
    return trainer


@cache
def trainer_class() -> Any:
    """TRL's SFTTrainer with our batches, loss and checkpoints. Made when asked for, since torch is needed."""
    import torch
    from torch.nn.functional import cross_entropy
    from transformers import DynamicCache
    from trl.trainer.sft_trainer import SFTTrainer

    class Trainer(WholeCheckpoints, SFTTrainer):
        """Takes the batches of `Collator`."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.model_accepts_loss_kwargs: bool = True  # the loss is over all supervised tokens of an update, always

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            """Mean over the supervised tokens of the whole update, of which this is one batch's part."""
            if return_outputs or self.args.device.type != "cpu":
                trl: Any = super()
                return trl.compute_loss(model, inputs, return_outputs, num_items_in_batch)
            loss = self._summed(model, dict(inputs)) / self._items(inputs, num_items_in_batch)
            return loss * self.accelerator.num_processes if self.args.average_tokens_across_devices else loss

        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            """Forward and backward of one batch; of groups that share a beginning, one row after the other."""
            if "shares" not in inputs:
                trl: Any = super()
                return trl.training_step(model, inputs, num_items_in_batch)
            model.train()
            inputs = self._prepare_inputs(inputs)
            items = self._items(inputs, num_items_in_batch)
            total = torch.zeros((), device=self.args.device)
            for share in inputs["shares"]:
                total += self._shared(model, inputs, share, items)
            return total

        def _shared(self, model: Any, inputs: Any, share: Any, items: Any) -> Any:
            """The rows of a group. The beginning's keys and values gather the gradients of all rows, then it goes back.

            So there are in memory at the same time the activations of the beginning and of one row.
            """
            (begun, end), rests = share
            held: list[Any] = []
            if end > begun:
                read = DynamicCache()
                with self.compute_loss_context_manager():
                    model(
                        input_ids=inputs["input_ids"][:, begun:end],
                        position_ids=inputs["position_ids"][:, begun:end],
                        cache=read,
                        use_cache=True,
                        logits_to_keep=1,
                    )
                held = [part for layer in read.layers for part in (layer.keys, layer.values)]
            leaves = [part.detach().requires_grad_() for part in held]
            total = torch.zeros((), device=self.args.device)
            for first, last in rests:
                row = {key: inputs[key][:, first:last] for key in ("input_ids", "position_ids", "labels")}
                if leaves:
                    row["cache"] = DynamicCache(list(zip(leaves[::2], leaves[1::2], strict=True)))
                with self.compute_loss_context_manager():
                    loss = self._summed(model, row) / items
                self.accelerator.backward(loss)
                total += loss.detach()
            if held:
                torch.autograd.backward(held, [leaf.grad for leaf in leaves])
            return total

        def _summed(self, model: Any, inputs: dict[str, Any]) -> Any:
            """Sum of the negative log-likelihood of the supervised tokens."""
            inputs["use_cache"] = False
            if self.args.device.type != "cpu":
                return -model(**inputs, fused_lm_head=True).log_probs.sum()
            targets = inputs.pop("labels")[:, 1:]
            # Of a padded batch, the places that are supervised in any row.
            places = (targets != IGNORED).any(0).nonzero()[:, 0]
            targets = targets[:, places]
            scores = model(**inputs, logits_to_keep=places).logits
            chosen = targets != IGNORED
            scores, targets = scores[chosen].float(), targets[chosen]
            right = (scores.detach().argmax(-1) == targets).sum() / max(1, len(targets))
            self._metrics["train"]["mean_token_accuracy"].append(right.item())
            return cross_entropy(scores, targets, reduction="sum")

        def _items(self, inputs: Any, counted: Any) -> Any:
            """Supervised tokens of the whole update, at least 1."""
            found = (inputs["labels"][..., 1:] != IGNORED).sum() if counted is None else counted
            return torch.as_tensor(found).clamp(min=1)

        def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
            """Without the count of tokens, which begins anew in each process."""
            self._metrics["train"].pop("num_tokens", None)
            super().log(logs, start_time)

        def _send_telemetry(self) -> None:
            pass

    return Trainer


def _can_share(trainer: Any, config: Any, settings: Fit) -> bool:
    """Whether a beginning may be computed once: in one process, by plain attention, where activations are kept."""
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    return (
        settings.microbatch > 1
        and trainer.accelerator.num_processes == 1
        and not trainer.args.activation_checkpointing
        and all(kind == "full_attention" for kind in kinds)
        and not getattr(config, "is_encoder_decoder", False)
    )


def _reach(model: Any) -> float:
    """`collate.REACH` of a model: two operations a weight of a layer, four a number of a head and token looked at."""
    config = model.config
    inner = sum(value.numel() for name, value in model.named_parameters() if ".layers." in name and "lora" not in name)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return float(inner / (2 * config.num_hidden_layers * config.num_attention_heads * size))


def save_weights(trainer: Any, out: Path, train: Train) -> None:
    """The adapter or the weights, by the process that writes."""
    if trainer.is_fsdp_enabled:  # all processes have a part
        trainer.save_model(str(out / (ADAPTER if train.method == "lora" else MODEL)))
    elif trainer.is_world_process_zero():
        save_trained(trainer.accelerator.unwrap_model(trainer.model), out)
