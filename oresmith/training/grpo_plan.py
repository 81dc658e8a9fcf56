"""Which problems each update of GRPO plays, and the arguments of its trainer, both from the parameters alone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oresmith.errors import OresmithError
from oresmith.evaluation.problems import Case
from oresmith.param_training import Grpo, Train
from oresmith.training.arguments import trainer_arguments
from oresmith.training.sampling import Job

OUTCOME, AGREEMENT = "outcome", "agreement"
"""The parts of a reward, as the curve names them."""


class Schedule(NamedTuple):
    """The problems of all updates, in order."""

    prompts: list[list[Job]]
    """Of each update: a problem, and the number of its first sample."""
    generations: int

    def jobs(self, update: int) -> list[Job]:
        """The episodes of an update; those of one problem stand side by side."""
        return [
            Job(job.case, job.sample + sample) for job in self.prompts[update] for sample in range(self.generations)
        ]


def schedule(cases: Sequence[Case], settings: Grpo) -> Schedule:
    """Go through the problems again and again, each time in another order, until all updates have theirs.

    Args:
        cases: problems.
        settings: of the step.

    Raises:
        OresmithError: no problem, or a batch that does not hold whole groups of generations.
    """
    if settings.batch % settings.generations or not cases:
        raise OresmithError(
            "the rollouts of an update are whole groups of one problem each",
            where="grpo.batch, grpo.generations",
            expected="a problem, and batch a multiple of generations",
            got=f"{len(cases)} problems, {settings.batch} and {settings.generations}",
        )
    each = settings.batch // settings.generations
    endless = _in_rounds(cases, settings.seed)
    seen: Counter[str] = Counter()
    prompts: list[list[Job]] = []
    for _ in range(updates_of(settings)):
        chosen = [next(endless) for _ in range(each)]
        prompts.append([])
        for case in chosen:
            prompts[-1].append(Job(case, seen[case.name] * settings.generations))
            seen[case.name] += 1
    return Schedule(prompts, settings.generations)


def updates_of(settings: Grpo) -> int:
    """Optimiser steps: `max_steps` where it is set, else `steps`."""
    return settings.max_steps or settings.steps


def grpo_arguments(train: Train, settings: Grpo, *, home: Path, context: int) -> dict[str, Any]:
    """Keywords of TRL's GRPOConfig.

    Args:
        train: what all steps share.
        settings: of the step.
        home: directory of the checkpoints.
        context: tokens that the model can take.

    Raises:
        OresmithError: a batch that the processes cannot share evenly, or no such device.
    """
    arguments = trainer_arguments(train, settings, home=home, seed=settings.seed, steps=updates_of(settings))
    arguments |= {
        "loss_type": "dr_grpo",
        "scale_rewards": "none",
        "beta": settings.beta,
        "num_generations": settings.generations,
        "num_iterations": 1,
        "max_completion_length": settings.max_completion,
        "temperature": settings.temperature,
        # What was not to be sampled would have no probability, and the policy's gradient would be another's.
        "top_p": 1.0,
        "top_k": 0,
        "reward_weights": [settings.outcome_weight, settings.agreement_weight],
        "mask_truncated_completions": False,
        "shuffle_dataset": False,
        "log_completions": False,
    }
    if settings.rollouts == "vllm":
        arguments |= {
            "use_vllm": True,
            "vllm_mode": "colocate",
            "vllm_gpu_memory_utilization": settings.vllm_memory,
            "vllm_max_model_length": min(context, train.max_tokens + settings.max_completion),
            "vllm_importance_sampling_correction": True,
            "vllm_importance_sampling_mode": "token_truncate",
        }
    return arguments


def _in_rounds(cases: Sequence[Case], seed: int) -> Iterator[Case]:
    number = 0
    while True:
        yield from sorted(cases, key=lambda case: (_order(seed, number, case.name), case.name))
        number += 1


def _order(seed: int, number: int, name: str) -> bytes:
    return hashlib.sha256(f"grpo\0{seed}\0{number}\0{name}".encode("utf-8", "surrogatepass")).digest()
