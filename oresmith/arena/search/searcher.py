"""`find_product` and its kin over an index: the filters of the first 10,000 hits at the price of the few that pass."""

from __future__ import annotations

import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from oresmith.arena.documents import Document
from oresmith.arena.search import index as indexing
from oresmith.arena.search.query import KEPT, PAGE_SIZE, SORTS, Wanted, page_number, plain, query_text
from oresmith.arena.search.text import DEFAULT_FIELDS, make_analyser
from oresmith.errors import OresmithError

if TYPE_CHECKING:
    import tantivy

    Hits = list[tuple[float, tantivy.DocAddress]]

DEPTH = 10_000
"""Hits of the bare query that the filters see."""
_GLANCE = 500
"""Hits that are looked at first: a filter that lets many pass has its 50 among them."""
_TERMS = 128
"""Different words of a query; those after them are not searched for."""
_IDS = 100
"""Products of one look; those after them are not shown."""
_IDS_CHARACTERS = 16_384
_INFORMATION = ("product_id", "short_description", "description", "sku_options", "attributes")


class Searcher:
    """A catalogue behind its search: implements `oresmith.arena.documents.Shop`.

    Relevance is BM25 (k1 1.2, b 0.75) of the words of the query, a repeated one counting as often as it stands there;
    the order of the words does not matter. Hits of equal score come in the order of the catalogue. One object may serve
    several threads; a forked process opens its own.
    """

    def __init__(self, directory: Path, *, depth: int, glance: int) -> None:
        from tantivy import Index

        self.manifest = indexing.read_manifest(directory)
        try:
            opened = Index.open(str(directory))
            opened.register_tokenizer(indexing.TOKENIZER, make_analyser())
            opened.config_reader("manual")
            self._tantivy, self._schema = opened.searcher(), opened.schema
        except (ValueError, OSError) as error:
            raise OresmithError("the index cannot be opened", where=str(directory), got=str(error)[:200]) from error
        if self._tantivy.num_docs != self.manifest.documents:
            raise OresmithError("the index is not whole", where=str(directory), todo="build the index again")
        self.depth, self._glance = depth, min(depth, glance)
        self._analyser = make_analyser()
        self._cut = lru_cache(maxsize=4096)(self._find_cut)
        self._remove: Callable[[], object] = lambda: None

    @classmethod
    def open(cls, directory: str | Path, *, depth: int = DEPTH, glance: int = _GLANCE) -> Searcher:
        """Open an index that `build_index` made.

        Args:
            directory: the index; nothing in it changes, but tantivy takes a lock there: it must be writable.
            depth: how many hits of the bare query the filters see (at least 1); a part of the semantics.
            glance: how many are looked at before the filters go to the engine; changes the cost of a call alone.

        Raises:
            OresmithError: no index, a damaged one, and one of another schema.
        """
        if depth < 1 or glance < 1:
            raise OresmithError("depth and glance", expected="at least 1", got=f"{depth}, {glance}")
        return cls(Path(directory), depth=depth, glance=glance)

    def find_product(
        self,
        q: Any,
        *,
        page: Any = 1,
        shop_id: Any = None,
        price: Any = None,
        sort: Any = None,
        service: Any = None,
    ) -> list[dict[str, Any]]:
        """One page of at most 10 hits of the 50 that are kept; parameters of any type, read as `query` says.

        Returns:
            Objects of `product_id, shop_id, title, price, service, sold_count`; [] for an empty query, a page that is
            not 1 to 5, and where nothing passes.
        """
        number, terms = page_number(page), self.terms(q)
        if number is None or not terms:
            return []
        kept = self._sorted(self._kept(terms, Wanted.read(shop_id, price, service)), plain(sort))
        chosen = kept[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        return [_hit(indexing.document_at(self._tantivy, address)) for address in chosen]

    def view_product_information(self, product_ids: Any) -> list[dict[str, Any]]:
        """Details of the products of a comma list, in its order, unknown ones left out; at most the first 100 ids."""
        asked = plain(product_ids, _IDS_CHARACTERS).split(",")[:_IDS]
        found = [self.get(product_id.strip()) for product_id in asked]
        return [{name: getattr(one, name) for name in _INFORMATION} for one in found if one]

    def get(self, product_id: str) -> Document | None:
        """The whole document of an id, None where there is none."""
        address = self._address(product_id)
        return None if address is None else indexing.document_at(self._tantivy, address)

    def rank(self, q: str, product_id: str) -> int | None:
        """Place from 0 of a product among the first `depth` hits of the bare query; None where it is not there."""
        address, terms = self._address(product_id), self.terms(q)
        if address is None or not terms:
            return None
        hits = self._tantivy.search(self._query(terms), self.depth, count=False).hits
        return next((place for place, (_, hit) in enumerate(hits) if hit.doc == address.doc), None)

    def terms(self, q: Any) -> tuple[tuple[str, int], ...]:
        """The words that a query searches for, in order of the alphabet, and how often each stands in it."""
        counts = Counter(self._analyser.analyze(query_text(q)))
        # The alphabet: a sum of single-precision scores depends on its order, and that of the words should not matter.
        return tuple(sorted(list(counts.items())[:_TERMS]))

    def at(self, place: int) -> Document:
        """The document at a place of the catalogue, from 0.

        Raises:
            IndexError: there is none.
        """
        from tantivy import DocAddress

        if not 0 <= place < len(self):
            raise IndexError(place)
        return indexing.document_at(self._tantivy, DocAddress(0, place))

    def documents(self) -> Iterator[Document]:
        """All documents, in the order of the catalogue."""
        return map(self.at, range(len(self)))

    def __len__(self) -> int:
        return self.manifest.documents

    def close(self) -> None:
        """Let go of the index, and remove it where it was a temporary one; the object is of no use after that."""
        self._cut.cache_clear()
        for name in ("_tantivy", "_schema"):
            self.__dict__.pop(name, None)
        self._remove()

    def __enter__(self) -> Searcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _kept(self, terms: tuple[tuple[str, int], ...], wanted: Wanted) -> list[tantivy.DocAddress]:
        """The first `KEPT` of those among the first `depth` hits that pass, most relevant first."""
        query, search = self._query(terms), self._tantivy.search
        if not wanted:
            return [address for _, address in search(query, min(KEPT, self.depth), count=False).hits]
        if wanted.shop_id is None:  # a shop is so small a part that a glance hardly ever shows 50 of it
            seen = [address for _, address in search(query, self._glance, count=False).hits]
            passing = self._passing(seen, wanted)[:KEPT]
            if len(passing) == KEPT or len(seen) < self._glance or self._glance == self.depth:
                return passing
        hits: Hits = search(self._narrowed(query, wanted), KEPT, count=False).hits
        cut = self._cut(terms) if hits else None
        return [address for score, address in hits if cut is None or (-score, address.doc) <= cut]

    def _find_cut(self, terms: tuple[tuple[str, int], ...]) -> tuple[float, int] | None:
        """Negative score and number of the last hit within the depth; None where all hits are."""
        if sum(self._tantivy.doc_freq(indexing.TEXT, word) for word, _ in terms) <= self.depth:
            return None
        hits = self._tantivy.search(self._query(terms), 1, count=False, offset=self.depth - 1).hits
        return (-hits[0][0], hits[0][1].doc) if hits else None

    def _query(self, terms: tuple[tuple[str, int], ...]) -> tantivy.Query:
        from tantivy import Occur, Query

        queries = [Query.term_query(self._schema, indexing.TEXT, word, "freq") for word, _ in terms]
        weighed = [Query.boost_query(q, float(n)) if n > 1 else q for q, (_, n) in zip(queries, terms, strict=True)]
        return Query.boolean_query([(Occur.Should, q) for q in weighed])

    def _narrowed(self, query: tantivy.Query, wanted: Wanted) -> tantivy.Query:
        """The query within the filters, which add nothing to its scores."""
        from tantivy import FieldType, Occur, Query

        needed = [Query.term_query(self._schema, indexing.SERVICE, name, "basic") for name in wanted.services]
        if wanted.shop_id is not None:
            needed.append(Query.term_query(self._schema, indexing.SHOP, wanted.shop_id, "basic"))
        if wanted.low is not None or wanted.high is not None:
            needed.append(
                Query.range_query(self._schema, indexing.PRICE, FieldType.Float, wanted.low, wanted.high, True, True)
            )
        musts = [(Occur.Must, Query.const_score_query(one, 0.0)) for one in needed]
        return Query.boolean_query([*musts, (Occur.Must, query)])

    def _passing(self, addresses: list[tantivy.DocAddress], wanted: Wanted) -> list[tantivy.DocAddress]:
        """Those that pass the filters by price and service."""
        low = float("-inf") if wanted.low is None else wanted.low
        high = float("inf") if wanted.high is None else wanted.high
        bits = indexing.offers(wanted.services)
        prices = self._column(indexing.PRICE, addresses)
        offered = self._column(indexing.OFFERS, addresses)
        rows = zip(addresses, prices, offered, strict=True)
        return [address for address, price, offer in rows if low <= price <= high and int(offer) & bits == bits]

    def _sorted(self, addresses: list[tantivy.DocAddress], sort: str) -> list[tantivy.DocAddress]:
        """Sorted as asked; equal ones stay in the order of relevance."""
        if sort not in SORTS:
            return addresses
        values = self._column(indexing.SOLD if sort == "order" else indexing.PRICE, addresses)
        places = sorted(range(len(addresses)), key=values.__getitem__, reverse=sort != "priceasc")
        return [addresses[place] for place in places]

    def _column(self, name: str, addresses: list[tantivy.DocAddress]) -> Sequence[float]:
        values: Any = self._tantivy.fast_field_values(name, addresses)
        return values  # type: ignore[no-any-return]

    def _address(self, product_id: Any) -> tantivy.DocAddress | None:
        from tantivy import Query

        query = Query.term_query(self._schema, indexing.PRODUCT, plain(product_id), "basic")
        hits: Hits = self._tantivy.search(query, 1, count=False).hits
        return hits[0][1] if hits else None


def index_of(
    documents: Iterable[Document],
    directory: str | Path | None = None,
    *,
    fields: Sequence[str] = DEFAULT_FIELDS,
    depth: int = DEPTH,
) -> Searcher:
    """Build an index and open it, for small worlds; arguments and errors as in `build_index` and `Searcher.open`.

    Without a directory the index is a temporary one, removed with `close` or with the object.
    """
    if directory is not None:
        indexing.build_index(documents, directory, fields=fields)
        return Searcher.open(directory, depth=depth)
    home = Path(tempfile.mkdtemp(prefix="oresmith-index-"))
    try:
        searcher = index_of(documents, home / "index", fields=fields, depth=depth)
    except BaseException:
        indexing.remove(home)
        raise
    searcher._remove = weakref.finalize(searcher, indexing.remove, home)
    return searcher


def _hit(document: Document) -> dict[str, Any]:
    return {
        "product_id": document.product_id,
        "shop_id": document.shop_id,
        "title": document.title,
        "price": document.price,
        "service": document.service,
        "sold_count": document.sold_count,
    }
