"""The part of gpu_smoke.py that needs TRL: its three trainers take steps on the same random model."""

from __future__ import annotations

import importlib
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TEMPLATE = "{% for m in messages %}{{ m['role'] + ' ' + m['content'] + ' <end> ' }}{% endfor %}"
STEPS = 2


def tokenizer(vocabulary: int) -> Any:
    """Words `w0 w1 ..` and two control tokens: enough for trainers that want a tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": 0, "<end>": 1, "user": 2, "assistant": 3} | {
        f"w{n}": n + 4 for n in range(min(vocabulary, 4096) - 4)
    }
    raw = Tokenizer(models.WordLevel(words, unk_token="w0"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<end>", padding_side="left")
    made.chat_template = TEMPLATE
    return made


def common(device: str, rows: int, folder: str) -> dict[str, Any]:
    """Arguments that the three configurations share."""
    cuda = device == "cuda"
    return {
        "output_dir": folder,
        "max_steps": STEPS,
        "per_device_train_batch_size": rows,
        "learning_rate": 1e-4,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": not cuda,
        "bf16": cuda,
        "gradient_checkpointing": cuda,
        "dataloader_pin_memory": cuda,
    }


def words(count: int, place: int) -> str:
    """So many words, others at each place."""
    return " ".join(f"w{(place * 7 + n * 3) % 200}" for n in range(count))


def sft(sizes: Any, device: str, dtype: Any, build: Callable[..., Any]) -> dict[str, Any]:
    """SFTTrainer on rows of ids."""
    from datasets import Dataset

    def row(place: int) -> dict[str, Any]:
        ids = [4 + (place + n) % 200 for n in range(sizes.row)]
        return {"input_ids": ids, "labels": [-100] * (sizes.row * 3 // 4) + ids[sizes.row * 3 // 4 :]}

    data = Dataset.from_list([row(place) for place in range(sizes.rows * STEPS)])
    with trainer_of(sizes, device, dtype, build) as (model, options, folder):
        arguments = of_trl("SFTConfig")(
            **common(device, sizes.rows, folder), dataset_kwargs={"skip_prepare_dataset": True}
        )
        return ran(
            of_trl("SFTTrainer")(model, args=arguments, train_dataset=data, **options), sizes.rows * sizes.row * STEPS
        )


def kto(sizes: Any, device: str, dtype: Any, build: Callable[..., Any]) -> dict[str, Any]:
    """KTOTrainer on prompts and completions, half of them desirable."""
    from datasets import Dataset

    half = sizes.row // 2
    made = [
        {"prompt": words(half, place), "completion": " " + words(half, place + 1), "label": place % 2 == 0}
        for place in range(sizes.rows * STEPS)
    ]
    with trainer_of(sizes, device, dtype, build) as (model, options, folder):
        arguments = of_trl("KTOConfig")(**common(device, sizes.rows, folder), max_length=sizes.row + 2)
        trainer = of_trl("KTOTrainer")(model, args=arguments, train_dataset=Dataset.from_list(made), **options)
        return ran(trainer, sizes.rows * sizes.row * STEPS)


def grpo(sizes: Any, device: str, dtype: Any, build: Callable[..., Any]) -> dict[str, Any]:
    """GRPOTrainer with Dr. GRPO's loss and unscaled rewards, sampling with the model's own `generate`."""
    from datasets import Dataset

    def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
        return [sum(one % 2 for one in ids) / max(1, len(ids)) for ids in completion_ids]

    data = Dataset.from_list([{"prompt": words(sizes.row // 2, place)} for place in range(sizes.rows * STEPS)])
    with trainer_of(sizes, device, dtype, build) as (model, options, folder):
        arguments = of_trl("GRPOConfig")(
            **common(device, sizes.rows, folder),
            num_generations=2,
            max_completion_length=sizes.new_tokens,
            loss_type="dr_grpo",
            scale_rewards="none",
            beta=0.0,
        )
        trainer = of_trl("GRPOTrainer")(model, args=arguments, reward_funcs=reward, train_dataset=data, **options)
        tokens = sizes.rows * (sizes.row // 2 + sizes.new_tokens) * STEPS
        return ran(trainer, tokens)


def of_trl(name: str) -> Any:
    """A class of TRL, wherever its version keeps it."""
    for module in ("trl", "trl.experimental.kto"):
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"this TRL has no {name}")


@contextmanager
def trainer_of(
    sizes: Any, device: str, dtype: Any, build: Callable[..., Any]
) -> Iterator[tuple[Any, dict[str, Any], str]]:
    """(model, keywords for the trainer, scratch folder), with LoRA where peft is there."""
    from importlib.util import find_spec

    model, _ = build(sizes, device, dtype)
    options: dict[str, Any] = {"processing_class": tokenizer(sizes.shape["vocab_size"])}
    if find_spec("peft"):
        from peft import LoraConfig

        options["peft_config"] = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    with tempfile.TemporaryDirectory(prefix="gpu-smoke-trl-") as folder:
        yield model, options, folder


def ran(trainer: Any, tokens: int) -> dict[str, Any]:
    """Train, and say how fast and with what memory; start-up of the trainer's first step included."""
    import torch

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    began = time.monotonic()
    trainer.train()
    seconds = time.monotonic() - began
    losses = [float(row["loss"]) for row in trainer.state.log_history if "loss" in row]
    if len(losses) != STEPS or not all(map(math.isfinite, losses)):
        raise AssertionError(f"{STEPS} finite losses were expected, not {losses}")
    found: dict[str, Any] = {"tokens_per_s": round(tokens / seconds, 1), "seconds_per_step": round(seconds / STEPS, 3)}
    return found | ({"memory_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)} if cuda else {})


TRAINERS = {"trl_sft": sft, "trl_kto": kto, "trl_grpo": grpo}
