"""The catalogue: product documents by id, as far as the scorer needs them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from oresmith.arena.textio import decode_row, read_lines, told
from oresmith.errors import OresmithError
from oresmith.lines.decoding import BadJsonError


class Product(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One product document (sn15 form), without the fields that no score depends on.

    UNSET means that the document lacks the field. Values are kept as they are: one of a wrong shape is the scorer's
    matter, which answers with ScoreError for the trace that meets it, so that it cannot bar the whole catalogue.
    """

    product_id: str
    shop_id: Any = msgspec.UNSET
    """A string."""
    title: Any = msgspec.UNSET
    """A string."""
    price: Any = msgspec.UNSET
    """A number, in the currency of the problems (PHP)."""
    service: Any = msgspec.UNSET
    """List of official, freeShipping, COD, flashsale."""
    sku_options: Any = msgspec.UNSET
    """`{"1": {key: value}}`."""
    attributes: Any = msgspec.UNSET
    """`{key: [values]}`."""


class Catalogue(dict[str, Product]):
    """Products by id."""

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Return those of `ids` that the catalogue does not hold, sorted, each once."""
        return sorted(set(ids) - self.keys())


class _Id(msgspec.Struct):
    product_id: str


_ID = msgspec.json.Decoder(_Id)


def load_catalogue(*paths: str | Path, only: Collection[str] | None = None) -> Catalogue:
    """Read product documents from JSONL files, plain, gzip or zstd, one line at a time.

    Args:
        paths: the files.
        only: ids to keep; every line is read and checked for being JSON, but memory is needed for these alone, and
            these alone are held to what all parsers read alike. None keeps all.

    Errors: OresmithError naming file and line for a line that is no JSON object with a `product_id` string, for an
    id that stands twice with different content, for a file without lines, and for a stream that is cut off.
    """
    wanted = None if only is None else frozenset(only)
    catalogue = Catalogue()
    for path in map(Path, paths):
        number = 0
        for number, line in read_lines(path):
            try:
                if wanted is not None and _ID.decode(line).product_id not in wanted:
                    continue
                product = msgspec.convert(decode_row(line), Product)
            except (BadJsonError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise OresmithError(
                    "not a product document",
                    where=f"{path}:{number}",
                    expected="a JSON object with a string `product_id`",
                    got=told(error),
                ) from error
            if catalogue.setdefault(product.product_id, product) != product:
                raise OresmithError(
                    "a product id stands twice with different content",
                    where=f"{path}:{number}",
                    got=product.product_id[:80],
                    todo="remove one of the two documents: which one a score would use is not decided",
                )
        if number == 0:
            raise OresmithError("holds no product document", where=str(path))
    return catalogue
