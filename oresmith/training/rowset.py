"""What trainers take: rows of ids with the mask of what the loss covers, each checked, and the account of all.

Every row has passed `models.checks`: its mask covers exactly what the model is to emit. What did not is counted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from oresmith.errors import OresmithError
from oresmith.models.checks import RenderingReport, checked_rows
from oresmith.models.rendering import Chat
from oresmith.records import Record

Origin = Literal["corpus", "rollout", "teacher"]


class TrainingRow(Record, frozen=True):
    """One row that a trainer takes."""

    row_id: str
    """Of the conversation; per-turn rows share it."""
    turn: int
    """Index of the last assistant message in the row."""
    origin: Origin
    problem: str
    """Name of the problem in data/cluster."""
    cluster: str
    category: str
    ids: list[int]
    mask: list[int]
    """1 on what the loss covers, as long as `ids`."""


class Talk(Record, frozen=True):
    """A conversation as it is trained on: results of tools as shown, the system prompt in its place."""

    row_id: str
    messages: list[dict[str, Any]]
    tools: list[Any]
    origin: Origin = "corpus"
    problem: str = ""
    cluster: str = ""
    category: str = ""


class RowSet(msgspec.Struct, kw_only=True):
    """Rows with their account and with the conversations that they were made of."""

    rows: list[TrainingRow]
    """In an order decided by hash; a trainer mixes them by its seed."""
    report: RenderingReport
    talks: dict[str, Talk]
    """By row id, of all rows."""
    left_out: dict[str, int] = {}
    """Why -> conversations that were not rendered at all."""
    keeps_prefixes: bool = True
    """Of the template: whether a row is trained on in all its turns, or in its last one alone."""

    @property
    def tokens(self) -> int:
        """Of all rows."""
        return sum(len(row.ids) for row in self.rows)

    @property
    def supervised(self) -> int:
        """Tokens that the loss covers."""
        return sum(sum(row.mask) for row in self.rows)

    def answers(self, row: TrainingRow) -> list[dict[str, Any]]:
        """The assistant messages that the loss of a row covers, in order: what `checks.mask_fault` asks for."""
        messages = self.talks[row.row_id].messages
        if not self.keeps_prefixes:
            return [messages[row.turn]]
        return [message for message in messages[: row.turn + 1] if message["role"] == "assistant"]


def talk_rows(
    talks: Iterable[Talk],
    chat: Chat,
    *,
    max_tokens: int | None,
    min_rows: int = 1,
    where: str = "",
    left_out: Mapping[str, int] | None = None,
) -> RowSet:
    """Rows of any conversations, in the order given.

    Args:
        talks: with row ids that differ.
        chat: of the model that is trained.
        max_tokens: as in `corpus_rows`.
        min_rows: fewer rows are refused.
        where: what a refusal names.
        left_out: goes into the result.

    Raises:
        OresmithError: too few rows, or two conversations of one id.
    """
    report = RenderingReport()
    kept = [(talk, rendered_rows(talk, chat, max_tokens, report)) for talk in talks]
    return row_set(kept, report, dict(left_out or {}), chat, min_rows=min_rows, where=where)


def combined(sets: Sequence[RowSet]) -> RowSet:
    """One set of several of one chat, in their order.

    Raises:
        OresmithError: two conversations of one row id.
    """
    talks: dict[str, Talk] = {}
    left_out: Counter[str] = Counter()
    for one in sets:
        for row_id, talk in one.talks.items():
            if talks.setdefault(row_id, talk) != talk:
                raise OresmithError("two conversations have one row id", got=row_id[:200])
        left_out.update(one.left_out)
    return RowSet(
        rows=[row for one in sets for row in one.rows],
        report=_merged([one.report for one in sets]),
        talks=talks,
        left_out=dict(sorted(left_out.items())),
        keeps_prefixes=all(one.keeps_prefixes for one in sets),
    )


def rows_sha256(rows: Iterable[TrainingRow]) -> str:
    """sha256 (hex) of rows in their order: of id, turn, ids and mask of each."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(f"{row.row_id}\0{row.turn}\0{len(row.ids)}\0".encode("utf-8", "surrogatepass"))
        digest.update(np.asarray(row.ids, dtype="<u4").tobytes())
        digest.update(bytes(row.mask))
    return digest.hexdigest()


def rendered_rows(talk: Talk, chat: Chat, max_tokens: int | None, report: RenderingReport) -> list[TrainingRow]:
    """The rows of one conversation that pass; the others are counted in the report."""
    row = {"row_id": talk.row_id, "messages": talk.messages, "tools": talk.tools}
    return [
        TrainingRow(
            row_id=talk.row_id,
            turn=checked.turn,
            origin=talk.origin,
            problem=talk.problem,
            cluster=talk.cluster,
            category=talk.category,
            ids=checked.rendered.ids,
            mask=checked.rendered.mask,
        )
        for checked in checked_rows([row], chat, report, max_tokens=max_tokens)
    ]


def row_set(
    kept: Sequence[tuple[Talk, list[TrainingRow]]],
    report: RenderingReport,
    left_out: dict[str, int],
    chat: Chat,
    *,
    min_rows: int,
    where: str,
) -> RowSet:
    """The set of conversations with their rows, those without any among them.

    Raises:
        OresmithError: fewer rows than `min_rows`, or two conversations of one id.
    """
    rows = [row for _, found in kept for row in found]
    talks: dict[str, Talk] = {}
    for talk, found in kept:
        if found and talks.setdefault(talk.row_id, talk) is not talk:
            raise OresmithError("two conversations have one row id", where=where, got=talk.row_id[:200])
    if len(rows) < min_rows:
        counts = {"conversations": report.conversations} | report.rejected | left_out
        raise OresmithError(
            "there are too few rows to train on",
            where=where,
            expected=f"{min_rows} or more (train.min_rows)",
            got=f"{len(rows)}; " + ", ".join(f"{name} {count}" for name, count in counts.items()),
            todo="see the counts: more data, a higher train.max_tokens, or a shorter view",
        )
    return RowSet(rows=rows, report=report, talks=talks, left_out=left_out, keeps_prefixes=chat.template.keeps_prefixes)


def _merged(reports: Sequence[RenderingReport]) -> RenderingReport:
    rejected: Counter[str] = Counter()
    for one in reports:
        rejected.update(one.rejected)
    return RenderingReport(
        conversations=sum(one.conversations for one in reports),
        rows=sum(one.rows for one in reports),
        kept=sum(one.kept for one in reports),
        rejected=dict(sorted(rejected.items())),
        tokens=sum(one.tokens for one in reports),
        supervised=sum(one.supervised for one in reports),
        longest=max((one.longest for one in reports), default=0),
        rejects=[reject for one in reports for reject in one.rejects],
    )
