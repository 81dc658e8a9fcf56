"""TRL's GRPO trainer on the segments of our rollouts.

Loss, advantages and their logging are TRL's. What differs: a rollout can be several sequences (`sampling.Segment`),
rows that move nothing are not run, and the KL to the start model is measured whatever `beta` is. The loss stays what it
is: Dr. GRPO's is a sum over tokens, divided by the number of rollouts and by a constant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from trl.trainer.grpo_trainer import GRPOTrainer

from oresmith.errors import OresmithError
from oresmith.models.checks import sampled_fault
from oresmith.models.rendering import Chat
from oresmith.training.checkpoints import WholeCheckpoints
from oresmith.training.sampling import Sampled, Segment

_NOISE = 1e-6
"""Advantages below it are rounding: rewards are sums of weights times shares of a few steps."""


class Chosen(NamedTuple):
    """A segment that the loss is computed on, with its rollout's advantage."""

    segment: Segment
    advantage: float


class SegmentTrainer(WholeCheckpoints, GRPOTrainer):
    """Trains on what `sampled` holds: the rollouts that its `rollout_func` gave last, in their order.

    Attributes:
        chat: of the model, for the check of masks; set after construction.
        planned: which problems when (`grpo_plan.Schedule`); set after construction.
        rounds: plays and keeps account (`grpo_rounds.Rounds`); set after construction.
        start_model: reference where no adapter can be switched off; else None.
        kl_sum: over the trained tokens of the update under way.
        kl_tokens: their number.
    """

    chat: Chat
    planned: Any = None
    rounds: Any = None
    start_model: Any = None
    sampled: Sequence[Sampled] = ()
    left_out: Collection[int] = ()
    advantages: Sequence[float] = ()
    kl_sum = 0.0
    kl_tokens = 0
    _now: dict[str, Any]

    def begin_update(self, sampled: Sequence[Sampled], left_out: Collection[int] = ()) -> None:
        """Take the rollouts of the next update, and the places of those that must not be trained on."""
        self.sampled, self.left_out, self.kl_sum, self.kl_tokens = sampled, left_out, 0.0, 0

    def kl(self) -> float | None:
        """Nats a trained token of the update between policy and start model, over all processes; None without any.

        The estimator is Schulman's k3, exp(r) - r - 1 for the log-ratio r of start model to policy.
        """
        totals = torch.tensor([self.kl_sum, float(self.kl_tokens)], dtype=torch.float64)
        if self.accelerator.num_processes > 1:
            totals = self.accelerator.reduce(totals.to(self.accelerator.device), reduction="sum")
        return float(totals[0] / totals[1]) if totals[1] else None

    def trained(self, place: int) -> list[Segment]:
        """The segments of a rollout that the loss is computed on."""
        moves = place not in self.left_out and (self.beta != 0 or self.advantages[place] != 0)
        return self.sampled[place].segments if moves else []

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        # TRL would run start model and policy on whole rollouts here; `_compute_loss` does, on segments.
        with _set(self, beta=0.0, vllm_importance_sampling_correction=False):
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        # Equal rewards have a mean that can differ from them in its last bit; Adam would make a full step of that.
        output["advantages"][output["advantages"].abs() < _NOISE] = 0.0
        self.advantages = output["advantages"].tolist()
        output["place"] = torch.arange(len(inputs), device=output["advantages"].device)
        self.rounds.scored()
        return output

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Beside what TRL logs: the KL to the start model, and the share of clipped rollouts."""
        super().log(logs | self.rounds.logs() if "loss" in logs else logs, start_time)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        places = inputs["place"].tolist()
        chosen = [
            Chosen(segment, advantage)
            for place, advantage in zip(places, inputs["advantages"].tolist(), strict=True)
            for segment in self.trained(place)
        ]
        rows = self._rows_of_all(len(chosen))
        if rows == 0:
            return sum((weight * 0.0).sum() for weight in model.parameters() if weight.requires_grad)
        self._now = batch_of(chosen, rows, self._tokenizer.pad_token_id, self.accelerator.device)
        check_batch(self._now, chosen, self.chat)
        self._measure_start(model)
        # TRL divides by rows: here, segments. The last factor makes that rollouts.
        loss: Any = super()._compute_loss(model, self._now)  # type: ignore[no-untyped-call]
        return loss * (rows / len(places))

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *args: Any, **others: Any
    ) -> tuple[Any, Any, Any]:
        """As TRL's, on sampled tokens alone; what its loss masks is 0."""
        mask = self._now["tool_mask"] * self._now["completion_mask"]
        labels = torch.full_like(input_ids, -100)
        labels[:, -logits_to_keep:] = input_ids[:, -logits_to_keep:].masked_fill(mask == 0, -100)
        with self.accelerator.autocast():
            found = model(input_ids=input_ids, attention_mask=attention_mask, labels=labels, fused_lm_head=True)
        scores, entropies = found.log_probs[:, -logits_to_keep:], found.entropy
        if torch.is_grad_enabled():
            self._measure_policy(scores.detach(), mask)
        return scores, None if entropies is None else entropies[:, -logits_to_keep:], None

    def _measure_start(self, model: Any) -> None:
        """What the start model gives the tokens of the batch."""
        now = self._now
        ids = torch.cat([now["prompt_ids"], now["completion_ids"]], 1)
        seen = torch.cat([now["prompt_mask"], now["completion_mask"]], 1)
        with torch.no_grad(), self._without_adapter(model) as start:
            found = self._get_per_token_logps_and_entropies(start, ids, seen, now["completion_ids"].shape[1])
        now["ref_per_token_logps"] = found[0]

    def _measure_policy(self, scores: Any, mask: Any) -> None:
        """The KL of the batch; and against a sampler with numbers of its own, the ratio that corrects for them."""
        ratio = (self._now["ref_per_token_logps"] - scores).double() * mask
        self.kl_sum += float(((ratio.exp() - ratio - 1) * mask).sum())
        self.kl_tokens += int(mask.sum())
        if self.use_vllm and self.vllm_importance_sampling_correction:
            weight = ((scores - self._now["sampling_per_token_logps"]) * mask).exp()
            self._now["importance_sampling_ratio"] = weight.clamp(max=self.vllm_importance_sampling_clip_max)

    @contextmanager
    def _without_adapter(self, model: Any) -> Iterator[Any]:
        if self.start_model is not None:
            yield self.start_model
            return
        bare = self.accelerator.unwrap_model(model)
        with bare.disable_adapter() if hasattr(bare, "disable_adapter") else nullcontext():
            yield model

    def _rows_of_all(self, rows: int) -> int:
        """As many as the process with the most has: what TRL gathers must have one shape."""
        if self.accelerator.num_processes == 1:
            return rows
        counts = self.accelerator.gather(torch.tensor([rows], device=self.accelerator.device))
        return int(counts.max())


def batch_of(chosen: Sequence[Chosen], rows: int, pad: int, device: Any) -> dict[str, Any]:
    """Segments as TRL's loss takes them, padded on the right.

    Args:
        chosen: segments; where there are fewer than `rows`, the first, without loss, makes up for it.
        rows: of the batch.
        pad: token for padding, which the masks leave out.
        device: of the tensors.

    Returns:
        Tensors of [rows, tokens], cut in two before the first token that is sampled in any row: `prompt_ids`,
        `prompt_mask`, `completion_ids`, `completion_mask`, `tool_mask` (1 on sampled tokens),
        `sampling_per_token_logps` (what the sampler said, else 0); and `advantages`, of [rows].
    """
    filler = chosen[0] if chosen else Chosen(Segment([pad, pad], [0, 0], []), 0.0)
    given = [*chosen, *[Chosen(filler.segment, 0.0)] * (rows - len(chosen))]
    longest = max(len(one.segment.ids) for one in given)
    ids = torch.full((rows, longest), pad, dtype=torch.long)
    seen, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    scores = torch.zeros((rows, longest))
    for row, (segment, _) in enumerate(given):
        length = len(segment.ids)
        ids[row, :length] = torch.tensor(segment.ids)
        seen[row, :length] = 1
        if row < len(chosen):
            mask[row, :length] = torch.tensor(segment.mask)
            scores[row, :length] = torch.tensor(segment.scores())
    cut = min((one.segment.mask.index(1) for one in chosen), default=1)
    parts = {"ids": ids.to(device), "mask": seen.to(device)}
    return {
        **{f"prompt_{name}": part[:, :cut] for name, part in parts.items()},
        **{f"completion_{name}": part[:, cut:] for name, part in parts.items()},
        "tool_mask": mask[:, cut:].to(device),
        "sampling_per_token_logps": scores[:, cut:].to(device),
        "advantages": torch.tensor([one.advantage for one in given], device=device),
    }


def check_batch(batch: dict[str, Any], chosen: Sequence[Chosen], chat: Chat) -> None:
    """Refuse a batch whose loss would cover anything but what was sampled, end tokens included.

    Args:
        batch: of `batch_of`.
        chosen: the segments that it was made of.
        chat: that rendered the prompts.

    Raises:
        OresmithError: with the fault.
    """
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1).tolist()
    seen = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    mask = torch.cat([torch.zeros_like(batch["prompt_mask"]), batch["tool_mask"] * batch["completion_mask"]], 1)
    lengths = seen.sum(1).tolist()
    for row, (length, covered) in enumerate(zip(lengths, mask.tolist(), strict=True)):
        turns = chosen[row].segment.turns if row < len(chosen) else []
        drawn = [(turn.text, turn.end) for turn in turns]
        fault = sampled_fault(ids[row][:length], covered[:length], drawn, chat) if drawn else None
        if fault is not None or sum(covered) != sum(covered[:length]) or (not drawn and any(covered)):
            raise OresmithError(
                "the loss would cover tokens that were not sampled, or miss some that were",
                where=f"grpo, row {row} of a batch",
                got=": ".join(fault) if fault else "loss on padding",
            )


@contextmanager
def _set(thing: Any, **values: Any) -> Iterator[None]:
    before = {name: getattr(thing, name) for name in values}
    for name, value in values.items():
        setattr(thing, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(thing, name, value)
