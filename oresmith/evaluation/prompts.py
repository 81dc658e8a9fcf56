"""The words that a model is given beside the tools' results: the system prompt, and the answer to a malformed reply.

A system prompt is a versioned file, `schemas/prompts/*.txt`, named by version and sha256 in every output. The answers
are part of the harness: its version changes with them.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.models.replies import Malformed

# Beside the package in a checkout and in an installation alike; `schemas` is too common a name to import it by.
_FOLDER = Path(__file__).resolve().parents[2] / "schemas" / "prompts"

PROMPTS = {"shopper-1": "shopper-1.txt", "shopper-brief-1": "shopper-brief-1.txt"}
"""File of each system prompt, by version. A changed text is a new version."""

_FAULTS = {
    Malformed.UNCLOSED_THINK: "the thinking is not closed",
    Malformed.UNCLOSED_CALL: "the tool call is not closed",
    Malformed.STRAY_TAG: "a tag stands where none belongs",
    Malformed.INVALID_JSON: "the tool call is not valid JSON",
    Malformed.NO_NAME: "the tool call names no tool",
    Malformed.NO_ARGUMENTS: "the tool call has no object of arguments",
    Malformed.UNSAFE_ARGUMENTS: "the arguments hold a number or a text that is not plain JSON",
    Malformed.TOO_MANY_CALLS: "there are too many tool calls",
    Malformed.WRONG_SHAPE: "the message has the wrong shape",
}


def system_prompt(version: str) -> str:
    """The text of a system prompt, without the line end of its file.

    Raises:
        OresmithError: no such prompt.
    """
    return _bytes(version).decode().rstrip("\n")


def prompt_sha256(version: str) -> str:
    """The sha256 of the prompt file's bytes, hex. Raises OresmithError for an unknown prompt."""
    return hashlib.sha256(_bytes(version)).hexdigest()


def malformed_answer(fault: Malformed) -> str:
    """What the model is told of a malformed reply; nothing of the reply is repeated."""
    return (
        f"Error: your last message could not be read: {_FAULTS[fault]}. No tool was called. Write one valid tool call."
    )


@functools.cache
def _bytes(version: str) -> bytes:
    if version not in PROMPTS:
        raise OresmithError("there is no such system prompt", got=str(version)[:80], expected=" or ".join(PROMPTS))
    return (_FOLDER / PROMPTS[version]).read_bytes()
