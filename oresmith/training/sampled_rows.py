"""Selected rollouts as training rows, as many as a mixture takes, with the account of all that were sampled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from oresmith.arena.toolschema import tools
from oresmith.errors import OresmithError
from oresmith.models.rendering import Chat
from oresmith.training.conduct import Fault
from oresmith.training.rows import ProblemFacts, rollout_rows
from oresmith.training.rowset import Origin, RowSet, TrainingRow
from oresmith.training.selection import Account, Attempt, Selected, account


class Taken(NamedTuple):
    """Rows of rollouts."""

    rows: RowSet
    account: Account


def taken_rows(
    sampled: Sequence[Attempt],
    selected: Selected,
    chat: Chat,
    *,
    origin: Origin,
    max_tokens: int,
    wanted: int | None = None,
    where: str,
) -> Taken:
    """Render a selection, and take as many rows as are wanted, no conversation in part.

    Args:
        sampled: everything that was played.
        selected: what is fit to be trained on, in the order in which it is taken.
        chat: of the model that is trained.
        origin: of the rows.
        max_tokens: longest row; longer ones are counted rejects.
        wanted: most rows, but one conversation at least where it is not 0; None takes all.
        where: the step, for the refusal.

    Raises:
        OresmithError: no rollout gives a row.
    """
    attempts = {f"{origin}:{one.rollout.problem}:{one.rollout.sample}": one for one in selected.attempts}
    facts = {one.rollout.problem: ProblemFacts(one.cluster, one.problem.category or "") for one in attempts.values()}
    rollouts = [one.rollout for one in attempts.values()]
    found = rollout_rows(rollouts, chat, tools=tools(), facts=facts, origin=origin, max_tokens=max_tokens, min_rows=0)
    rows = _first(found.rows, wanted)
    taken, rendered = {row.row_id for row in rows}, {row.row_id for row in found.rows}
    kept = [one for name, one in attempts.items() if name in taken]
    dropped = Counter(selected.dropped)
    dropped[Fault.UNRENDERED] += len(attempts) - len(rendered)
    dropped[Fault.BEYOND_MIX] += len(rendered) - len(kept)
    told = account(sampled, kept, dict(dropped))
    if not kept and wanted != 0:
        raise OresmithError(
            "no rollout is fit to be trained on",
            where=where,
            got=f"{told.sampled} rollouts: " + ", ".join(f"{count} {why}" for why, count in told.dropped.items()),
            todo=f"start from a better model, sample more, or set {where}.enabled: false",
        )
    return Taken(replace(found, rows=rows, talks={name: found.talks[name] for name in taken}), told)


def _first(rows: Sequence[TrainingRow], wanted: int | None) -> list[TrainingRow]:
    """The first rows, whole conversations, at most as many as wanted, but one conversation where any is wanted."""
    sizes = Counter(row.row_id for row in rows)
    taken: set[str] = set()
    room = len(rows) if wanted is None else wanted
    for name, size in sizes.items():
        if size > room and (taken or not wanted):
            break
        room -= size
        taken.add(name)
    return [row for row in rows if row.row_id in taken]
