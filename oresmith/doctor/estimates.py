"""What every stage will need in memory, time and disk, from the parameters, the data and the constants in `rates`."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from oresmith.doctor import rates
from oresmith.doctor.facts import DataFacts
from oresmith.doctor.machine import GIB
from oresmith.doctor.sizes import ModelSize
from oresmith.param_training import Fit, Kto, Sampled
from oresmith.params import Params

BYTES = {"float32": 4, "bfloat16": 2}


class Setting(msgspec.Struct, frozen=True):
    """What a run is reckoned on."""

    cores: int
    device: rates.Device | None
    """None for a CPU."""
    processes: int = 1
    """GPUs that a training stage spreads over."""


class Need(msgspec.Struct, frozen=True):
    """One stage's needs."""

    stage: str
    what: str
    """How much work."""
    seconds: float | None
    """Wall time; None where it cannot be known."""
    memory_gib: float
    """Of the machine, at the peak."""
    device_gib: float | None
    """Of one GPU; None where none is used."""
    disk_gib: float
    """What it leaves, checkpoints at their peak included."""


class Estimator:
    """Estimates of one run.

    Args:
        params: of the run.
        size: of the base model; every model of the run has its shape.
        facts: of the data.
        setting: what it runs on.
    """

    def __init__(self, params: Params, size: ModelSize, facts: DataFacts, setting: Setting) -> None:
        self.params, self.size, self.facts, self.setting = params, size, facts, setting

    @property
    def shares(self) -> bool:
        """Whether rows share the computing of their common beginning."""
        train = self.params.train
        return train.packing == "prefix" and not train.activation_checkpointing and self.setting.processes == 1

    def all(self) -> list[Need]:
        """Every stage that will run, in the order in which they run."""
        return [*self._data(), *self._steps(), *self._evaluation()]

    def training_flops(self, forwards: float = 1.0) -> float:
        """Operations a token of one update. LoRA spares the gradients of the weights; checkpointing computes twice.

        Args:
            forwards: passes without gradient beside the one that is trained, as shares of a token's forward pass.
        """
        train, parameters = self.params.train, self.size.parameters
        passes = (4.0 if train.method == "lora" else 6.0) + 2.0 * train.activation_checkpointing
        # Attention reads the row so far, on average half of it.
        attention = self.size.layers * self.size.heads * self.size.head_dim * self.facts.tokens
        return (passes + 2.0 * (forwards - 1)) * (parameters + attention)

    def training_seconds(self, rows: float, microbatch: int = 1, forwards: float = 1.0) -> float:
        """Wall time of training on so many rows."""
        tokens, device = rows * self._computed(self.facts.tokens, microbatch) / microbatch, self.setting.device
        work = tokens * self.training_flops(forwards)
        if device is not None and self.params.train.device == "cuda":
            return work / (rates.MFU_TRAIN * device.tflops * 1e12 * self.setting.processes)
        return work / (rates.CPU_TRAIN_FLOPS * min(self.params.train.threads, self.setting.cores))

    def playing_seconds(self, episodes: float, *, gpu: bool, threads: int) -> float:
        """Wall time of episodes in the arena: every token is read once, the model's own are written one by one."""
        wrote = episodes * rates.TURNS * rates.TURN_TOKENS
        read, device = episodes * self.facts.tokens, self.setting.device
        if gpu and device is not None:
            scale = rates.GPU_DECODE_PARAMETERS / self.size.parameters
            prefill = 2 * self.size.parameters / (rates.MFU_PREFILL * device.tflops * 1e12)
            return read * prefill + wrote / (rates.GPU_DECODE_TOKENS * scale)  # a server of vLLM takes one GPU
        cores, work = min(threads, self.setting.cores), 2 * self.size.parameters
        return (read * work / rates.CPU_PREFILL_FLOPS + wrote * work / rates.CPU_DECODE_FLOPS) / cores

    def training_memory(self, microbatch: int, *, one_by_one: bool = False) -> tuple[float, float | None]:
        """(GiB of the machine, GiB of one GPU) at the peak of training.

        Args:
            microbatch: rows of the longest length.
            one_by_one: rows that share a beginning are computed one after the other, as SFT does it.
        """
        train, size = self.params.train, self.size
        together = 1 if one_by_one and self.shares else microbatch
        width, tokens = BYTES[train.dtype], self._computed(self.facts.longest, together)
        trained = size.lora(train.rank) if train.method == "lora" else size.parameters
        layer = (rates.HIDDEN_COPIES * size.hidden + rates.FEED_FORWARD_COPIES * size.feed_forward) * width
        kept = size.layers * size.hidden * width + layer if train.activation_checkpointing else size.layers * layer
        logits = rates.LOGIT_COPIES * rates.SUPERVISED_SHARE * size.vocabulary * 4
        weights = size.parameters * (width if train.method == "lora" else 4)
        state = trained * (16 if train.method == "lora" else 12)  # gradient and two moments, and LoRA's own weights
        used = rates.ALLOCATOR * tokens * (kept + logits)
        if train.device == "cpu":
            merge = 2 * size.parameters * 4  # merging holds the model once more in float32
            return (rates.CPU_RUNTIME_BYTES + max(weights + state + used, merge)) / GIB, None
        sharded = (weights + state) / self.setting.processes
        host = rates.CPU_RUNTIME_BYTES * self.setting.processes + 2 * size.parameters * 4
        return host / GIB, (rates.GPU_RUNTIME_BYTES + sharded + used) / GIB

    def _computed(self, tokens: float, microbatch: int) -> float:
        """Tokens of a microbatch of rows of one length: where they are packed, one copy of their beginning."""
        shared = min(rates.PREFIX_TOKENS, tokens) if self.shares else 0.0
        return shared + microbatch * (tokens - shared)

    def _data(self) -> Iterator[Need]:
        """All stages up to the audited corpus in one, and the base model."""
        traces, size = self.facts.traces, self.size
        cores = self.params.run.workers or self.setting.cores
        disk = traces * rates.DATA_BYTES_PER_ROW / GIB
        seconds = rates.DATA_START_S + traces / (rates.DATA_ROWS_PER_CORE_S * cores)
        yield Need("data", f"{traces:,} traces", seconds, 1.5, None, disk)
        weights = size.parameters * BYTES[self.params.base.dtype] / GIB
        yield Need(
            "base", f"{size.parameters / 1e6:,.1f} M parameters", 10 + 4 * weights, 0.5 + 2 * weights, None, weights
        )

    def _steps(self) -> Iterator[Need]:
        """Training steps that are switched on, and their controls."""
        params = self.params
        rows = min(self.facts.rows, params.sft.max_rows or self.facts.rows)
        for seed in params.sft.seeds:
            yield self._fitted(f"sft/{seed}", params.sft, rows)
        controls: dict[str, Need] = {}
        if params.rejection.enabled:
            kept, play = self._sampled(params.rejection)
            kept = min(kept, self._problems(params.rejection.problems) * params.rejection.keep_per_problem)
            mixed = round(kept / params.rejection.mix) if params.rejection.mix else rows
            yield self._fitted("rejection", params.rejection, mixed, play=play)
            controls["rejection"] = self._fitted("control/rejection", params.rejection, mixed)
        if params.teacher.enabled:
            chosen = params.teacher
            times = sum(chosen.oversample.values()) / len(chosen.oversample) if chosen.oversample else 1.0
            share = 1.0 if chosen.teacher == "expert" else rates.SUCCESS_SHARE
            won = max(1, round(self._problems(chosen.problems) * chosen.samples * share * times))
            known = 0.02 * won if chosen.teacher == "expert" else None
            yield self._fitted("teacher", chosen, won, play=known)
            controls["teacher"] = self._fitted("control/teacher", chosen, won)
        if params.kto.enabled:
            there = self.facts.kto_rows
            if params.kto.rows == "rejection":
                there = self._problems(params.rejection.problems) * params.rejection.samples
            chosen_rows = min(there, params.kto.max_rows or there)
            # Beside the trained pass: the reference, and the mismatched pair under both.
            yield self._fitted("kto", params.kto, chosen_rows, forwards=4.0)
            controls["kto"] = self._fitted("control/kto", params.kto, chosen_rows)
        if params.grpo.enabled:
            yield self._grpo()
            grpo_rows = params.grpo.steps * params.grpo.batch
            controls["grpo"] = self._fitted("control/grpo", params.grpo, grpo_rows)
        for step in params.control.steps:
            if step in controls:
                yield controls[step]

    def _grpo(self) -> Need:
        grpo = self.params.grpo
        rollouts = grpo.steps * grpo.batch
        gpu = self.params.train.device == "cuda"
        play = self.playing_seconds(rollouts, gpu=gpu, threads=self.params.train.threads)
        forwards = 2.0 if grpo.beta else 1.0
        trained = self.training_seconds(rollouts, forwards=forwards)
        memory, device = self.training_memory(grpo.microbatch)
        if device is not None and self.setting.device is not None and grpo.rollouts == "vllm":
            device += grpo.vllm_memory * self.setting.device.memory_gib
        return Need(
            "grpo",
            f"{grpo.steps:,} updates of {grpo.batch} rollouts",
            rates.STAGE_START_S + play + trained,
            memory,
            device,
            self._disk(),
        )

    def _fitted(self, stage: str, fit: Fit, rows: int, *, forwards: float = 1.0, play: float | None = 0.0) -> Need:
        """A step that fits weights to rows."""
        updates = fit.max_steps or max(1, math.ceil(rows * fit.epochs / fit.batch))
        seen = min(updates * fit.batch, rows * max(fit.epochs, 1)) if fit.max_steps is None else updates * fit.batch
        seconds = self.training_seconds(seen, fit.microbatch, forwards)
        memory, device = self.training_memory(fit.microbatch, one_by_one=not isinstance(fit, Kto))
        known = None if play is None else rates.STAGE_START_S + seconds + play
        return Need(stage, f"{rows:,} rows, {updates:,} updates of {fit.batch}", known, memory, device, self._disk())

    def _sampled(self, step: Sampled) -> tuple[int, float]:
        """(rows that will be kept before caps, wall time of the play)."""
        episodes = self._problems(step.problems) * step.samples
        rollout = self.params.rollout
        gpu = rollout.engine == "vllm" and self.setting.device is not None
        return round(episodes * rates.SUCCESS_SHARE), self.playing_seconds(episodes, gpu=gpu, threads=rollout.threads)

    def _problems(self, most: int | None) -> int:
        return max(1, min(self.facts.problems, most or self.facts.problems))

    def _disk(self) -> float:
        """GiB that a step leaves: the merged model and its adapter, and two checkpoints while it runs."""
        train = self.params.train
        trained = self.size.lora(train.rank) if train.method == "lora" else self.size.parameters
        return (self.size.parameters * BYTES[train.save_dtype] + 4 * trained + 2 * 12 * trained) / GIB

    def _evaluation(self) -> Iterator[Need]:
        """Rollouts and lm-eval of every model; scores and comparisons are quick beside them."""
        rollout, lmeval, weights = self.params.rollout, self.params.lmeval, self.size.parameters
        problems = rollout.problems or rates.HELDOUT_PROBLEMS
        gpu = rollout.engine == "vllm" and self.setting.device is not None
        key = 2 * self.size.layers * self.size.kv_heads * self.size.head_dim * BYTES[rollout.dtype] / GIB
        # In process every episode keeps its keys; vLLM makes room as it can, from one longest episode on.
        cached = key * (self.facts.longest if gpu else rollout.batch * self.facts.tokens)
        model = weights * BYTES[rollout.dtype] / GIB
        memory = 0.5 + (0.0 if gpu else cached + model)
        for one in self.params.models:
            episodes = problems * rollout.samples
            seconds = self.playing_seconds(episodes, gpu=gpu, threads=rollout.threads)
            if rollout.engine == "openai":
                yield Need(f"rollout@{one.name}", f"{episodes:,} episodes", None, 0.5, None, 0.01)
                continue
            device = cached + model + rates.GPU_RUNTIME_BYTES / GIB if gpu else None
            yield Need(f"rollout@{one.name}", f"{episodes:,} episodes", 5 + seconds, memory, device, 0.01)
            if lmeval.engine == "hf":
                rows = lmeval.rows or self.facts.rows
                read = rows * (lmeval.max_context or self.facts.tokens) * 2 * weights
                work = (
                    read / rates.CPU_PREFILL_FLOPS + rows * lmeval.max_new_tokens * 2 * weights / rates.CPU_DECODE_FLOPS
                )
                seconds = 15 + work / min(lmeval.threads, self.setting.cores)
                yield Need(f"lmeval@{one.name}", f"{rows:,} calls", seconds, 1.0 + weights * 4 / GIB, None, 0.01)
