"""A card as HTML: CommonMark with tables, whose raw HTML is shown as text and whose links lead to known places only."""

from __future__ import annotations

import html
import posixpath
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_RENDERED = 128 << 10
"""Characters of a card that is rendered; a longer one is shown as it is."""
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def visible(text: str, *, lines: bool = False) -> str:
    """The text with every character that cannot be seen, or that turns the reading direction, named by its number.

    Args:
        text: anything.
        lines: let line ends and tabs through.
    """
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(
        f"[U+{ord(character):04X}]"
        if unicodedata.category(character) in _HIDDEN and character not in kept
        else character
        for character in text
    )


@lru_cache(maxsize=8)
def render(text: str, repository: str, revision: str) -> str:
    """The card's body as HTML that is safe to show.

    Args:
        text: without front matter.
        repository: address of the page that its relative links start from, such as `/datasets/owner/name`.
        revision: that they lead into.
    """
    shown = visible(text.replace("\r\n", "\n"), lines=True)
    if len(shown) > MAX_RENDERED:
        return f"<pre>{html.escape(shown)}</pre>"
    return str(_parser().render(shown, {"repository": repository, "revision": revision}))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    # html is parsed so that comments, which hold a card's figures for machines, can be left out; none is ever passed on
    parser.add_render_rule("html_block", _block)
    parser.add_render_rule("html_inline", _inline)
    parser.add_render_rule("link_open", _link)
    parser.add_render_rule("image", _image)
    return parser


def _without_comments(text: str) -> str:
    """Raw HTML without its comments; one that never ends stays."""
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[at:start])
        at = end + 3
    return "".join([*kept, text[at:]])


def _block(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    rest = _without_comments(tokens[at].content).strip()
    return f"<pre>{html.escape(rest)}</pre>\n" if rest else ""


def _inline(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    return html.escape(_without_comments(tokens[at].content))


def _link(self: Any, tokens: Sequence[Token], at: int, options: Any, env: dict[str, str]) -> str:
    address = _address(str(tokens[at].attrGet("href") or ""), env, "blob")
    if address is None:
        return "<a>"
    outside = "" if address.startswith(("/", "#")) else ' rel="nofollow noopener noreferrer"'
    return f'<a href="{html.escape(address)}"{outside}>'


def _image(self: Any, tokens: Sequence[Token], at: int, options: Any, env: dict[str, str]) -> str:
    address, label = _address(str(tokens[at].attrGet("src") or ""), env, "resolve"), html.escape(tokens[at].content)
    if address is None or not address.startswith("/"):  # nobody else learns who reads a card
        return label
    return f'<img src="{html.escape(address)}" alt="{label}">'


def _address(given: str, env: dict[str, str], verb: str) -> str | None:
    """Where a link leads: a file of the repository, a place on the page, or an http address; None for all else."""
    if given.startswith("#"):
        return "#" + quote(unquote(given[1:]))
    try:
        parts = urlsplit(given)
    except ValueError:
        return None
    if parts.scheme in ("http", "https") and parts.netloc:
        return given
    path = posixpath.normpath(unquote(parts.path)) if parts.path else ""
    if parts.scheme or parts.netloc or not path or path.startswith(("/", "..")):
        return None
    return f"{env['repository']}/{verb}/{quote(env['revision'], safe='')}/{quote(path)}"
