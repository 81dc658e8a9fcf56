"""The rounds of GRPO: before each update its problems are played, judged, and handed to TRL's trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from oresmith.arena.tools import Toolbox
from oresmith.arena.toolschema import tools
from oresmith.errors import OresmithError
from oresmith.evaluation.episode import Setup, seed_of
from oresmith.evaluation.problems import Case
from oresmith.evaluation.prompts import system_prompt
from oresmith.evaluation.records import Rollout, Sampling
from oresmith.param_training import Grpo, Train
from oresmith.training.checkpoints import newest_checkpoint
from oresmith.training.grpo_bounds import Kept, Records, Trained, Update, check_kl, check_rewards
from oresmith.training.grpo_plan import AGREEMENT, OUTCOME, Schedule
from oresmith.training.rewards import Judge, Worth
from oresmith.training.sampling import Job, Policy, play

MAX_MALFORMED = 3
"""Malformed replies in a row that end an episode: as evaluations have it by default."""


class Arena(NamedTuple):
    """What the policy plays in."""

    cases: Sequence[Case]
    toolboxes: Mapping[str, Toolbox]
    """By the shops of the cases."""
    judge: Judge
    leaks: Callable[[Sequence[Rollout]], Mapping[int, str]] = lambda rollouts: {}
    """Place -> kind of leak, of the rollouts whose text holds what is held out."""


class Rounds:
    """The rollouts of each update: TRL calls it through `rollout_func`.

    Args:
        trainer: of `build_trainer`.
        arena: problems, tools and judge.
        policy: is sampled.
        train: what all steps share.
        settings: of the step.
    """

    def __init__(self, trainer: Any, arena: Arena, policy: Policy, train: Train, settings: Grpo) -> None:
        self.trainer, self.arena, self.policy, self.settings = trainer, arena, policy, settings
        self.planned: Schedule = trainer.planned
        self.updates: list[Update] = []
        """Those done, and the one under way, each with the rollouts of all processes."""
        self._worth: list[Worth] = []
        self._leaks: Mapping[int, str] = {}
        self._setup = Setup(
            model="",
            system=system_prompt(train.prompt),
            tools=tools(),
            view=train.view,
            sampling=Sampling(temperature=settings.temperature, max_new_tokens=settings.max_new_tokens),
            context=min(policy.context, train.max_tokens),
            max_turns=settings.max_turns,
            max_malformed=MAX_MALFORMED,
            seed=0,
        )
        trainer.rounds = self

    def go_on(self, records: Records, checkpoints: Path) -> None:
        """Take up what a run before has done, as far as its newest checkpoint holds it."""
        newest = newest_checkpoint(checkpoints)
        done = int(newest.name.rpartition("-")[2]) if newest else 0
        self.updates = records.read(done, clean=self.trainer.is_world_process_zero())

    def __call__(self, prompts: Sequence[str]) -> dict[str, Any]:
        """Play the problems of the update that comes next; what TRL's `rollout_func` is to return."""
        trainer, number = self.trainer, int(self.trainer.state.global_step)
        jobs = self._jobs(number, prompts)
        trainer.model.eval()
        self.policy.refresh(trainer.accelerator.unwrap_model(trainer.model))
        setup = replace(self._setup, seed=seed_of(self.settings.seed, "grpo", number))
        sampled = play(self.policy, jobs, setup, self.arena.toolboxes, self.settings.max_completion)
        trainer.model.train()
        self._worth = self.arena.judge.worth([(one.case, one.rollout) for one in sampled])
        self._leaks = self.arena.leaks([one.rollout for one in sampled])
        trainer.begin_update(sampled, self._leaks.keys())
        last = [one.segments[-1] for one in sampled]
        cuts = [one.mask.index(1) for one in last]
        return {
            "prompt_ids": [one.ids[:cut] for one, cut in zip(last, cuts, strict=True)],
            "completion_ids": [one.ids[cut:] for one, cut in zip(last, cuts, strict=True)],
            "env_mask": [one.mask[cut:] for one, cut in zip(last, cuts, strict=True)],
            "logprobs": None,
            OUTCOME: [one.outcome for one in self._worth],
            AGREEMENT: [one.agreement for one in self._worth],
        }

    def scored(self) -> None:
        """Take the advantages in, and stop where there is nothing to learn from."""
        number = int(self.trainer.state.global_step)
        update = Update(
            number=number, rollouts=self._gathered([self._kept(n) for n in range(len(self._worth))]), kl=None
        )
        self.updates = [one for one in self.updates if one.number < number] + [update]
        check_rewards(self.updates, self.settings)

    def logs(self) -> dict[str, float]:
        """What the curve says of the update that was closed last, beside what TRL logs."""
        last = self.updates[-1]
        clipped = sum(one.clipped for one in last.rollouts) / len(last.rollouts)
        return {"clipped": clipped} | ({} if last.kl is None else {"kl_to_start": last.kl})

    def finish(self, records: Records) -> None:
        """Close the update under way with its KL, store it, and stop where that is out of bounds."""
        kl: float | None = self.trainer.kl()
        self.updates[-1] = replace(self.updates[-1], kl=kl)
        check_kl(kl, self.updates[-1].number, self.settings)
        if self.trainer.is_world_process_zero():
            records.write(self.updates[-1])

    def _jobs(self, number: int, prompts: Sequence[str]) -> list[Job]:
        """The episodes that TRL asks this process for, which must be those of the schedule."""
        jobs = self.planned.jobs(number)
        names = [f"{number}:{place // self.planned.generations}" for place in range(len(jobs))]
        first = self.trainer.accelerator.process_index * len(prompts)
        if names[first : first + len(prompts)] != list(prompts):
            raise OresmithError(
                "the trainer asks for other problems than the schedule has",
                where=f"grpo, update {number + 1}",
                expected=", ".join(names[first : first + 4]),
                got=", ".join(prompts[:4]),
            )
        return jobs[first : first + len(prompts)]

    def _kept(self, place: int) -> Kept:
        one, worth, settings = self.trainer.sampled[place], self._worth[place], self.settings
        return Kept(
            rollout=one.rollout,
            outcome=worth.outcome,
            agreement=worth.agreement,
            reward=settings.outcome_weight * worth.outcome + settings.agreement_weight * worth.agreement,
            advantage=self.trainer.advantages[place],
            clipped=one.clipped,
            leak=self._leaks.get(place, ""),
            trained=[Trained(ids=part.ids, mask=part.mask) for part in self.trainer.trained(place)],
        )

    def _gathered(self, kept: list[Kept]) -> list[Kept]:
        """Those of all processes, in the schedule's order."""
        if self.trainer.accelerator.num_processes == 1:
            return kept
        from accelerate.utils import gather_object  # type: ignore[import-untyped]

        found: list[Kept] = gather_object(kept)
        return found
