"""Tokens of rows a second in SFT: our trainer against a plain script with TRL's, with the same rows and settings.

The embedded model is trained for a few updates by LoRA in float32. The plain script is what TRL's documentation shows
for rows that are tokenised already. It has a microbatch of one row, which on a CPU is its best: nothing is padded.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.batching import embedded
from benchmarks.measure import Section, Settings, SkippedError, in_fresh_process, verdict

TARGET = 1.0
CONTENDERS = {"plain TRL": 1, "ours, rows one by one": 1, "ours, beginnings shared where it pays": 4}
"""Microbatch of each."""
BATCH, UPDATES = 4, 2
"""The first update, in which memory is found, is not measured."""
ITEMS, THOUGHTS = 12, 20
"""Products in a result, and sentences before a call: so rows have some 2,000 tokens, 40% of them supervised, and begin
alike for 270, as in a corpus of the embedded world."""


def bench(settings: Settings) -> Section:
    """The table of `make bench`."""
    section = Section(
        f"SFT on one core: {BATCH} rows an update, embedded model, LoRA in float32",
        ("trainer", "tokens of rows a CPU second", "peak MiB", "loss", "ratio"),
    )
    found = {
        name: in_fresh_process("benchmarks.sft:measured", str(settings.home), name, ready="time") for name in CONTENDERS
    }
    plain = found["plain TRL"]["result"]["per_second"]
    for name, one in found.items():
        result = one["result"]
        ratio = result["per_second"] / plain
        target = "" if name == "plain TRL" else f" {verdict(ratio, TARGET)}"
        section.rows.append(
            (
                name,
                f"{result['per_second']:,.0f}",
                f"{one['rss'] / 2**20:,.0f}",
                f"{result['loss']:.5f}",
                f"{ratio:.2f}{target}",
            )
        )
        section.numbers[name] = result | {"rss": one["rss"], "ratio": ratio}
    result = found["plain TRL"]["result"]
    section.notes.append(
        f"rows of {result['tokens'] / BATCH:,.0f} tokens on average, CPU time of one thread, one update"
    )
    section.notes.append("loss: of the measured update, the same for all but for the last bits")
    return section


def measured(home: str, name: str) -> dict[str, Any]:
    """Train with one contender.

    Returns:
        `per_second` (tokens of rows a CPU second), `tokens` of the measured update, and its `loss`.
    """
    try:
        import torch
        import trl  # noqa: F401
    except ImportError as error:
        raise SkippedError(f"the extra `train` is not installed ({error})") from error
    from oresmith.training.collate import row_order

    torch.set_num_threads(1)
    model = embedded(Path(home))
    rows = made_rows(model, BATCH)
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        train = plain if name == "plain TRL" else ours
        losses = train(rows, model, Path(scratch), CONTENDERS[name], clock)
    last = row_order(len(rows), BATCH * UPDATES, 1)[-BATCH:]
    tokens = sum(len(rows[place].ids) for place in last)
    return {
        "per_second": tokens / clock.last(),
        "tokens": tokens,
        "loss": losses[-1],
    }


class Clock:
    """CPU seconds at the end of each update."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def __call__(self, *_: int) -> None:
        """An update has ended."""
        self.ends.append(time.process_time())

    def last(self) -> float:
        """CPU seconds of the last update."""
        return self.ends[-1] - self.ends[-2]


def ours(rows: list[Any], model: Path, scratch: Path, microbatch: int, clock: Callable[..., None]) -> list[float]:
    """The losses of our trainer."""
    from oresmith.param_training import Sft, Train
    from oresmith.training.sft import fit

    settings = Sft(batch=BATCH, microbatch=microbatch, max_steps=UPDATES)
    out, checkpoints = scratch / "out", scratch / "checkpoints"
    out.mkdir()
    train = Train(threads=1, packing="prefix" if microbatch > 1 else "none", checkpoint_steps=10**6)
    done = fit(
        rows,
        model,
        train,
        settings,
        seed=1,
        checkpoints=checkpoints,
        out=out,
        name="bench",
        on_progress=clock,
        quiet=True,
    )
    return [row["loss"] for row in done.curve]


def plain(rows: list[Any], model: Path, scratch: Path, microbatch: int, clock: Callable[..., None]) -> list[float]:
    """The losses of a plain script with TRL's trainer and collator, on the same rows in the same order."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    from oresmith.param_training import Sft, Train
    from oresmith.training.collate import row_order

    class Tell(TrainerCallback):  # type: ignore[misc]
        """Tells the clock."""

        def on_step_end(self, *_: Any, **others: Any) -> None:
            """An update has ended."""
            clock()

    train, settings = Train(), Sft()
    seen = [rows[place] for place in row_order(len(rows), BATCH * UPDATES, 1)]
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(str(model), dtype=torch.float32),
        args=SFTConfig(
            output_dir=str(scratch),
            per_device_train_batch_size=microbatch,
            gradient_accumulation_steps=BATCH // microbatch,
            max_steps=UPDATES,
            learning_rate=settings.learning_rate,
            lr_scheduler_type=settings.schedule,
            warmup_steps=settings.warmup,
            max_length=None,
            train_sampling_strategy="sequential",
            logging_steps=1,
            seed=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            dataloader_pin_memory=False,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(
            [
                {
                    "input_ids": row.ids,
                    "labels": [token if kept else -100 for token, kept in zip(row.ids, row.mask, strict=True)],
                }
                for row in seen
            ]
        ),
        processing_class=AutoTokenizer.from_pretrained(str(model)),
        peft_config=LoraConfig(
            r=train.rank, lora_alpha=train.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
        callbacks=[Tell()],
    )
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def made_rows(model: Path, count: int) -> list[Any]:
    """Rows with our system prompt and tools, two searches and a recommendation each."""
    from oresmith.arena.toolschema import tools
    from oresmith.evaluation.prompts import system_prompt
    from oresmith.models.rendering import Chat, training_rows
    from oresmith.training.rowset import TrainingRow

    def call(name: str, **arguments: str) -> dict[str, Any]:
        return {"function": {"name": name, "arguments": json.dumps(arguments)}}

    def results(number: int, first: int) -> str:
        found = [
            {"product_id": str(10**9 + 7919 * number + 31 * item), "title": f"cotton shirt, size {item}", "price": item}
            for item in range(first, first + ITEMS)
        ]
        return json.dumps(found)

    chat, rows = Chat.load(model), []
    for number in range(count):
        talk: list[dict[str, Any]] = [
            {"role": "system", "content": system_prompt("shopper-1")},
            {"role": "user", "content": f"I am looking for a blue cotton shirt, size {number}, for less than 250."},
        ]
        for page in ("1", "2"):
            thought = "I search with the words of the request, and compare titles and prices. " * THOUGHTS
            query = call("find_product", q="blue cotton shirt", page=page)
            talk += [
                {"role": "assistant", "content": "", "reasoning_content": thought, "tool_calls": [query]},
                {"role": "tool", "content": results(number, ITEMS * int(page) + number)},
            ]
        chosen = call("recommend_product", product_ids=str(10**9 + number))
        talk.append({"role": "assistant", "content": "", "reasoning_content": "It fits.", "tool_calls": [chosen]})
        rendered = training_rows(talk, tools(), chat)[-1]
        rows.append(
            TrainingRow(
                row_id=str(number),
                turn=rendered.turns[-1].message,
                origin="corpus",
                problem=str(number),
                cluster=str(number),
                category="product",
                ids=rendered.ids,
                mask=rendered.mask,
            )
        )
    return rows
