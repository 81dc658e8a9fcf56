"""Rows into batches: the order in which they are seen, padding or shared beginnings, and the check of what they train.

Masks come from lengths and from the rows, never from a padding token, which can be the end token, too.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from oresmith.errors import OresmithError
from oresmith.models.rendering import Chat
from oresmith.training.rowset import TrainingRow

Packing = Literal["prefix", "none"]
IGNORED = -100
"""Label of a token that the loss leaves out."""
LEAST_SHARED = 64
"""Tokens of a beginning that are worth being shared."""
REACH = 4096.0
"""Tokens that one can look at for what the other products of a layer cost, which depends on the model."""
_HEAD = "assistant\n"


class Group(NamedTuple):
    """Rows of a microbatch that begin alike."""

    prefix: int
    """Tokens of the beginning that they share; 0 for a row alone."""
    rows: list[int]
    """Their places in the microbatch."""


Share = tuple[tuple[int, int], list[tuple[int, int]]]
"""Where a group lies in a packed sequence: its beginning (empty where there is one row), and what each row has of its
own, each as (first token, one past the last)."""


def row_order(count: int, taken: int, seed: int) -> list[int]:
    """The rows that a training sees, in its order: one shuffle of all of them after the other, cut at the end.

    Args:
        count: of rows.
        taken: rows in all: updates times rows of an update.
        seed: of the step.
    """
    order: list[int] = []
    epoch = 0
    while len(order) < taken:
        turn = list(range(count))
        random.Random(f"{seed}/{epoch}").shuffle(turn)  # noqa: S311 - an order that anyone can repeat
        order += turn
        epoch += 1
    return order[:taken]


def order_sha256(rows: Sequence[TrainingRow], order: Sequence[int]) -> str:
    """Hex sha256 of the rows in the order in which they are seen, by id, turn and tokens."""
    digests = [hashlib.sha256(repr((row.row_id, row.turn, row.ids, row.mask)).encode()).digest() for row in rows]
    return hashlib.sha256(b"".join(digests[place] for place in order)).hexdigest()


def groups_of(rows: Sequence[TrainingRow], reach: float = REACH) -> list[Group]:
    """Rows of a microbatch by the beginning that they share, each row in one group.

    A beginning ends before the token from which the first supervised one of any row is predicted. Where sharing would
    cost more than it saves, rows stand alone.

    Args:
        rows: of the microbatch.
        reach: of the model (`REACH`).
    """
    prefixes: list[list[int]] = []
    members: list[list[int]] = []
    for place, row in enumerate(rows):
        most = max(0, row.mask.index(1) - 1) if 1 in row.mask else 0
        shared = [_alike(prefix, row.ids[:most]) for prefix in prefixes]
        best = max(range(len(shared)), key=lambda one: shared[one], default=None)
        # A beginning that several rows share is not given up for a row that has little of it.
        agreed = len(prefixes[best]) // 2 if best is not None and len(members[best]) > 1 else 0
        if best is not None and shared[best] >= max(LEAST_SHARED, agreed):
            prefixes[best] = prefixes[best][: shared[best]]
            members[best].append(place)
        else:
            prefixes.append(row.ids[:most])
            members.append([place])
    groups: list[Group] = []
    for prefix, found in zip(prefixes, members, strict=True):
        if _pays(len(prefix), [len(rows[one].ids) for one in found], reach):
            groups.append(Group(len(prefix), found))
        else:
            groups += [Group(0, [one]) for one in found]
    return groups


def _pays(prefix: int, lengths: Sequence[int], reach: float) -> bool:
    """Whether rows with a beginning computed once cost less than each alone.

    Alone, a token looks at half of its row on average, and attention passes over the other half; behind a beginning
    that is kept it has a mask, with which attention computes all of the row.
    """
    alone = sum(length * (reach + length / 2) for length in lengths)
    shared = prefix * (reach + prefix / 2) + sum((length - prefix) * (reach + length) for length in lengths)
    return len(lengths) > 1 and shared < alone


class Collator:
    """Fills a trainer's `data_collator`: examples are places among the rows.

    Args:
        rows: as checked.
        packing: none gives rows padded to the longest: `input_ids`, `attention_mask` and `labels`, each of shape (rows,
            tokens). prefix gives `input_ids`, `position_ids` and `labels` of shape (1, tokens), where each group's
            beginning stands once before what its rows have of their own, and `shares` (a list of `Share`).
        pad: token that fills rows up; nothing depends on which.
        reach: of the model (`REACH`): which beginnings are worth being shared.
    """

    def __init__(self, rows: Sequence[TrainingRow], packing: Packing, pad: int, reach: float = REACH) -> None:
        self.rows, self.packing, self.pad, self.reach = rows, packing, pad, reach

    def __call__(self, examples: Sequence[Mapping[str, int]]) -> dict[str, Any]:
        """The batch of the examples' rows: torch tensors of int64."""
        rows = [self.rows[example["row"]] for example in examples]
        return self._packed(rows) if self.packing == "prefix" else self._padded(rows)

    def _padded(self, rows: Sequence[TrainingRow]) -> dict[str, Any]:
        import torch

        longest = max(len(row.ids) for row in rows)
        ids = torch.full((len(rows), longest), self.pad)
        seen = torch.zeros((len(rows), longest), dtype=torch.long)
        labels = torch.full((len(rows), longest), IGNORED)
        for place, row in enumerate(rows):
            ids[place, : len(row.ids)] = torch.tensor(row.ids)
            seen[place, : len(row.ids)] = 1
            labels[place, : len(row.ids)] = torch.tensor(_labels(row))
        return {"input_ids": ids, "attention_mask": seen, "labels": labels}

    def _packed(self, rows: Sequence[TrainingRow]) -> dict[str, Any]:
        import torch

        ids: list[int] = []
        places: list[int] = []
        labels: list[int] = []
        shares: list[Share] = []

        def put(row: TrainingRow, first: int, end: int) -> tuple[int, int]:
            start = len(ids)
            ids.extend(row.ids[first:end])
            places.extend(range(first, end))
            labels.extend(_labels(row)[first:end])
            return start, len(ids)

        for prefix, members in groups_of(rows, self.reach):
            begun = put(rows[members[0]], 0, prefix)
            shares.append((begun, [put(rows[one], prefix, len(rows[one].ids)) for one in members]))
        return {
            "input_ids": torch.tensor([ids]),
            "position_ids": torch.tensor([places]),
            "labels": torch.tensor([labels]),
            "shares": shares,
        }


def separate(batch: Mapping[str, Any]) -> list[tuple[list[int], list[int]]]:
    """Ids and labels of each row of a batch, padding aside, as a model would be trained on them; groups one by one."""
    ids, labels = batch["input_ids"].tolist(), batch["labels"].tolist()
    if "shares" not in batch:
        # What attention does not see is no part of the row, unless the loss would cover it.
        kept = [
            [place for place, seen in enumerate(mask) if seen or labels[row][place] != IGNORED]
            for row, mask in enumerate(batch["attention_mask"].tolist())
        ]
        return [([ids[row][p] for p in places], [labels[row][p] for p in places]) for row, places in enumerate(kept)]
    return [
        (ids[0][begun:end] + ids[0][first:last], labels[0][begun:end] + labels[0][first:last])
        for (begun, end), rests in batch["shares"]
        for first, last in rests
    ]


def check_batches(
    collator: Collator, rows: Sequence[TrainingRow], order: Sequence[int], microbatch: int, chat: Chat
) -> dict[str, int]:
    """Make the batches of a training as the trainer will, until each row was seen, and refuse any with a broken mask.

    A row's loss must cover the assistant's turns, all of them or only the last, from behind the turn's head to its end
    token, and nothing else. That is read off the control tokens, not off the rows' masks.

    Args:
        collator: of the rows, a `Collator`.
        rows: as given to it.
        order: `row_order`.
        microbatch: rows of one batch.
        chat: of the model.

    Returns:
        `tokens` (of the rows as seen, each time), `supervised`, and `computed` (tokens after sharing, or with padding)
        of the whole order.

    Raises:
        OresmithError: naming the first row whose batch would train on something else.
    """
    counts = {"tokens": 0, "supervised": 0, "computed": 0}
    unseen = set(order)
    for start in range(0, len(order), microbatch):
        places = order[start : start + microbatch]
        counts["tokens"] += sum(len(rows[place].ids) for place in places)
        counts["supervised"] += sum(sum(rows[place].mask) for place in places)
        batch = collator([{"row": place} for place in places])
        counts["computed"] += batch["input_ids"].numel()
        if unseen.isdisjoint(places):
            continue
        unseen.difference_update(places)
        found = separate(batch)
        expected = [rows[places[one]] for one in _as_collated(collator, batch, places)]
        for row, (ids, labels) in zip(expected, found, strict=True):
            fault = _fault(row, ids, labels, chat)
            if fault:
                raise OresmithError(
                    "a batch would train on something else than what the model is to emit",
                    where=f"row {row.row_id}, turn {row.turn}",
                    got=fault,
                    todo="this is a fault of the collator or of a row's mask: nothing was trained",
                )
    return counts


def _as_collated(collator: Collator, batch: Mapping[str, Any], places: Sequence[int]) -> list[int]:
    """Places in the microbatch in the order in which `separate` gives its rows."""
    if "shares" not in batch:
        return list(range(len(places)))
    return [one for group in groups_of([collator.rows[p] for p in places], collator.reach) for one in group.rows]


def _fault(row: TrainingRow, ids: list[int], labels: list[int], chat: Chat) -> str:
    """What is wrong with a row as it is trained on; empty where nothing is."""
    if ids != row.ids:
        return f"{len(ids)} ids that are not the {len(row.ids)} of the row"
    if any(label not in (IGNORED, token) for label, token in zip(labels, ids, strict=True)):
        return "labels that are not the row's tokens"
    turns = list(_turns(ids, chat))
    covered = {place for place, label in enumerate(labels) if label != IGNORED}
    if not covered or not turns:
        return "no turn of the assistant in the loss"
    # Where the template keeps prefixes all turns are trained, else the last.
    trained = turns if covered.intersection(range(turns[0][1])) else turns[-1:]
    expected = {place for turn in trained for place in range(*turn)}
    if covered - expected:
        outside = covered - expected
        return f"{len(outside)} tokens outside the assistant's turns in the loss, the first at {min(outside)}"
    missing = expected - covered
    return f"{len(missing)} tokens of its turns not in the loss, the first at {min(missing)}" if missing else ""


def _turns(ids: list[int], chat: Chat) -> Iterator[tuple[int, int]]:
    """The assistant's turns: (first token behind the head, one past the end token), read off the control tokens."""
    start, end = chat.tokenizer.start, chat.tokenizer.end
    head = chat.tokenizer.plain(_HEAD)
    place = 0
    while place < len(ids):
        if ids[place] == start and ids[place + 1 : place + 1 + len(head)] == head:
            first = place + 1 + len(head)
            place = ids.index(end, first) if end in ids[first:] else len(ids)
            yield first, place + 1
        place += 1


def _labels(row: TrainingRow) -> list[int]:
    return [token if covered else IGNORED for token, covered in zip(row.ids, row.mask, strict=True)]


def _alike(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two rows begin with alike."""
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    return next(place for place in range(shorter) if left[place] != right[place])
