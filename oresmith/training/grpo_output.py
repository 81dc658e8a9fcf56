"""What a GRPO step leaves beside its model: the rollouts, the rows that were trained on, and figures of its course."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from oresmith.arena.toolschema import tools
from oresmith.blocks.packing import TALKS, PackedLines
from oresmith.evaluation.engines.model import messages_of
from oresmith.evaluation.problems import Case
from oresmith.evaluation.records import Rollout
from oresmith.evaluation.writing import ROLLOUTS, Writer
from oresmith.models.checks import RenderingReport
from oresmith.training.grpo_bounds import Kept, Trained, Update
from oresmith.training.guarded import Guarded
from oresmith.training.leaks import find_text_leaks
from oresmith.training.rows import ProblemFacts
from oresmith.training.rowset import RowSet, Talk, TrainingRow

_PART = 3
"""The course is told by the first and the last third of the updates."""


def write_rollouts(updates: Sequence[Update], cases: Mapping[str, Case], folder: Path, name: str, run: str) -> int:
    """Write all rollouts in the order of the updates, in the form of the stage `rollout`; returns their number.

    Beside the columns of that form a row has `update`, `outcome`, `agreement`, `reward`, `advantage`, `leak` and
    `trained` (whether the loss was computed on it).

    Args:
        updates: of a run.
        cases: by the problems' names.
        folder: exists.
        name: of the model.
        run: names the run.
    """
    writer = Writer(folder, name, run, tools())
    count = 0
    with PackedLines(folder / ROLLOUTS, TALKS) as file:
        for update in updates:
            for kept in update.rollouts:
                own = {key: getattr(kept, key) for key in ("outcome", "agreement", "reward", "advantage", "leak")}
                row = writer.row_of(cases[kept.rollout.problem], kept.rollout)
                row |= {"update": update.number, "trained": bool(kept.trained)} | own
                file.add(msgspec.json.encode(row))
                count += 1
    return count


def row_set(updates: Sequence[Update], facts: Mapping[str, ProblemFacts], *, keeps_prefixes: bool) -> RowSet:
    """The rows that the loss was computed on, in the order of the updates; what it left out is counted.

    Args:
        updates: of a run.
        facts: by problem.
        keeps_prefixes: of the template.
    """
    rows: list[TrainingRow] = []
    talks: dict[str, Talk] = {}
    left_out: Counter[str] = Counter()
    for kept in (kept for update in updates for kept in update.rollouts):
        if not kept.trained:
            left_out[f"leak_{kept.leak}" if kept.leak else "no_advantage"] += 1
            continue
        talk = _talk(kept.rollout, facts)
        talks[talk.row_id] = talk
        rows += _rows(kept, talk)
    report = RenderingReport(
        conversations=len(talks),
        rows=len(rows),
        kept=len(rows),
        tokens=sum(len(row.ids) for row in rows),
        supervised=sum(sum(row.mask) for row in rows),
        longest=max((len(row.ids) for row in rows), default=0),
    )
    return RowSet(rows=rows, report=report, talks=talks, left_out=dict(left_out), keeps_prefixes=keeps_prefixes)


def course(updates: Sequence[Update]) -> dict[str, Any]:
    """Figures of a run, for training.json and the metrics: means over its first and its last third of updates."""
    part = max(1, len(updates) // _PART)
    everything = [kept for update in updates for kept in update.rollouts]
    kls = [update.kl for update in updates if update.kl is not None]
    return {
        "updates": len(updates),
        "rollouts": len(everything),
        "problems": len({kept.rollout.problem for kept in everything}),
        "trained_rollouts": sum(bool(kept.trained) for kept in everything),
        "flat_updates": sum(update.flat for update in updates),
        "clipped": sum(kept.clipped for kept in everything),
        "leaks": dict(sorted(Counter(kept.leak for kept in everything if kept.leak).items())),
        "ended": dict(sorted(Counter(kept.rollout.ended for kept in everything).items())),
        "kl_last": kls[-1] if kls else None,
        "kl_most": max(kls, default=None),
        "first": _means(updates[:part]),
        "last": _means(updates[-part:]),
    }


def leaks_of(guarded: Guarded) -> Callable[[Sequence[Rollout]], Mapping[int, str]]:
    """What `grpo_rounds.Arena.leaks` is to be: tells the rollouts that hold what is held out."""

    def find(rollouts: Sequence[Rollout]) -> Mapping[int, str]:
        given = [(str(place), messages_of(rollout.messages)) for place, rollout in enumerate(rollouts)]
        found: dict[int, str] = {}
        for leak in find_text_leaks(given, guarded).leaks:
            found.setdefault(int(leak.row_id), leak.kind)
        return found

    return find


def _talk(rollout: Rollout, facts: Mapping[str, ProblemFacts]) -> Talk:
    known = facts[rollout.problem]
    return Talk(
        row_id=f"rollout:{rollout.problem}:{rollout.sample}",
        messages=messages_of(rollout.messages),
        tools=tools(),
        origin="rollout",
        problem=rollout.problem,
        cluster=known.cluster,
        category=known.category,
    )


def _rows(kept: Kept, talk: Talk) -> Iterator[TrainingRow]:
    said = [place for place, message in enumerate(talk.messages) if message["role"] == "assistant"]
    seen = 0
    for part in kept.trained:
        seen += _turns(part)
        yield TrainingRow(
            row_id=talk.row_id,
            turn=said[seen - 1],
            origin="rollout",
            problem=talk.problem,
            cluster=talk.cluster,
            category=talk.category,
            ids=part.ids,
            mask=part.mask,
        )


def _turns(part: Trained) -> int:
    return sum(before < after for before, after in pairwise([0, *part.mask]))


def _means(updates: Sequence[Update]) -> dict[str, float]:
    found = [kept for update in updates for kept in update.rollouts]
    return {
        name: round(sum(getattr(kept, name) for kept in found) / len(found), 6)
        for name in ("outcome", "agreement", "reward")
        if found
    }
