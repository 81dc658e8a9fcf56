"""What the parameters come to as arguments of a trainer of TRL, the same for SFT, KTO and GRPO."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oresmith.errors import OresmithError
from oresmith.models.directory import load_model
from oresmith.param_training import Fit, Train


def updates(fit: Fit, rows: int) -> int:
    """Optimiser steps: `max_steps`, or as many as `epochs` passes over the rows take."""
    return fit.max_steps or max(1, math.ceil(rows * fit.epochs / fit.batch))


def trainer_arguments(train: Train, fit: Fit, *, home: Path, seed: int, steps: int) -> dict[str, Any]:
    """Keywords for SFTConfig, KTOConfig and GRPOConfig, which add their own.

    Args:
        train: what all steps share.
        fit: the step's own.
        home: directory of the checkpoints (`checkpoints.checkpoint_home`).
        seed: of the step.
        steps: optimiser steps (`updates`).

    Raises:
        OresmithError: `batch` cannot be split into `microbatch` rows a process, or there is no such device.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if fit.batch % (fit.microbatch * processes):
        raise OresmithError(
            "a batch cannot be split evenly",
            where="batch, microbatch",
            expected=f"batch a multiple of microbatch times {processes} processes",
            got=f"{fit.batch} and {fit.microbatch}",
        )
    _require_device(train)
    constant = "constant_with_warmup" if fit.warmup else "constant"
    return {
        "output_dir": str(home),
        "max_steps": steps,
        "per_device_train_batch_size": fit.microbatch,
        "gradient_accumulation_steps": fit.batch // (fit.microbatch * processes),
        "learning_rate": fit.learning_rate,
        "lr_scheduler_type": constant if fit.schedule == "constant" else fit.schedule,
        "warmup_steps": math.ceil(fit.warmup * steps),  # a float of 1.0 would be read as one step
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "seed": seed,
        "data_seed": seed,
        "use_cpu": train.device == "cpu",
        "bf16": train.dtype == "bfloat16",
        "activation_checkpointing": train.activation_checkpointing,
        "gradient_checkpointing": train.activation_checkpointing,
        "dataloader_pin_memory": train.device != "cpu",
        "dataloader_num_workers": 0,
        "train_sampling_strategy": "sequential",
        "remove_unused_columns": False,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "steps",
        "save_steps": train.checkpoint_steps,
        "save_total_limit": None,  # earlier ones go when a later one is whole: `checkpoints.WholeCheckpoints`
    }


def lora_config(train: Train) -> Any:
    """The `peft_config` of a trainer; None where all weights are trained."""
    if train.method == "full":
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=train.rank,
        lora_alpha=train.alpha,
        lora_dropout=train.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def load_for_training(start: Path, train: Train) -> Any:
    """The model to train, without adapter, in training mode.

    Args:
        start: a checked model directory.
        train: with bfloat16 an adapter is trained on weights in bfloat16; where all weights are trained they stay
            float32, and only products are computed in bfloat16.
    """
    dtype = train.dtype if train.method == "lora" else "float32"
    return load_model(start, dtype=dtype).train()


def load_tokenizer(start: Path) -> Any:
    """The tokenizer of a model directory as trainers ask for it. Rows come as ids: it is only told to pad."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(start), local_files_only=True, trust_remote_code=False)


@contextmanager
def training_process(train: Train) -> Iterator[None]:
    """While open, torch computes with `train.threads` threads on a CPU, and by its deterministic algorithms.

    Bars of transformers for the reading and writing of weights are not shown.
    """
    import torch
    from transformers.utils import logging

    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    if train.device == "cpu":
        torch.set_num_threads(train.threads)
        torch.use_deterministic_algorithms(True)
        # It only finds reads of memory that nothing was written to, and takes as long as a small model's forward.
        torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        with warnings.catch_warnings():
            # Said by a package that asks another for a name that is to be removed.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = filled
        if bars:
            logging.enable_progress_bar()


def _require_device(train: Train) -> None:
    import torch

    if train.device == "cuda" and not torch.cuda.is_available():
        raise OresmithError(
            "there is no GPU that torch can use",
            where="train.device",
            got="cuda",
            todo="set it to cpu, or run where `oresmith doctor` sees a GPU",
        )
