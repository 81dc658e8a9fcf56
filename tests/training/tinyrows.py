"""Training rows of small conversations, for the tests of trainers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oresmith.models import HERMES, QWEN3, Chat
from oresmith.models.base import write_base
from oresmith.models.rendering import training_rows
from oresmith.models.tiny import tiny_tokenizer
from oresmith.models.tokenizer import ChatTokenizer
from oresmith.param_models import Base
from oresmith.training.rowset import TrainingRow

CHATS = {"hermes": Chat(HERMES, ChatTokenizer(tiny_tokenizer())), "qwen": Chat(QWEN3, ChatTokenizer(tiny_tokenizer()))}
"""Whole conversations as rows, and one row a turn."""


def write_tiny(path: Path, template: str = "hermes") -> Path:
    """The tiny model, with a template."""
    path.mkdir(parents=True)
    write_base(Base(model="tiny", dtype="float32", template=template), path)
    return path


def talk(number: int, shop: str = "one") -> list[dict[str, Any]]:
    """A conversation; all of the same shop begin with the same 80 words or so."""
    found = {"function": {"name": "find_product", "arguments": json.dumps({"q": f"shirt {number}"})}}
    return [
        {"role": "system", "content": f"You work for shop {shop}. " + "Search before you recommend a product. " * 6},
        {"role": "user", "content": f"I want shirt {number}" + ", please" * (number % 4)},
        {"role": "assistant", "content": "", "reasoning_content": "I search.", "tool_calls": [found]},
        {"role": "tool", "content": f'[{{"product_id": "{number}"}}]' * (1 + number % 3)},
        {"role": "assistant", "content": f"It is {number}."},
    ]


def rows_of(chat: Chat, count: int, shop: str = "one") -> list[TrainingRow]:
    """The rows of so many conversations."""
    return [
        TrainingRow(
            row_id=f"{shop}{number}",
            turn=rendered.turns[-1].message,
            origin="corpus",
            problem=f"p{number}",
            cluster=f"c{number}",
            category="product",
            ids=rendered.ids,
            mask=rendered.mask,
        )
        for number in range(count)
        for rendered in training_rows(talk(number, shop), None, chat)
    ]
