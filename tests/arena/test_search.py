"""What a search answers: what the slow reference answers, at any depth, for ties and twins too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.arena.documents import SERVICES, Document
from oresmith.arena.search import Searcher, build_index, index_of
from tests.arena.slow_search import SlowShop, kept_length

WORDS = ("red", "blue", "mug", "mugs", "kettle", "the", "eu:38", "1.5l", "café", "steel", "T-shirt", "mat")
SHOPS = ("1", "2", "77")
PRICES = (1.0, 9.99, 10.0, 10.01, 250.0)

words = st.lists(st.sampled_from(WORDS), max_size=5)
options = st.dictionaries(st.sampled_from(("color", "size")), st.sampled_from(WORDS), max_size=2)


@st.composite
def catalogues(draw: st.DrawFn) -> list[Document]:
    """20 to 200 products, most of them twins of one of a few: many tie."""
    kinds = draw(
        st.lists(
            st.builds(
                Document,
                product_id=st.just(""),
                shop_id=st.sampled_from(SHOPS),
                title=words.map(" ".join),
                price=st.sampled_from(PRICES),
                sold_count=st.integers(0, 3),
                service=st.lists(st.sampled_from(SERVICES), max_size=3, unique=True),
                sku_options=st.dictionaries(st.sampled_from("12"), options, max_size=2),
                attributes=st.dictionaries(st.just("material"), words, max_size=1),
            ),
            min_size=1,
            max_size=12,
        )
    )
    order = Random(draw(st.integers(0, 2**32))).choices(range(len(kinds)), k=draw(st.sampled_from((20, 90, 200))))
    return [
        msgspec.structs.replace(kinds[kind], product_id=f"p{place}", shop_id=SHOPS[place % 3])
        for place, kind in enumerate(order)
    ]


calls = st.fixed_dictionaries(
    {
        "q": st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
        "page": st.sampled_from((1, 1, 1, 1, 2, 3, 5, 6)),
        "shop_id": st.none() | st.sampled_from((*SHOPS, "3")),
        "price": st.none() | st.sampled_from(("-", "10-", "-10", "10-10", "9.99-10.01", "300-", "250-1")),
        "sort": st.none() | st.sampled_from(("priceasc", "pricedesc", "order", "default", "PRICEASC")),
        "service": st.none() | st.lists(st.sampled_from(SERVICES), min_size=1, max_size=2, unique=True).map(",".join),
    }
)


@settings(max_examples=20, deadline=None)
@given(catalogues(), st.integers(1, 200), st.sampled_from((1, 7, 60, 200)), st.lists(calls, min_size=30, max_size=30))
def test_every_page_is_that_of_the_slow_reference(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Document], depth: int, glance: int, asked: list[dict]
) -> None:
    home = tmp_path_factory.mktemp("search") / "index"
    build_index(documents, home)
    slow = SlowShop(documents, depth=depth)
    with Searcher.open(home, depth=depth, glance=glance) as shop:
        for call in asked:
            assert shop.find_product(**call) == slow.find_product(**call), call


@settings(max_examples=20, deadline=None)
@given(catalogues(), st.lists(st.sampled_from(WORDS), min_size=1, max_size=8))
def test_rank_and_scores_are_those_of_plain_bm25(documents: list[Document], query: list[str]) -> None:
    slow = SlowShop(documents)
    q = " ".join(query)
    with index_of(documents) as shop:
        hits = shop._tantivy.search(shop._query(shop.terms(q)), len(documents)).hits if shop.terms(q) else []
        ours = [(score, documents[address.doc].product_id) for score, address in hits]
        theirs = [(score, document.product_id) for score, document in slow.scores(q)]
        assert [one for _, one in ours] == [one for _, one in theirs]
        assert [score for score, _ in ours] == pytest.approx([score for score, _ in theirs], rel=1e-6)
        assert shop.terms(q) == shop.terms(" ".join(query[::-1]))
        assert [shop.rank(q, one) for _, one in theirs] == list(range(len(theirs)))


def test_lengths_of_texts_are_kept_as_a_byte() -> None:
    assert [kept_length(n) for n in (0, 7, 40, 41, 43, 58, 1000)] == [0, 7, 40, 40, 42, 56, 984]


def made(count: int, **common: Any) -> list[Document]:
    defaults: dict[str, Any] = {"shop_id": "1", "title": "red mug", "price": 5.0}
    return [Document(product_id=str(place), **(defaults | common)) for place in range(count)]


def ids(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["product_id"] for hit in hits]


def test_hits_of_one_score_come_in_the_order_of_the_catalogue() -> None:
    documents = made(30)[::-1]
    with index_of(documents) as shop:
        assert ids(shop.find_product("mug", page=2)) == [one.product_id for one in documents[10:20]]
        assert ids(shop.find_product("mug", sort="priceasc")) == [one.product_id for one in documents[:10]]


def test_a_hit_beyond_the_depth_is_not_found_even_by_a_filter_that_it_alone_passes() -> None:
    documents = [*made(10), *made(1, shop_id="2", service=["COD"], price=9.0)]
    documents[10] = msgspec.structs.replace(documents[10], product_id="last")
    for depth, found in ((10, []), (11, ["last"])):
        with index_of(documents, depth=depth) as shop:
            for filters in ({"shop_id": "2"}, {"price": "8-"}, {"service": "COD"}):
                assert ids(shop.find_product("mug", **filters)) == found
            assert shop.rank("mug", "last") == (10 if found else None)


def test_at_most_fifty_are_kept_before_they_are_sorted() -> None:
    documents = [
        msgspec.structs.replace(one, price=1000.0 - place, sold_count=place) for place, one in enumerate(made(80))
    ]
    with index_of(documents) as shop:
        assert ids(shop.find_product("mug", sort="priceasc"))[0] == "49"
        assert ids(shop.find_product("mug", sort="order"))[0] == "49"
        assert ids(shop.find_product("mug", sort="order", price="1-"))[0] == "49"
        assert len(shop.find_product("mug", page=5)) == 10
        assert shop.find_product("mug", page=6) == []


def test_a_repeated_word_weighs_more_and_the_order_of_words_does_not_matter() -> None:
    documents = [
        Document(product_id="a", shop_id="1", title="red cup", price=1.0),
        Document(product_id="b", shop_id="1", title="blue mug", price=1.0),
    ]
    with index_of(documents) as shop:
        assert ids(shop.find_product("red mug")) == ids(shop.find_product("mug red")) == ["a", "b"]
        assert ids(shop.find_product("red mug mug")) == ids(shop.find_product("mug red mug")) == ["b", "a"]


@pytest.mark.parametrize(
    "q", ["title:mug", 'shop_id:1 AND "mug"', "+mug", "(mug", "mug^2", "mug~", "-mug", "NOT mug\\"]
)
def test_query_syntax_is_text(q: str) -> None:
    with index_of(made(2)) as shop:
        assert ids(shop.find_product(q)) == ["0", "1"]


def test_threads_that_share_a_searcher_get_what_one_alone_gets() -> None:
    documents = [msgspec.structs.replace(one, title=f"red mug {place % 7}") for place, one in enumerate(made(400))]
    queries = [f"red mug {number}" for number in range(7)] * 8
    with index_of(documents, depth=90) as shop, ThreadPoolExecutor(4) as pool:
        alone = [shop.find_product(q, price="1-", sort="order") for q in queries]
        assert list(pool.map(lambda q: shop.find_product(q, price="1-", sort="order"), queries)) == alone


def test_fields_are_what_the_index_was_made_of() -> None:
    document = Document(
        product_id="1",
        shop_id="9",
        title="alpha",
        price=1.0,
        brand="bravo",
        category="charlie",
        sku_options={"1": {"delta": "echo"}},
        attributes={"foxtrot": ["golf", "hotel"]},
        description="india",
    )
    with index_of([document]) as shop:
        assert all(shop.find_product(word) for word in ("alpha", "echo", "golf hotel"))
        assert not any(shop.find_product(word) for word in ("bravo", "charlie", "delta", "foxtrot", "india", "9"))
    with index_of([document], fields=("brand", "description", "category")) as shop:
        assert all(shop.find_product(word) for word in ("bravo", "charlie", "india"))
        assert not shop.find_product("alpha")
        assert shop.manifest.fields == ["brand", "category", "description"]


def test_a_view_gives_what_exists_in_the_order_asked_for() -> None:
    document = Document(product_id="7", shop_id="9", title="t", price=1.0, description="long", attributes={"a": ["b"]})
    with index_of([*made(3), document]) as shop:
        seen = shop.view_product_information(" 7, nothing,0,7,")
        assert ids(seen) == ["7", "0", "7"]
        assert seen[0] == {
            "product_id": "7",
            "short_description": "",
            "description": "long",
            "sku_options": {},
            "attributes": {"a": ["b"]},
        }
        assert len(shop.view_product_information(",".join(["0"] * 500))) == 100
        assert shop.get("7") == document
        assert shop.get("8") is None
        assert list(shop.documents()) == [*made(3), document]
        assert len(shop) == 4


def test_an_empty_catalogue_answers_nothing(tmp_path: Path) -> None:
    with index_of([], tmp_path / "index") as shop:
        assert shop.find_product("mug", shop_id="1", price="1-") == []
        assert shop.get("1") is None
        assert list(shop.documents()) == []
