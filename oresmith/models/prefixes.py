"""Parity of training and serving: an engine is given the very ids that a turn was trained behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from oresmith.models.rendering import Chat, Message, render, training_rows


class TurnParity(msgspec.Struct, frozen=True):
    """Whether one turn is served as it is trained."""

    message: int
    """Index of the assistant message."""
    equal: bool
    serving: int
    """Tokens of the prefix that an engine gets."""
    training: int
    """Tokens before the turn in its training row."""
    first_difference: int
    """Index of the first token that differs; -1 where none does."""


def parity(
    messages: Sequence[Message],
    tools: Sequence[Any] | None,
    chat: Chat,
    given: Mapping[int, Sequence[int]] | None = None,
) -> list[TurnParity]:
    """Compare, for each assistant turn, the ids an engine gets with those before the turn in its training row.

    Args:
        messages: the conversation.
        tools: as rendered.
        chat: of the model.
        given: ids that an engine was really given, by the index of the assistant message; what it lacks is rendered.

    Raises:
        RenderFault: as `render`.
    """
    found = []
    for row in training_rows(messages, tools, chat):
        for turn in row.turns:
            serving = (given or {}).get(turn.message)
            if serving is None:
                serving = engine_prompt(messages, turn.message, tools, chat)
            training = row.ids[: turn.start]
            differs = _first_difference(list(serving), training)
            found.append(TurnParity(turn.message, differs < 0, len(serving), len(training), differs))
    return found


def engine_prompt(messages: Sequence[Message], place: int, tools: Sequence[Any] | None, chat: Chat) -> list[int]:
    """What an engine gets to make the message at a place."""
    return render(messages[:place], tools, chat, add_generation_prompt=True).ids


def _first_difference(left: list[int], right: list[int]) -> int:
    if left == right:
        return -1
    return next(
        (place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
