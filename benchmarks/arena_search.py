"""Search of a large catalogue: building its index, the cost of a search by kind of filter, and ratios to two others.

Products are those of the embedded world, 50 for every envelope that `--rows` asks for (1,000,000 by default); bm25s and
a linear scan search a tenth of them, and are compared with an index of that tenth. Each step has a process of its own.
`python -m benchmarks.arena_search SIZE` measures building and searching at any other size.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Section, Settings, in_fresh_process, peak_memory, verdict
from oresmith.arena.documents import Document
from oresmith.arena.search import Searcher, build_index
from oresmith.arena.search.query import Wanted
from oresmith.arena.search.text import contents, make_analyser

SEED = 1
PRODUCTS_PER_ROW = 50
QUERIES = 400
"""Of each kind; a tenth for the comparisons, and 5 for the linear scan."""
DEPTH = 10_000

Call = dict[str, str]
FILTERS: dict[str, Callable[[Document], Call]] = {
    "no filter": lambda one: {},
    "shop": lambda one: {"shop_id": one.shop_id},
    "price": lambda one: {"price": f"{one.price * 0.8:.0f}-{one.price * 1.2:.0f}"},
    "service": lambda one: {"service": ",".join(one.service[:2])},
    "shop, price": lambda one: FILTERS["shop"](one) | FILTERS["price"](one),
    "price, service, sorted": lambda one: FILTERS["price"](one) | FILTERS["service"](one) | {"sort": "priceasc"},
}


def bench(settings: Settings) -> Section:
    """Build at full size, search it, and compare on a tenth."""
    size = settings.rows * PRODUCTS_PER_ROW
    title = f"Search of {size:,} products: CPU milliseconds of a call"
    section = Section(title, ("filter", "p50", "p95", "most", "target"))
    _measure(section, size, settings.home)
    _compare(section, size // 10, settings.home)
    return section


def _measure(section: Section, size: int, home: Path) -> None:
    where = home / f"arena-index-{size}"
    module = "benchmarks.arena_search"
    built = in_fresh_process(f"{module}:build", str(size), str(where), ready="oresmith.arena.world")
    spent = built["result"]
    section.numbers["build"] = spent | {"cpu": built["cpu"], "rss": built["rss"]}
    section.notes.append(
        f"built in {spent['wall']:.0f} s (target {verdict(spent['wall'], 480, at_least=False)}),"
        f" {spent['making']:.0f} s of them to make the products; CPU {built['cpu']:.0f} s,"
        f" peak {built['rss'] / 1e9:.2f} GB, {spent['bytes'] / 1e9:.2f} GB on disk"
    )
    searched = in_fresh_process(f"{module}:search", str(where), ready="tantivy")
    section.numbers["search"] = searched["result"] | {"rss": searched["rss"]}
    for kind, row in searched["result"].items():
        target = verdict(row["p95"], 15, at_least=False) if kind == "all" else ""
        section.rows.append((kind, *(f"{row[name]:.2f}" for name in ("p50", "p95", "most")), target))
    section.notes.append(
        f"wall p95 of all: {searched['result']['all']['wall_p95']:.2f} ms; peak {searched['rss'] / 1e9:.2f} GB"
        " with the pages of the mapped files"
    )


def _compare(section: Section, size: int, home: Path) -> None:
    where = home / f"arena-index-{size}"
    in_fresh_process("benchmarks.arena_search:build", str(size), str(where), ready="oresmith.arena.world")
    ratios = in_fresh_process("benchmarks.arena_search:others", str(where), ready="bm25s")["result"]
    section.numbers["ratios"] = ratios
    for kind, row in ratios.items():
        section.notes.append(
            f"{size:,} products, {kind}: {row['ours'] * 1e3:.2f} ms; bm25s takes {row['bm25s'] / row['ours']:.1f},"
            f" a linear scan {row['scan'] / row['ours']:.0f} times as long"
        )


def build(size: str, where: str) -> dict[str, float]:
    """Index the first `size` products of the world: seconds in all and to make them, bytes on disk."""
    from oresmith.arena.world import documents

    shutil.rmtree(where, ignore_errors=True)
    source, making = documents(SEED, int(size)), 0.0

    def made() -> Iterator[Document]:
        nonlocal making
        begin = time.thread_time()
        for document in source:
            making += time.thread_time() - begin
            yield document
            begin = time.thread_time()

    begin = time.perf_counter()
    manifest = build_index(made(), where)
    wall = time.perf_counter() - begin
    return {"wall": wall, "making": making, "bytes": float(sum(manifest.files.values()))}


def calls(shop: Searcher, kind: str, count: int) -> list[tuple[str, Call]]:
    """Queries of 2 to 6 words of a random product's title, with filters that the product itself passes."""
    rng = random.Random(f"{SEED}/{kind}")
    asked = []
    for place in sorted(rng.sample(range(len(shop)), min(count, len(shop)))):
        one = shop.at(place)
        words = one.title.split()
        asked.append((" ".join(rng.sample(words, min(len(words), rng.randint(2, 6)))), FILTERS[kind](one)))
    rng.shuffle(asked)
    return asked


def search(where: str) -> dict[str, dict[str, float]]:
    """Milliseconds of a call: for each kind of filter and for all calls together."""
    result, every = {}, np.empty((0, 2))
    with Searcher.open(where) as shop:
        for kind in FILTERS:
            asked = calls(shop, kind, QUERIES)
            spent = np.array([_timed(shop, q, filters) for q, filters in asked]) * 1e3
            every = np.concatenate([every, spent])
            result[kind] = _quantiles(spent)
    return result | {"all": _quantiles(every), "hostile": _quantiles(_hostile(where) * 1e3)}


def _timed(shop: Searcher, q: str, filters: Call) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.thread_time()
    shop.find_product(q, **filters)
    return time.thread_time() - cpu, time.perf_counter() - wall


def _quantiles(spent: np.ndarray[Any, Any]) -> dict[str, float]:
    p50, p95, most = (float(one) for one in np.quantile(spent[:, 0], (0.5, 0.95, 1.0)))
    return {"p50": p50, "p95": p95, "most": most, "wall_p95": float(np.quantile(spent[:, 1], 0.95))}


def _hostile(where: str) -> np.ndarray[Any, Any]:
    """Texts of whole pages of products as queries: as many different words as are searched for."""
    with Searcher.open(where) as shop:
        texts = [
            " ".join(contents(shop.at((place + more * 997) % len(shop))) for more in range(60)) for place in range(20)
        ]
        return np.array([_timed(shop, text, {"price": "100-120"}) for text in texts])


def others(where: str) -> dict[str, dict[str, float]]:
    """Mean CPU seconds of a search by us, by bm25s and by a linear scan, the last two with the filters in Python."""
    import bm25s

    analyse = make_analyser().analyze
    with Searcher.open(where) as shop:
        documents = list(shop.documents())
        tokens = [analyse(contents(document)) for document in documents]
        index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        index.index(tokens, show_progress=False)
        held = [frozenset(words) for words in tokens]

        def by_bm25s(q: str, filters: Call) -> object:
            known = [word for word in analyse(q) if word in index.vocab_dict]
            if not known:
                return []
            found = index.retrieve([known], k=min(DEPTH if filters else 50, len(documents)), show_progress=False)
            return _first(filters, (documents[place] for place in found.documents[0]))

        def by_scan(q: str, filters: Call) -> object:
            words = frozenset(analyse(q))
            scored = ((len(words & mine), place) for place, mine in enumerate(held))
            best = nlargest(DEPTH if filters else 50, (one for one in scored if one[0]))
            return _first(filters, (documents[place] for _, place in best))

        result = {}
        for kind in FILTERS:
            asked = calls(shop, kind, QUERIES // 10)
            result[kind] = {
                "ours": _mean(shop.find_product, asked),
                "bm25s": _mean(lambda q, **filters: by_bm25s(q, filters), asked),
                "scan": _mean(lambda q, **filters: by_scan(q, filters), asked[:5]),
            }
    return result


def _mean(one: Callable[..., object], asked: list[tuple[str, Call]]) -> float:
    begin = time.process_time()
    for q, filters in asked:
        one(q, **filters)
    return (time.process_time() - begin) / len(asked)


def _first(filters: Call, ranked: Iterator[Document]) -> list[Document]:
    wanted = Wanted.read(filters.get("shop_id"), filters.get("price"), filters.get("service"))
    low, high = wanted.low or 0.0, float("inf") if wanted.high is None else wanted.high
    passing = (
        one
        for one in ranked
        if (wanted.shop_id is None or one.shop_id == wanted.shop_id)
        and low <= one.price <= high
        and all(name in one.service for name in wanted.services)
    )
    return list(islice(passing, 50))


if __name__ == "__main__":
    table = Section("", ())
    home = Path(sys.argv[2]) if len(sys.argv) > 2 else Path.cwd() / "data"
    _measure(table, int(sys.argv[1]), home)
    print(*(" ".join(row) for row in table.rows), *table.notes, f"{peak_memory() / 1e9:.2f} GB here", sep="\n")
