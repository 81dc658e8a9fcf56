"""The check before every training step.

What a mask covers is compared with what the assistant messages say when they are written out by `write_reply`, which
shares nothing with the templates, and is then read back as an engine would read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any

import msgspec

from oresmith.models.prefixes import engine_prompt
from oresmith.models.rendering import Chat, Message, Rendered, RenderFault, training_rows
from oresmith.models.replies import END, parse_reply, write_reply
from oresmith.models.template import Template


class RowFault(StrEnum):
    """Why a row is not trained on. The value is what is counted."""

    sentence: str

    def __new__(cls, code: str, sentence: str) -> RowFault:
        """Attach the sentence to the member."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    UNRENDERABLE = "unrenderable", "The template cannot render the conversation."
    NO_SUPERVISED = "no_supervised", "No token of the row is to be emitted by the model."
    WRONG_MASK = "wrong_mask", "The mask does not cover exactly what the model is to emit, end tokens included."
    NOT_READ_BACK = "not_read_back", "Read as an engine reads a reply, a turn gives other thinking, content or calls."
    CONTROL_TOKEN = "control_token", "The row holds turn tokens that no turn of the conversation accounts for."
    NOT_SERVED = "not_served", "An engine that is asked for the turn would be given another prefix."
    TEXT_LOST = "text_lost", "The tokenizer has no tokens for some characters and left them out."
    TOO_LONG = "too_long", "The row has more tokens than the limit; nothing is cut silently."


class CheckedRow(msgspec.Struct, frozen=True):
    """A row that passed: what a trainer takes."""

    row_id: str
    """Of the conversation; per-turn rows share it."""
    turn: int
    """Index of the last assistant message in the row."""
    rendered: Rendered


class RowReject(msgspec.Struct, frozen=True):
    """A row that did not."""

    row_id: str
    turn: int
    """As in `CheckedRow`; -1 where the conversation could not be rendered."""
    fault: RowFault
    detail: str = ""
    """Never text of the row."""


class RenderingReport(msgspec.Struct):
    """The account of a check: `rows == kept + sum(rejected.values())`."""

    conversations: int = 0
    rows: int = 0
    """Training rows that the conversations give; one for a conversation that cannot be rendered."""
    kept: int = 0
    rejected: dict[str, int] = {}
    """By `RowFault`."""
    tokens: int = 0
    """Of the rows kept."""
    supervised: int = 0
    longest: int = 0
    """Tokens of the longest row, kept or not."""
    rejects: list[RowReject] = []


def checked_rows(
    rows: Iterable[Mapping[str, Any]], chat: Chat, report: RenderingReport, *, max_tokens: int | None = None
) -> Iterator[CheckedRow]:
    """Render rows, check each, and give those that pass.

    Args:
        rows: with `row_id`, `messages` and `tools` (lists, or their JSON as the corpus stores it).
        chat: of the model that is trained.
        report: takes the counts and the rejects.
        max_tokens: longest row, in tokens; None for no limit.
    """
    for row in rows:
        row_id, messages, tools = str(row["row_id"]), _decoded(row["messages"]), _decoded(row["tools"])
        report.conversations += 1
        try:
            found = training_rows(messages, tools, chat)
        except RenderFault as fault:
            _reject(report, RowReject(row_id, -1, RowFault.UNRENDERABLE, fault.what))
            continue
        if not found:
            _reject(report, RowReject(row_id, -1, RowFault.NO_SUPERVISED))
        for rendered in found:
            turn = rendered.turns[-1].message if rendered.turns else -1
            report.longest = max(report.longest, len(rendered.ids))
            fault_found = row_fault(rendered, messages, tools, chat)
            if fault_found is None and max_tokens is not None and len(rendered.ids) > max_tokens:
                fault_found = RowFault.TOO_LONG, f"{len(rendered.ids)} of {max_tokens} tokens"
            if fault_found is not None:
                _reject(report, RowReject(row_id, turn, *fault_found))
                continue
            report.rows += 1
            report.kept += 1
            report.tokens += len(rendered.ids)
            report.supervised += sum(rendered.mask)
            yield CheckedRow(row_id, turn, rendered)


def check_rendering(rows: Iterable[Mapping[str, Any]], chat: Chat, *, max_tokens: int | None = None) -> RenderingReport:
    """`checked_rows` where only the account is wanted."""
    report = RenderingReport()
    for _ in checked_rows(rows, chat, report, max_tokens=max_tokens):
        pass
    return report


def row_fault(
    rendered: Rendered, messages: Sequence[Message], tools: Sequence[Any] | None, chat: Chat
) -> tuple[RowFault, str] | None:
    """Why a rendered row cannot be trained on, with a detail; None where it can.

    Args:
        rendered: of these messages, or of their beginning.
        messages: the conversation.
        tools: as rendered.
        chat: as rendered.
    """
    if not rendered.turns:
        return RowFault.NO_SUPERVISED, ""
    if rendered.turns[0].message == 0:
        return RowFault.NOT_SERVED, "nothing stands before the first answer"
    answers = [messages[turn.message] for turn in rendered.turns]
    fault = mask_fault(rendered.ids, rendered.mask, answers, chat)
    return fault or _conversation_fault(rendered, messages, tools, chat)


def _conversation_fault(
    rendered: Rendered, messages: Sequence[Message], tools: Sequence[Any] | None, chat: Chat
) -> tuple[RowFault, str] | None:
    """What is wrong although the mask is right."""
    last = rendered.turns[-1]
    shown = messages[: last.message + 1]
    if rendered.ids.count(chat.tokenizer.start) != _heads(shown, bool(tools)):
        return RowFault.CONTROL_TOKEN, ""
    if chat.tokenizer.normal(chat.tokenizer.decode(rendered.ids)) != chat.tokenizer.normal(rendered.text):
        return RowFault.TEXT_LOST, ""
    # Where the template keeps prefixes this holds for every turn, by its construction.
    keeps = chat.template.keeps_prefixes
    if not keeps and engine_prompt(messages, last.message, tools, chat) != rendered.ids[: last.start]:
        return RowFault.NOT_SERVED, f"message {last.message}"
    for turn in rendered.turns:
        if not _reads_back(messages[turn.message], chat.template):
            return RowFault.NOT_READ_BACK, f"message {turn.message}"
    return None


def mask_fault(
    ids: Sequence[int], mask: Sequence[int], answers: Sequence[Message], chat: Chat
) -> tuple[RowFault, str] | None:
    """Why a mask is not the one to train with; None where it is. For the rows and batches of any trainer.

    Args:
        ids: of one row, padding aside.
        mask: as long; 1 on what the loss covers.
        answers: the assistant messages that the loss must cover, in order, and nothing else.
        chat: that rendered the row.
    """
    if len(ids) != len(mask):
        return RowFault.WRONG_MASK, f"{len(mask)} mask values for {len(ids)} ids"
    spans = _runs(mask)
    if not spans:
        return RowFault.NO_SUPERVISED, ""
    if len(spans) != len(answers):
        return RowFault.WRONG_MASK, f"{len(spans)} spans for {len(answers)} turns"
    for (start, end), answer in zip(spans, answers, strict=True):
        wrong = _span_fault(ids[start:end], answer, chat)
        if wrong:
            return RowFault.WRONG_MASK, f"tokens {start} to {end} {wrong}"
    return None


def sampled_fault(
    ids: Sequence[int], mask: Sequence[int], drawn: Sequence[tuple[str, int | None]], chat: Chat
) -> tuple[RowFault, str] | None:
    """As `mask_fault`, for what a model has sampled, which need not be what it should emit.

    Args:
        ids: of one row, padding aside.
        mask: as long; 1 on what the loss covers.
        drawn: text of each reply that the loss must cover, in order, and the end token that was drawn behind it, or
            None for a reply that was cut.
        chat: that rendered the prompts.
    """
    if len(ids) != len(mask):
        return RowFault.WRONG_MASK, f"{len(mask)} mask values for {len(ids)} ids"
    spans = _runs(mask)
    if not spans:
        return RowFault.NO_SUPERVISED, ""
    if len(spans) != len(drawn):
        return RowFault.WRONG_MASK, f"{len(spans)} spans for {len(drawn)} replies"
    for (start, end), (text, token) in zip(spans, drawn, strict=True):
        said = end if token is None else end - 1
        if token is not None and ids[said] != token:
            return RowFault.WRONG_MASK, f"tokens {start} to {end} lack the end token"
        if chat.tokenizer.decode(ids[start:said]) != text:
            return RowFault.WRONG_MASK, f"tokens {start} to {end} are not the reply"
    return None


def _span_fault(span: Sequence[int], answer: Message, chat: Chat) -> str:
    if span[-1] != chat.tokenizer.end:
        return "lack the end token"
    expected = write_reply(dict(answer), always_thinks=chat.template.always_thinks)
    found = chat.tokenizer.decode(span)
    # Normalised on both sides: a mark that combines with the end of a control token is composed only in whole text.
    same = chat.tokenizer.normal(found) == chat.tokenizer.normal(expected)
    return "" if same else "are not what the turn emits"


class RowRenderer:
    """Fills `corpus.rows.Renderer`: what cannot be trained on as rendered stays out of the views.

    Args:
        chat: of the base model.
    """

    def __init__(self, chat: Chat) -> None:
        self.chat = chat

    def fault(self, messages: list[dict[str, Any]], tools: list[Any]) -> str | None:
        """The first fault of the conversation's rows; None where all can be trained on."""
        report = check_rendering([{"row_id": "", "messages": messages, "tools": tools}], self.chat)
        return report.rejects[0].fault.value if report.rejects else None


def _reject(report: RenderingReport, reject: RowReject) -> None:
    report.rows += 1
    report.rejected[reject.fault.value] = report.rejected.get(reject.fault.value, 0) + 1
    report.rejects.append(reject)


def _decoded(value: Any) -> Any:
    """Lists as they are; JSON text, whole or an item, decoded."""
    if isinstance(value, str | bytes):
        value = json.loads(value)
    return [json.loads(item) if isinstance(item, str | bytes) else item for item in value or []]


def _value(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def _runs(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of 1 in a mask, as (first, one past the last)."""
    edges = [place for place, (a, b) in enumerate(pairwise([0, *mask, 0])) if a != b]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _heads(messages: Sequence[Message], tools: bool) -> int:
    """Turns that begin in a rendered conversation: results in a row share one, a list of tools needs a system turn."""
    roles = [message["role"] for message in messages]
    shared = sum(1 for before, role in pairwise(roles) if before == role == "tool")
    return len(roles) - shared + (tools and roles[0] not in ("system", "developer"))


def _reads_back(message: Message, template: Template) -> bool:
    reply = parse_reply(write_reply(dict(message), always_thinks=template.always_thinks).removesuffix(END))
    functions = [call["function"] for call in message.get("tool_calls") or []]
    asked = [(function["name"], _value(function["arguments"])) for function in functions]
    return (
        reply.malformed is None
        and [(call.name, json.loads(call.arguments)) for call in reply.calls] == asked
        and reply.content == (message.get("content") or "").strip()
        and (reply.think or "") == (message.get("reasoning_content") or "").strip()
    )
