"""What each update of GRPO came to, kept on the disk, and the bounds beyond which the step stops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from oresmith.errors import OresmithError
from oresmith.evaluation.records import Rollout
from oresmith.param_training import Grpo
from oresmith.records import Record
from oresmith.stage import write_small

JUDGED = 32
"""Rollouts that the share of clipped ones is taken over, the newest of them; fewer are judged at the end alone."""


class Trained(Record, frozen=True):
    """A sequence of tokens that the loss was computed on."""

    ids: list[int]
    mask: list[int]


class Kept(Record, frozen=True):
    """One rollout and what it was worth."""

    rollout: Rollout
    outcome: float
    agreement: float
    reward: float
    advantage: float
    clipped: bool
    trained: list[Trained]
    """Empty with a leak, and where its advantage is 0 and `beta` is 0: it moves nothing."""
    leak: str = ""
    """Kind of leak in its text (`leaks.RULES`), for which it is not trained on."""


class Update(Record, frozen=True):
    """One optimiser step."""

    number: int
    """From 0: updates done before its rollouts were sampled."""
    rollouts: list[Kept]
    kl: float | None
    """Nats a trained token between policy and start model, the mean over them; None where nothing was trained on."""

    @property
    def flat(self) -> bool:
        """Whether no reward differs from its problem's others."""
        return all(one.advantage == 0 for one in self.rollouts)


class Records:
    """The updates of a training, one file each, beside its checkpoints.

    Args:
        folder: made if need be.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, update: Update) -> None:
        """Store an update; it is on the disk when this returns."""
        write_small(self._path(update.number), msgspec.json.encode(update))

    def read(self, updates: int, *, clean: bool = True) -> list[Update]:
        """The first updates.

        Args:
            updates: their number.
            clean: remove later ones, which are of a run that ended before its next checkpoint.

        Raises:
            OresmithError: one is missing or damaged.
        """
        kept = {self._path(number) for number in range(updates)}
        for path in self._folder.glob("*.json"):
            if clean and path not in kept:
                path.unlink()
        return [self._read(number) for number in range(updates)]

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.json"

    def _read(self, number: int) -> Update:
        path = self._path(number)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Update)
        except (OSError, msgspec.DecodeError) as error:
            raise OresmithError(
                "what an update sampled cannot be read",
                where=str(path),
                got=str(error)[:200],
                todo=f"remove {self._folder.parent}, and run the stage again from its start",
            ) from error


def check_rewards(updates: Sequence[Update], settings: Grpo, *, ended: bool = False) -> None:
    """Stop where there is nothing to learn from.

    Args:
        updates: all so far; the newest last, its KL not yet known.
        settings: of the step.
        ended: whether no more come; the clipped are then judged however few there are.

    Raises:
        OresmithError: no reward varied in `flat_steps` updates in a row, or more than `max_clipped` of the rollouts
            were cut by a limit.
    """
    flat = next((place for place, one in enumerate(reversed(updates)) if not one.flat), len(updates))
    if flat >= settings.flat_steps:
        means = [one.reward for update in updates[-flat:] for one in update.rollouts]
        raise OresmithError(
            "the rewards do not vary, so there is nothing to learn",
            where=f"grpo, update {updates[-1].number + 1}",
            expected=f"different rewards for one problem at least once in {settings.flat_steps} updates"
            " (grpo.flat_steps)",
            got=f"{flat} updates without any; the mean reward is {sum(means) / len(means):.3g}",
            todo="start from a model that succeeds at times, raise grpo.generations or grpo.temperature, or take"
            " other problems",
        )
    recent = _recent(updates)
    clipped = sum(one.clipped for one in recent)
    if (len(recent) >= JUDGED or ended) and clipped > settings.max_clipped * len(recent):
        ends = sorted({one.rollout.ended for one in recent if one.clipped})
        raise OresmithError(
            "too many rollouts are cut by a limit",
            where=f"grpo, update {updates[-1].number + 1}",
            expected=f"at most {settings.max_clipped:.0%} (grpo.max_clipped)",
            got=f"{clipped} of the last {len(recent)}, by: {', '.join(ends)}",
            todo="raise grpo.max_new_tokens (length), grpo.max_completion and train.max_tokens (context) or"
            " grpo.max_turns (turns), or start from a model that ends its episodes",
        )


def check_kl(kl: float | None, update: int, settings: Grpo) -> None:
    """Stop where the policy has left the model that it started from.

    Args:
        kl: of the update; None where nothing was trained on.
        update: its number, from 0.
        settings: of the step.

    Raises:
        OresmithError: it passes `max_kl`, or is no number.
    """
    if kl is not None and not (math.isfinite(kl) and kl <= settings.max_kl):
        raise OresmithError(
            "the policy has left the model that it started from",
            where=f"grpo, update {update + 1}",
            expected=f"a KL up to {settings.max_kl:g} nats a token (grpo.max_kl)",
            got=f"{kl:.4g}",
            todo="lower grpo.learning_rate, or raise grpo.beta or grpo.max_kl",
        )


def _recent(updates: Sequence[Update]) -> list[Kept]:
    """The rollouts of as many of the newest updates as make `JUDGED`."""
    found: list[Kept] = []
    for update in reversed(updates):
        if len(found) >= JUDGED:
            break
        found += update.rollouts
    return found
