"""Batches of KTO: which rows come in which order, their tensors, and the check of what the loss covers in them.

TRL's own collator puts the whole completion, results of tools included, into the loss. Here a row brings its mask, and
the mismatched row of the KL estimate (the prompt of one row, the completion of the row before it in the microbatch, as
in TRL) brings the mask of the row that its completion is of.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from oresmith.errors import OresmithError
from oresmith.models.checks import mask_fault
from oresmith.models.rendering import Chat
from oresmith.training.rowset import RowSet, TrainingRow

PAIRS = ("", "KL_")
"""Prefixes of a batch's keys: the rows themselves, and the mismatched ones."""
BALANCE = 7 / 6
"""Weighted successes to weighted failures where the counts need weights: the middle of KTO's 1:1 to 4:3."""
_LOOK_AHEAD = 32
"""Rows that are looked at for one of another problem."""


class Weights(NamedTuple):
    """What the losses of the two classes are multiplied by."""

    desirable: float
    undesirable: float


def class_weights(desirable: int, undesirable: int) -> Weights:
    """Weights with which `desirable * w / (undesirable * v)` is within 1 to 4/3, and 1 a row in the mean.

    Args:
        desirable: rows of successes that are trained on.
        undesirable: rows of failures.

    Raises:
        OresmithError: there are none of a class.

    The bounds are Eq. (8) of KTO (arXiv:2402.01306). The mean of 1 keeps the learning rate's meaning.
    """
    if not desirable or not undesirable:
        raise OresmithError(
            "KTO needs successes and failures",
            expected="rows of both classes",
            got=f"{desirable} successes, {undesirable} failures",
            todo="take rows of both (kto.rows), or switch the step off (kto.enabled)",
        )
    if 3 * undesirable <= 3 * desirable <= 4 * undesirable:
        return Weights(1.0, 1.0)
    share = (desirable + undesirable) / (1 + BALANCE)
    return Weights(BALANCE * share / desirable, share / undesirable)


def run_order(
    rows: Sequence[TrainingRow], labels: Sequence[bool], *, seed: int, count: int, microbatch: int
) -> list[int]:
    """The rows of a whole run, in order: places in `rows`.

    The rows are gone through again and again until there are enough, each time in another order. Successes and
    failures alternate; where there are more of one class, those of the other are spread evenly. Within a microbatch
    problems differ wherever a row of another problem is near, because its rows are each other's mismatched pairs.

    Args:
        rows: of both classes.
        labels: True for a success; as long.
        seed: of the orders.
        count: rows to come: updates times rows of an update.
        microbatch: rows in memory at the same time.
    """
    order: list[int] = []
    for epoch in range(-(-count // max(len(rows), 1))):
        waiting: dict[bool, deque[int]] = {
            label: deque(sorted((n for n, own in enumerate(labels) if own is label), key=_hash(rows, seed, epoch)))
            for label in (True, False)
        }
        for label in _alternating(len(waiting[True]), len(waiting[False])):
            begun = order[len(order) - len(order) % microbatch :]
            order.append(_next(waiting[label], rows, {rows[n].problem for n in begun}))
    return order[:count]


def _hash(rows: Sequence[TrainingRow], seed: int, epoch: int) -> Any:
    def key(place: int) -> tuple[bytes, int]:
        name = f"kto\0{seed}\0{epoch}\0{rows[place].row_id}\0{rows[place].turn}"
        return hashlib.sha256(name.encode()).digest(), place

    return key


def _alternating(ones: int, zeros: int) -> Iterator[bool]:
    """As many of each, either spread evenly over the whole."""
    total = ones + zeros
    for place in range(total):
        yield (place + 1) * ones // total > place * ones // total


def _next(waiting: deque[int], rows: Sequence[TrainingRow], taken: set[str]) -> int:
    ahead = range(min(len(waiting), _LOOK_AHEAD))
    place = next((n for n in ahead if rows[waiting[n]].problem not in taken), 0)
    found = waiting[place]
    del waiting[place]
    return found


def halves(row: TrainingRow) -> int:
    """Where a row's completion begins: at its first supervised token; at its end where there is none."""
    return row.mask.index(1) if 1 in row.mask else len(row.mask)


class KtoCollator:
    """Makes a batch of the places of rows: what TRL's collator gives, but with the rows' own masks.

    Args:
        rows: of the run.
        labels: True for a success.
        pad: id that fills up; never looked at, because masks come from lengths (it may be the end token).
    """

    def __init__(self, rows: Sequence[TrainingRow], labels: Sequence[bool], pad: int) -> None:
        self.rows, self.labels, self.pad = rows, labels, pad

    def __call__(self, examples: Sequence[Mapping[str, int]]) -> dict[str, Any]:
        """Tensors of int64, padded on the right: [rows, tokens] each, `label` [rows] of bool.

        Raises:
            OresmithError: fewer than 2 rows, of which no mismatched pair can be made.
        """
        import torch

        if len(examples) < 2:
            raise OresmithError("KTO needs at least 2 rows in memory at the same time", got=f"{len(examples)}")
        places = [int(example["row"]) for example in examples]
        own = [self._joined(place, place) for place in places]
        mismatched = [self._joined(place, before) for place, before in zip(places, places[-1:] + places, strict=False)]
        batch: dict[str, Any] = {}
        for name, pairs in zip(PAIRS, (own, mismatched), strict=True):
            width = max(len(ids) for ids, _ in pairs)
            for key, values, fill in (
                ("input_ids", [ids for ids, _ in pairs], self.pad),
                ("attention_mask", [[1] * len(ids) for ids, _ in pairs], 0),
                ("completion_mask", [mask for _, mask in pairs], 0),
            ):
                batch[name + key] = torch.tensor([value + [fill] * (width - len(value)) for value in values])
        batch["label"] = torch.tensor([self.labels[place] for place in places])
        return batch

    def _joined(self, prompt: int, completion: int) -> tuple[list[int], list[int]]:
        """Ids and mask of the prompt of one row with the completion of another."""
        first, second = self.rows[prompt], self.rows[completion]
        end, begin = halves(first), halves(second)
        return first.ids[:end] + second.ids[begin:], [0] * end + second.mask[begin:]


def check_batches(
    collator: KtoCollator, order: Sequence[int], microbatch: int, rows: RowSet, *, chat: Chat, context: int
) -> dict[str, int]:
    """Look at every batch of a run before it is trained on: policy's, reference's and KL's loss read the same masks.

    Args:
        collator: that the trainer uses.
        order: of the run.
        microbatch: rows of a batch.
        rows: of the run, with their conversations.
        chat: of the model that is trained.
        context: tokens that the model can take.

    Returns:
        Counts: batches, tokens (padding aside) and supervised tokens of the rows, the longest mismatched row, and
        mismatched rows that are of one problem all the same.

    Raises:
        OresmithError: the loss of a batch covers anything else than what the assistant messages say, end tokens
            included; or a mismatched row is longer than the model's context.
    """
    counts = dict.fromkeys(("batches", "tokens", "supervised", "longest_mismatched", "pairs_of_one_problem"), 0)
    for start in range(0, len(order), microbatch):
        places = order[start : start + microbatch]
        batch = {key: value.tolist() for key, value in collator([{"row": place} for place in places]).items()}
        counts["batches"] += 1
        for name, answering in zip(PAIRS, (places, [*places[-1:], *places[:-1]]), strict=True):
            for n, place in enumerate(answering):
                row = rows.rows[place]
                ids, seen, mask = (batch[name + key][n] for key in ("input_ids", "attention_mask", "completion_mask"))
                length = sum(seen)
                _refuse_broken(ids[:length], mask, rows.answers(row), chat, f"{name}row {row.row_id}, turn {row.turn}")
                if name:
                    counts["longest_mismatched"] = max(counts["longest_mismatched"], length)
                else:
                    counts["tokens"] += length
                    counts["supervised"] += sum(mask)
        problems = [rows.rows[place].problem for place in places]
        counts["pairs_of_one_problem"] += sum(a == b for a, b in pairwise([problems[-1], *problems]))
    if counts["longest_mismatched"] > context:
        raise OresmithError(
            "a mismatched row of KTO passes the model's context, and nothing is cut",
            expected=f"up to {context} tokens",
            got=f"{counts['longest_mismatched']}",
            todo="lower train.max_tokens",
        )
    return counts


def _refuse_broken(
    ids: Sequence[int], mask: Sequence[int], answers: Sequence[Mapping[str, Any]], chat: Chat, where: str
) -> None:
    fault = mask_fault(ids, mask[: len(ids)], answers, chat)
    if fault is None and not any(mask[len(ids) :]):
        return
    raise OresmithError(
        "the loss of a KTO batch would not cover just what the model is to emit, so nothing is trained",
        where=where,
        got=f"{fault[0].value}: {fault[1]}" if fault else "padding is in the loss",
    )
