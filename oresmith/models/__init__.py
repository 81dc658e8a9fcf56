"""Base models, chat templates, and rendering with masks (docs/models.md).

`render` is the only way a conversation becomes token ids, and `parse_reply` the only way a reply becomes calls.
Importing this package loads neither torch nor transformers.
"""

from oresmith.models.checks import (
    RenderingReport,
    RowFault,
    RowRenderer,
    check_rendering,
    checked_rows,
    mask_fault,
)
from oresmith.models.prefixes import TurnParity, parity
from oresmith.models.rendering import Chat, Rendered, RenderFault, Turn, render, training_rows
from oresmith.models.replies import END, Malformed, Reply, ReplyCall, native_reply, parse_reply, write_reply
from oresmith.models.template import HERMES, QWEN3, TEMPLATES, Template

__all__ = [
    "END",
    "HERMES",
    "QWEN3",
    "TEMPLATES",
    "Chat",
    "Malformed",
    "RenderFault",
    "Rendered",
    "RenderingReport",
    "Reply",
    "ReplyCall",
    "RowFault",
    "RowRenderer",
    "Template",
    "Turn",
    "TurnParity",
    "check_rendering",
    "checked_rows",
    "mask_fault",
    "native_reply",
    "parity",
    "parse_reply",
    "render",
    "training_rows",
    "write_reply",
]
