"""Product documents as ShoppingBench writes them (sn15.md section 2), read line by line with every reject counted.

`catalogue.py` loads what the scorer needs of a few products; this is the whole document, of millions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec

from oresmith.arena.catalogue import Product
from oresmith.arena.textio import decode_row, read_lines
from oresmith.errors import OresmithError
from oresmith.lines.decoding import BadJsonError

Name = Annotated[str, msgspec.Meta(pattern=r"^[^\s,]{1,128}\Z")]
"""An id: calls carry several, comma between them."""
_Count = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

SERVICES = ("official", "freeShipping", "COD", "flashsale")


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One product document. What a line leaves out is empty; id, shop, title and price must stand."""

    product_id: Name
    shop_id: Name
    title: str
    price: float
    """In the currency of the problems (PHP)."""
    brand: str = ""
    category: str = ""
    """Path of the category tree, as in "Groceries > Tea"."""
    short_description: str = ""
    description: str = ""
    specification: str = ""
    sold_count: _Count = 0
    service: list[str] = []
    """Of `SERVICES`."""
    sku_options: dict[str, dict[str, str]] = {}
    """`{"1": {key: value}}`: the variants that one listing offers."""
    attributes: dict[str, list[str]] = {}
    main_image_url: str = ""
    product_url: str = ""


def product_of(document: Document) -> Product:
    """The part of a document that the scorer reads."""
    return Product(
        product_id=document.product_id,
        shop_id=document.shop_id,
        title=document.title,
        price=document.price,
        service=document.service,
        sku_options=document.sku_options,
        attributes=document.attributes,
    )


class Shop(Protocol):
    """What tools, miners and problem makers need of a catalogue behind a search."""

    def find_product(
        self,
        q: str,
        *,
        page: int = 1,
        shop_id: str | None = None,
        price: str | None = None,
        sort: str | None = None,
        service: str | None = None,
    ) -> list[dict[str, Any]]:
        """One page of hits, as `sn15.md` section 2 describes; [] where nothing can be searched. Never raises."""

    def view_product_information(self, product_ids: str) -> list[dict[str, Any]]:
        """The details of the products that exist, in the order asked for. Never raises."""

    def get(self, product_id: str) -> Document | None:
        """The whole document, for scorers and makers of problems alone; None where there is none."""


class Reading:
    """What became of the lines of a catalogue: kept, and rejected by reason with the first places."""

    KEPT_PLACES = 5

    def __init__(self) -> None:
        self.kept = 0
        self.rejected: Counter[str] = Counter()
        self.places: dict[str, list[str]] = {}

    def reject(self, reason: str, where: str) -> None:
        """Count one line."""
        self.rejected[reason] += 1
        places = self.places.setdefault(reason, [])
        if len(places) < self.KEPT_PLACES:
            places.append(where)


def read_documents(*paths: str | Path, reading: Reading | None = None) -> Iterator[Document]:
    """Yield the documents of JSONL files (plain, gzip, zstd); a line that is none is counted and passed over.

    A line is a product document, or an object that holds one as `product`, as ShoppingBench's own file does.

    Args:
        paths: the files, read in this order.
        reading: where the counts go; reasons are `not_a_product`, `bad_price` and `duplicate_id` (the first stands).

    Raises:
        OresmithError: a file that cannot be opened or whose stream is damaged, and one without any product.
    """
    reading = Reading() if reading is None else reading
    seen: set[int] = set()
    for path in map(Path, paths):
        before = reading.kept
        for number, line in read_lines(path):
            where = f"{path}:{number}"
            try:
                row = decode_row(line)
                held = row.get("product") if isinstance(row, dict) else None
                document = msgspec.convert(held if isinstance(held, dict) else row, Document)
            except (BadJsonError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
                reading.reject("not_a_product", where)
                continue
            if not 0 <= document.price < 1e12:
                reading.reject("bad_price", where)
                continue
            # Python's own hash of the text: 8 bytes an id instead of 60; the seed of a process changes nothing here.
            key = hash(document.product_id)
            if key in seen:
                reading.reject("duplicate_id", where)
                continue
            seen.add(key)
            reading.kept += 1
            yield document
        if reading.kept == before:
            raise OresmithError("holds no product document", where=str(path), todo="see docs/arena.md for the form")
