"""What `main` says of releases that were taken back: a block on the card that can be lifted off without a trace."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oresmith.release.cards.escape import words
from oresmith.release.manifest import Yanked

CARD = "README.md"
_OPEN, _CLOSE = "<!-- oresmith:yanked -->\n", "<!-- /oresmith:yanked -->\n"
_FRONT = re.compile(rb"---\r?\n.*?\n---\r?\n", re.DOTALL)
_BLOCK = re.compile(re.escape(_OPEN).encode() + rb".*?" + re.escape(_CLOSE).encode(), re.DOTALL)


def bury(card: bytes, yanked: Sequence[Yanked]) -> bytes:
    """A card that names releases which were taken back, right behind its front matter.

    Args:
        card: with or without such a block.
        yanked: the releases; for none the card comes back as it first was.
    """
    plain = unbury(card)
    if not yanked:
        return plain
    lines = [
        f"> **Release {words(one.version)} was yanked.** `main` does not hold it; its tag still loads. "
        f"Reason: {words(one.reason)}\n"
        for one in yanked
    ]
    block = (_OPEN + ">\n".join(lines) + _CLOSE).encode()
    front = _FRONT.match(plain)
    at = front.end() if front else 0
    return plain[:at] + block + plain[at:]


def unbury(card: bytes) -> bytes:
    """The card as its release has it, byte by byte."""
    front = _FRONT.match(card)
    at = front.end() if front else 0
    block = _BLOCK.match(card, at)
    return card[:at] + card[block.end() :] if block else card
