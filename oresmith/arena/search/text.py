"""What of a product is searched, and the words that stand in it: one analyser for documents and queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oresmith.arena.documents import Document
from oresmith.errors import OresmithError

if TYPE_CHECKING:
    import tantivy

FIELDS = (
    "title",
    "sku_options",
    "attributes",
    "brand",
    "category",
    "short_description",
    "description",
    "specification",
)
"""What may be indexed. Of `sku_options` and `attributes` the values count, each once, and never the keys."""
DEFAULT_FIELDS = ("title", "sku_options", "attributes")
"""The fields that ShoppingBench's own index is made of; which ones ORO's holds is not published."""

ANALYSER = "simple/40, lower case, English stop words, English stemmer"
"""Names the analyser in a manifest: words are runs of letters and digits under 40 bytes; it changes with the code."""


def contents(document: Document, fields: Sequence[str] = DEFAULT_FIELDS) -> str:
    """The searched text of a product: its fields in the order of `FIELDS`, one a line, indexed as one text.

    One text and not one field each: BM25 then weighs a word by the whole product, as ShoppingBench's index does.
    """
    return "\n".join(_text(document, field) for field in FIELDS if field in fields)


def check_fields(fields: Iterable[str]) -> tuple[str, ...]:
    """The fields in the order of `FIELDS`.

    Raises:
        OresmithError: none at all, or one that a product has not.
    """
    asked = set(fields)
    if not asked or not asked <= set(FIELDS):
        unknown = ", ".join(sorted(asked - set(FIELDS)))
        raise OresmithError("fields to index", expected=f"some of {', '.join(FIELDS)}", got=unknown[:200] or "none")
    return tuple(field for field in FIELDS if field in asked)


def make_analyser() -> tantivy.TextAnalyzer:
    """The analyser that `ANALYSER` names."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(40)).filter(Filter.lowercase())
    return builder.filter(Filter.stopword("english")).filter(Filter.stemmer("english")).build()


def _text(document: Document, field: str) -> str:
    if field == "sku_options":
        return " ".join(dict.fromkeys(value for sku in document.sku_options.values() for value in sku.values()))
    if field == "attributes":
        return " ".join(dict.fromkeys(value for values in document.attributes.values() for value in values))
    text: str = getattr(document, field)
    return text
