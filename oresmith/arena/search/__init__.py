"""Search of a catalogue: BM25 in tantivy, on disk and memory-mapped, behind the tools' filters, caps and paging."""

from oresmith.arena.search.index import Manifest, build_index, read_manifest
from oresmith.arena.search.searcher import Searcher, index_of
from oresmith.arena.search.text import DEFAULT_FIELDS, FIELDS

__all__ = ["DEFAULT_FIELDS", "FIELDS", "Manifest", "Searcher", "build_index", "index_of", "read_manifest"]
