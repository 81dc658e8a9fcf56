"""Text as the keys see it: one folding for all of them, so that two spellings of one query cannot disagree.

Everything here is linear in the length of the text and total: any `str`, lone surrogates included, has a result.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
_APOSTROPHE = re.compile("['\u2018\u2019\u02bc](?<=\\w.)(?=\\w)")
_GROUPING = re.compile(r",(?<=\d,)(?=\d{3}(?!\d))")
_BETWEEN_DIGITS = re.compile(r" (?<=\d )(?=\d)")
_WORD = re.compile(r"\w+")
_ASCII_WORDS = bytes(code if code < 128 and chr(code).isalnum() else 32 for code in range(256))
"""What `_WORD` does on ASCII text, at a quarter of its cost."""

_FUNCTION_WORDS = """
    a an the this that these those it its is are be been am im ive id we us our you your yours i me my mine they
    them their and or also plus as well of for in on at to by with from which who whose what where there here than
    then so too do does did have has had would could should may might must shall please help kindly just some any
    looking look find finding show showing need needs want wants search searching seeking get getting buy buying
    purchase purchasing like interested hoping trying try ideally preferably
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words that carry no product: a query keeps its token set when they come and go.

Negations (no, not, without), comparisons (over, under, above, below, more, less), counts and nouns of any kind are left
out on purpose: dropping one of those changes what is asked for.
"""


def fold(text: str) -> str:
    """NFKC, full case folding, invisible characters and digit grouping gone, `_` read as a blank."""
    if text.isascii():
        folded = text.lower()
    else:
        visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
        folded = unicodedata.normalize("NFKC", visible.casefold())
    folded = folded.replace("_", " ")
    return _GROUPING.sub("", folded) if "," in folded else folded


def words(folded: str) -> list[str]:
    """The words of a folded text in order, apostrophes inside a word dropped ("men's" is "mens")."""
    if not folded.isascii():
        return _WORD.findall(_APOSTROPHE.sub("", folded))
    if "'" in folded:
        folded = _APOSTROPHE.sub("", folded)
    return folded.encode().translate(_ASCII_WORDS).decode().split()


def squeeze(found: list[str]) -> str:
    """The words of a text run together, with a single `_` between two digits.

    So "T-shirt", "t shirt" and "tshirt" are one text, while "1.5 l" and "15 l" are two.
    """
    return _BETWEEN_DIGITS.sub("_", " ".join(found)).replace(" ", "")


@lru_cache(maxsize=1 << 16)
def token(word: str) -> str:
    """The token of a word, "" for a function word. A plural s is folded, which never makes one noun of two."""
    if word in FUNCTION_WORDS:
        return ""
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word


def tokens(found: list[str]) -> frozenset[str]:
    """The order-free token set of a text's words: without function words and plural s."""
    return frozenset(map(token, found)) - {""}


def digest(kind: bytes, text: str) -> bytes:
    """sha256 of `kind`, NUL and `text` as UTF-8 (lone surrogates passed through)."""
    return hashlib.sha256(kind + b"\0" + text.encode("utf-8", "surrogatepass")).digest()
