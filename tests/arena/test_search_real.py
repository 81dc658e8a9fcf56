"""On the real catalogue our search gives much of what the arena's own gave, which another BM25 made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote_plus

from oresmith.arena.documents import Reading, read_documents
from oresmith.arena.search import index_of
from tests.arena.real import SN15, needs_shared, rows


def logged_calls() -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Parameters and ids of every `find_product` that the sandbox logged for its reference agent."""
    for envelope in rows(SN15 / "traces_reference.jsonl.gz"):
        for step in envelope["dialogue"] or []:
            for call in step["extra_info"].get("proxy_calls") or []:
                if call["path"] == "/search/find_product":
                    parameters = call["params"] | {"q": unquote_plus(call["params"]["q"])}
                    hits = [hit["product_id"] for hit in call.get("response") or []]
                    yield parameters, call.get("result_product_ids") or hits


@needs_shared
def test_a_page_of_ours_shares_an_id_with_the_logged_one_in_at_least_95_of_100_calls(
    record_property: Callable[[str, object], None],
) -> None:
    reading = Reading()
    shares: Counter[str] = Counter()
    overlaps: Counter[int] = Counter()
    """Tenths of the logged page that ours holds, over the pages that hold anything."""
    with index_of(read_documents(SN15 / "catalogue.jsonl.gz", reading=reading)) as shop:
        for parameters, logged in logged_calls():
            ours = {hit["product_id"] for hit in shop.find_product(**parameters)}
            if logged:
                shares["shared" if ours & set(logged) else "disjoint"] += 1
                overlaps[10 * len(ours & set(logged)) // len(logged)] += 1
            else:
                shares["only ours" if ours else "both empty"] += 1
    record_property("shares", dict(shares))
    record_property("overlaps", dict(sorted(overlaps.items())))
    assert (reading.kept, dict(reading.rejected)) == (4818, {})
    assert sum(shares.values()) == 1228
    assert shares["shared"] >= 0.95 * (shares["shared"] + shares["disjoint"])
    assert shares["shared"] + shares["both empty"] >= 0.95 * sum(shares.values())
