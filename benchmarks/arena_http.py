"""Searches a second over HTTP: the arena's server in a process of its own, eight clients in another one.

Wall time here: the promise is a rate. Server and clients share the machine, so its load shows.
"""

from __future__ import annotations

import http.client
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote_plus, urlencode, urlsplit

from benchmarks.measure import ROOT, Section, Settings, SkippedError, verdict

CLIENTS = 8
PRODUCTS_A_ROW = 5
"""Products of the catalogue for each row asked for: 100,000 by default."""
TARGET = 150


def bench(settings: Settings) -> Section:
    """Measure searches with and without kept connections, and views."""
    index = catalogue(settings.home, settings.rows * PRODUCTS_A_ROW)
    paths = queries(index, max(200, settings.rows // 10))
    products = settings.rows * PRODUCTS_A_ROW
    section = Section(
        f"Arena over HTTP: {CLIENTS} clients, {products:,} products",
        ("request", "a second", "p50 ms", "p95 ms", "target"),
    )
    with served(index, settings.home) as url:
        in_parallel(url, paths["find_product"][:CLIENTS], keep=True)
        for name, keep in (("find_product", True), ("find_product", False), ("view_product_information", True)):
            rates, times = [], []
            for _ in range(settings.repeats):
                rate, spent = in_parallel(url, paths[name], keep)
                rates.append(rate)
                times += spent
            label = name if keep else f"{name}, a new connection each"
            cuts = statistics.quantiles(times, n=20)
            rate = statistics.median(rates)
            target = verdict(rate, TARGET) if name == "find_product" else ""
            section.rows.append((label, f"{rate:,.0f}", f"{cuts[9]:.1f}", f"{cuts[18]:.1f}", target))
            section.numbers[label] = {"per_second": rate, "p50_ms": cuts[9], "p95_ms": cuts[18]}
    section.numbers["products"], section.numbers["clients"] = products, CLIENTS
    section.notes.append("wall time; server (which logs and hashes each request) and clients share the machine's cores")
    return section


def catalogue(home: Path, products: int) -> Path:
    """The index of an embedded world, made once."""
    try:
        import tantivy  # noqa: F401

        from oresmith.arena.search import build_index
        from oresmith.arena.world import documents
    except ImportError as error:
        raise SkippedError(f"the extra `arena` is not installed ({error})") from error
    path = home / f"arena-index-{products}"
    if not path.exists():
        build_index(documents(1, products), path)
    return path


def queries(index: Path, count: int) -> dict[str, list[str]]:
    """URLs to ask for: words of titles, a third with filters; five products to look at."""
    from oresmith.arena.search import Searcher

    draw, found = random.Random("arena_http"), {"find_product": list[str](), "view_product_information": list[str]()}
    with Searcher.open(index) as shop:
        step = max(1, len(shop) // count)
        for number, document in enumerate(shop.documents()):
            if number % step:
                continue
            words = document.title.split()
            asked = {"q": quote_plus(" ".join(draw.sample(words, min(len(words), 4)))), "page": 1}
            if draw.random() < 1 / 3:
                asked |= {"price": f"{int(document.price * 0.8)}-{int(document.price * 1.3)}", "sort": "priceasc"}
            found["find_product"].append("/search/find_product?" + urlencode(asked))
            ids = [hit["product_id"] for hit in shop.find_product(document.title)[:5]]
            found["view_product_information"].append(
                "/search/view_product_information?" + urlencode({"product_ids": ",".join(ids)})
            )
    return found


def in_parallel(url: str, paths: list[str], keep: bool) -> tuple[float, list[float]]:
    """Ask for all paths with the clients; returns requests a second and the ms that each took."""
    where = urlsplit(url).netloc

    def client(own: list[str]) -> list[float]:
        spent, connection = [], http.client.HTTPConnection(where)
        for path in own:
            begin = time.perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200 and json.loads(answer.read()) is not None
            if not keep:
                connection.close()
            spent.append((time.perf_counter() - begin) * 1000)
        connection.close()
        return spent

    begin = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        spent = [one for own in pool.map(client, (paths[n::CLIENTS] for n in range(CLIENTS))) for one in own]
    return len(paths) / (time.perf_counter() - begin), spent


@contextmanager
def served(index: Path, home: Path) -> Iterator[str]:
    """A server over the index in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.arena_http", str(index), str(home / "arena-http-witness.jsonl")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            if not url:
                raise RuntimeError("the server did not start")
            yield url
        finally:
            server.terminate()


def _serve(index: str, log: str) -> None:
    from oresmith.arena.search import Searcher
    from oresmith.arena.server.config import ServeConfig
    from oresmith.arena.server.run import serve

    Path(log).unlink(missing_ok=True)
    with Searcher.open(index) as shop:
        serve(shop, ServeConfig(log=Path(log), port=0), ready=lambda url: print(url, flush=True))


if __name__ == "__main__":
    _serve(*sys.argv[1:3])
