"""Building an index: one directory that holds the searched words and the documents, and says what it is.

The index is one segment in the order of the catalogue, whatever the machine: hits of equal score then come in that
order, and the same documents give the same answers everywhere. The directory appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from oresmith.arena.documents import SERVICES, Document
from oresmith.arena.search.text import ANALYSER, DEFAULT_FIELDS, check_fields, contents, make_analyser
from oresmith.errors import OresmithError

if TYPE_CHECKING:
    import tantivy

SCHEMA = "oresmith.index/1"
MANIFEST = "oresmith-index.json"
_ENGINE = "tantivy 0.27"
_TRIES = 5
_WRITER_BYTES = 4_000_000_000
"""Most that tantivy lets one thread hold before it would begin a second segment; only what is needed is taken."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an index says of itself; written last."""

    schema: str
    engine: str
    analyser: str
    fields: list[str]
    documents: int
    catalogue_sha256: str
    """Of the documents as JSON lines of ours, in their order: names the catalogue, wherever it was read from."""
    files: dict[str, int]
    """Name and bytes of every file of the index."""


def build_index(
    documents: Iterable[Document], directory: str | Path, *, fields: Sequence[str] = DEFAULT_FIELDS
) -> Manifest:
    """Index documents into a directory, which must not be there yet (an empty one may be).

    Args:
        documents: read once, not held; their order breaks ties between hits of equal score, the earlier first.
        directory: made with its parents; written beside itself and renamed when it is complete.
        fields: of `text.FIELDS`; their order does not matter.

    Returns:
        The manifest, as `MANIFEST` in the directory holds it.

    Raises:
        OresmithError: unknown fields, a directory in use or that cannot be written, two documents with one id, a
            document that its own type would not read again, and what the documents raise while being read.
    """
    directory, chosen = Path(directory), check_fields(fields)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise OresmithError("the index is there already", where=str(directory), todo="remove it or choose another")
    part = directory.parent / f".{directory.name}.{secrets.token_hex(4)}"
    try:
        part.mkdir(parents=True)
        manifest = _write(documents, part, chosen)
        (part / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        part.rename(directory)
    except OSError as error:
        raise OresmithError("the index cannot be written", where=str(directory), got=str(error)[:200]) from error
    finally:
        remove(part)
    return manifest


def remove(directory: Path) -> None:
    """Remove an index; tantivy's watcher of a file may put a lock back meanwhile, once."""
    for _ in range(_TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return


def read_manifest(directory: str | Path) -> Manifest:
    """The manifest of an index whose files are all there.

    Raises:
        OresmithError: no index, one of another schema, engine or analyser, and one with files missing or cut off.
    """
    path = Path(directory) / MANIFEST
    try:
        data = path.read_bytes()
        schema = msgspec.json.decode(data)["schema"]
    except (OSError, msgspec.DecodeError, TypeError, KeyError, RecursionError) as error:
        raise OresmithError("this is no index", where=str(path), got=str(error)[:200]) from error
    todo = "build the index again"
    if schema != SCHEMA:
        raise OresmithError("an index of another schema", where=str(path), expected=SCHEMA, got=repr(schema), todo=todo)
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.ValidationError as error:
        raise OresmithError("a damaged manifest", where=str(path), got=str(error)[:200], todo=todo) from error
    if (made := (manifest.engine, manifest.analyser)) != (ours := (_ENGINE, ANALYSER)):
        raise OresmithError("an index made otherwise", where=str(path), expected=str(ours), got=str(made), todo=todo)
    if manifest.files != (found := _files(path.parent)):
        wrong = sorted(name for name, _ in manifest.files.items() ^ found.items())
        raise OresmithError("the index is not whole", where=str(path.parent), got=", ".join(wrong)[:200], todo=todo)
    return manifest


def _write(documents: Iterable[Document], part: Path, fields: tuple[str, ...]) -> Manifest:
    import tantivy

    index = tantivy.Index(make_schema(), str(part))
    index.register_tokenizer(TOKENIZER, make_analyser())
    # One thread: documents keep their order, and the other core makes them meanwhile.
    writer = index.writer(_WRITER_BYTES, 1)
    digest, encode = hashlib.sha256(), msgspec.json.encode
    # Python's own hash of an id takes 8 bytes in place of 60; its seed matters to nothing, for equality alone counts.
    keys = array("q")
    for document in documents:
        try:
            data = encode(document)
            _DECODER.decode(data)  # what is not read back here would fail the call that finds it
            writer.add_document(_entry(document, contents(document, fields), data))
        except (UnicodeEncodeError, OverflowError, msgspec.ValidationError) as error:
            raise OresmithError("cannot be indexed", where=document.product_id, got=str(error)[:200]) from error
        digest.update(data + b"\n")
        keys.append(hash(document.product_id))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    if searcher.num_segments > 1 or searcher.num_docs != len(keys):
        raise OresmithError("the catalogue is too large for one segment", got=f"{len(keys)} documents")
    _refuse_twins(searcher, keys)
    del searcher, index, writer
    _name_segment(part, digest.hexdigest()[:32])
    return Manifest(
        schema=SCHEMA,
        engine=_ENGINE,
        analyser=ANALYSER,
        fields=list(fields),
        documents=len(keys),
        catalogue_sha256=digest.hexdigest(),
        files=_files(part),
    )


TOKENIZER = "oresmith"
TEXT, PRODUCT, SHOP, SERVICE, PRICE, SOLD, OFFERS, WHOLE = (
    "text product_id shop_id service price sold offers document".split()
)
"""Fields of the index: the searched words; three exact terms; three columns; and the document as JSON."""


def make_schema() -> tantivy.Schema:
    """The schema of every index, whatever fields of a product are searched."""
    from tantivy import SchemaBuilder

    builder = SchemaBuilder()
    builder.add_text_field(TEXT, tokenizer_name=TOKENIZER, index_option="freq")
    for name in (PRODUCT, SHOP, SERVICE):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_float_field(PRICE, fast=True)
    builder.add_integer_field(SOLD, fast=True)
    builder.add_unsigned_field(OFFERS, fast=True)
    builder.add_bytes_field(WHOLE, stored=True)
    return builder.build()


def offers(services: Iterable[str]) -> int:
    """Services as bits, the first of `SERVICES` the lowest; others are not filtered by."""
    return sum(1 << place for place, name in enumerate(SERVICES) if name in services)


def _entry(document: Document, text: str, data: bytes) -> tantivy.Document:
    import tantivy

    entry = tantivy.Document()
    entry.add_text(TEXT, text)
    entry.add_text(PRODUCT, document.product_id)
    entry.add_text(SHOP, document.shop_id)
    for name in document.service:
        entry.add_text(SERVICE, name)
    entry.add_float(PRICE, document.price)
    entry.add_integer(SOLD, document.sold_count)
    entry.add_unsigned(OFFERS, offers(document.service))
    entry.add_bytes(WHOLE, data)
    return entry


def _name_segment(part: Path, name: str) -> None:
    """Give the segment a name of ours: tantivy draws one, and the same documents should give the same bytes."""
    meta = part / "meta.json"
    held = msgspec.json.decode(meta.read_bytes())
    for segment in held["segments"]:
        drawn = segment["segment_id"].replace("-", "")
        segment["segment_id"] = str(UUID(name))
        for file in sorted(part.glob(f"{drawn}.*")):
            file.rename(part / f"{name}{file.suffix}")
    meta.write_bytes(msgspec.json.encode(held))
    managed = [file.name for file in part.iterdir() if not file.name.startswith(".")]
    (part / ".managed.json").write_bytes(msgspec.json.encode(sorted(managed)))


def _refuse_twins(searcher: tantivy.Searcher, keys: array[int]) -> None:
    import numpy as np
    from tantivy import DocAddress

    numbers = np.frombuffer(keys, dtype=np.int64)
    order = np.argsort(numbers, kind="stable")
    later = order[1:][numbers[order[1:]] == numbers[order[:-1]]]
    for place in map(int, later):
        document = document_at(searcher, DocAddress(0, place))
        if searcher.doc_freq(PRODUCT, document.product_id) > 1:
            raise OresmithError("two documents have one product id", where=document.product_id)


_DECODER = msgspec.json.Decoder(Document)


def document_at(searcher: tantivy.Searcher, address: tantivy.DocAddress) -> Document:
    """The document at an address of the index."""
    return _DECODER.decode(searcher.doc(address)[WHOLE][0])


def _files(directory: Path) -> dict[str, int]:
    """Names and sizes; hidden ones are tantivy's own locks, the manifest cannot hold itself."""
    paths = sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    return {path.name: path.stat().st_size for path in paths if path.name != MANIFEST}
