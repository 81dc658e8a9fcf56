"""Text from anywhere on a card: no character of it is read as Markdown, HTML, YAML, a template or a mark of ours."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 300
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
_BLANK = {"\u00a0", "\u115f", "\u1160", "\u2800", "\u3164", "\uffa0"}
"""Letters and spaces that show nothing."""
_TICKS = re.compile("`+")
_SPECIAL = re.compile(r"[\\`*_{}\[\]()<>#!|~&$^@]|^[-+=.:]|[.:](?=\S)")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "|": "&vert;"}


def visible(value: object, longest: int = LONGEST) -> str:
    """One line that shows every character: those that hide, blank or reorder others by their number, long text cut."""
    text = str(value)
    kept = text if len(text) <= longest else text[:longest] + "…"
    if kept.isascii() and kept.isprintable():
        return kept
    return "".join(
        f"\\u{{{ord(c):04X}}}"
        if unicodedata.category(c) in _HIDDEN or c in _BLANK or (unicodedata.category(c) == "Zs" and c != " ")
        else c
        for c in kept
    )


def code(value: object) -> str:
    """An inline code span that holds any text and stands anywhere, cells of tables included.

    A table's row is split at `|` before code is looked for, so it is written `\\|`, which GitHub and the Hub read back
    as `|` within a table alone: so every `|` becomes U+2502, which looks the same.
    """
    return span(str(value).replace("|", "\u2502"))


def span(value: object) -> str:
    """An inline code span that holds any text, outside of tables."""
    text = visible(value)
    if not text.strip():
        return "`(empty)`"
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def words(value: object) -> str:
    """Plain text within a line: what Markdown or HTML could read stands behind a backslash or as an entity."""
    return _SPECIAL.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), visible(value))


def python(value: object) -> str:
    """A Python string literal in a fenced block: pure ASCII, and without a backtick."""
    return ascii(str(value)).replace("`", "\\x60")
