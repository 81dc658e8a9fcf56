"""The embedded world: a function of seed and size, of families whose near-twins differ in one thing."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.arena.documents import SERVICES, Document, Reading, read_documents
from oresmith.arena.world import MAX_DOCUMENTS, Family, documents, families
from oresmith.arena.world.families import LEAST_TWINS, MOST_TWINS, Member
from oresmith.arena.world.names import Names
from oresmith.errors import OresmithError
from tests.arena.real import SN15, needs_shared, rows

SIZE = 4000
DIGEST = "e4e27fc1319e1992"
"""Of the first 200 products of seed 7."""
SEEDS = st.integers(0, 999_999)


@cache
def world(seed: int = 1) -> tuple[Family, ...]:
    return tuple(families(seed, SIZE))


def products(seed: int = 1) -> list[Document]:
    return [member.document for family in world(seed) for member in family.members]


def twins(family: Family) -> list[Member]:
    return [member for member in family.members if member.role == "twin"]


def differences(one: Document, other: Document) -> dict[str, int]:
    """How many things differ, facet by facet; titles, texts, sold counts and ids are each listing's own."""

    def unequal(a: dict[str, Any], b: dict[str, Any]) -> int:
        return sum(a.get(key) != b.get(key) for key in a.keys() | b.keys())

    found = {
        "attribute": unequal(one.attributes, other.attributes),
        "sku": unequal(one.sku_options, other.sku_options),
        "service": len(set(one.service) ^ set(other.service)),
        "price": int(one.price != other.price),
        "shop": int(one.shop_id != other.shop_id),
        "brand": int(one.brand != other.brand),
        "category": int(one.category != other.category),
    }
    return {facet: count for facet, count in found.items() if count}


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(-(2**70), 2**70), sizes=st.tuples(st.integers(0, 300), st.integers(0, 300)))
def test_a_smaller_world_is_the_beginning_of_a_larger_one(seed: int, sizes: tuple[int, int]) -> None:
    small, large = (list(documents(seed, size)) for size in sorted(sizes))
    assert [len(small), len(large)] == sorted(sizes)
    assert large[: len(small)] == small


def test_a_world_stays_the_same_from_version_to_version() -> None:
    digest = hashlib.sha256(b"".join(msgspec.json.encode(document) for document in documents(7, 200))).hexdigest()
    assert digest[:16] == DIGEST, "a change of the world changes every snapshot made of it: change DIGEST too"


def test_documents_are_the_members_of_the_families_in_order() -> None:
    assert list(documents(1, SIZE)) == products()[:SIZE]
    assert sum(len(family.members) for family in world()[:-1]) < SIZE <= len(products())


def test_products_are_made_when_they_are_asked_for() -> None:
    assert len(list(itertools.islice(documents(1, MAX_DOCUMENTS), 20))) == 20


@pytest.mark.parametrize("size", [-1, MAX_DOCUMENTS + 1])
def test_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(OresmithError, match="no such size"):
        documents(1, size)


@settings(max_examples=25, deadline=None)
@given(seeds=st.tuples(SEEDS, SEEDS).filter(lambda pair: pair[0] != pair[1]))
def test_worlds_of_two_seeds_share_no_product_id(seeds: tuple[int, int]) -> None:
    one, other = ({document.product_id for document in documents(seed, 200)} for seed in seeds)
    assert not one & other


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(SEEDS, st.integers(0, MAX_DOCUMENTS - 1)), unique=True, max_size=20))
def test_a_product_id_stands_for_one_seed_and_one_number(places: list[tuple[int, int]]) -> None:
    ids = [Names(seed).product_id(number) for seed, number in places]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[1-9]\d{12}", product_id) for product_id in ids)


def test_ids_of_a_seed_are_all_different() -> None:
    names = Names(5)
    assert len({names.product_id(number) for number in range(100_000)}) == 100_000
    shops = [names.shop_id(number) for number in range(50_000)] + [names.flagship_id(n) for n in range(50_000)]
    assert len(set(shops)) == 100_000
    assert all(re.fullmatch(r"[1-9]\d{7}", shop) for shop in shops)


def test_a_number_beyond_the_largest_world_has_no_id() -> None:
    with pytest.raises(OresmithError, match="no such product"):
        Names(5).product_id(MAX_DOCUMENTS)


def test_worlds_of_two_seeds_share_hardly_a_brand() -> None:
    one, other = ({document.brand for document in products(seed)} - {""} for seed in (1, 2))
    assert min(len(one), len(other)) > 200
    assert len(one & other) <= 3


def test_a_twin_differs_from_another_in_exactly_one_thing() -> None:
    facets: Counter[str] = Counter()
    for family in world():
        for member in twins(family):
            if member.parent is None:
                continue
            assert member.facet is not None
            beside = family.members[member.parent]
            assert beside.role == "twin"
            assert differences(member.document, beside.document) == {member.facet: 1}
            facets[member.facet] += 1
    assert set(facets) == {"attribute", "sku", "service", "price", "shop"}
    assert min(facets.values()) > 0.05 * facets.total()


def test_twins_hang_together_and_no_two_are_alike() -> None:
    for family in world():
        members = twins(family)
        assert LEAST_TWINS <= len(members) <= MOST_TWINS
        assert list(family.members[: len(members)]) == members, "the twins come first"
        reached = {place for place, member in enumerate(members) if member.parent is None}
        assert len(reached) == 1
        for _ in members:
            reached |= {place for place, member in enumerate(members) if member.parent in reached}
        assert len(reached) == len(members)
        for one, other in itertools.combinations(members, 2):
            assert differences(one.document, other.document)


def test_accessories_and_lookalikes_carry_the_words_of_the_line_and_are_something_else() -> None:
    found = Counter(member.role for family in world() for member in family.members)
    assert min(found["accessory"], found["lookalike"]) > len(world()) * 0.4
    for family in world():
        for member in family.members:
            assert family.line.model in member.document.title
            if member.role == "accessory":
                assert member.document.category.endswith("> Parts & Accessories")
                assert member.document.price < min(family.line.prices)
            elif member.role == "lookalike":
                assert member.document.brand != family.line.brand


def test_a_line_is_sold_by_several_shops_and_a_shop_sells_several_lines() -> None:
    sellers = [{member.document.shop_id for member in family.members} for family in world()]
    assert sum(len(shops) >= 2 for shops in sellers) > 0.6 * len(sellers)
    lines: Counter[str] = Counter(shop for shops in sellers for shop in shops)
    assert sum(count >= 4 for count in lines.values()) > 0.25 * len(lines)
    apart = 0
    for family in world():
        asked: dict[str, set[float]] = {}
        for member in twins(family):
            asked.setdefault(member.document.shop_id, set()).add(member.document.price)
        apart += len({frozenset(prices) for prices in asked.values()}) >= 2
    assert apart > 0.3 * len(world())


def test_many_titles_do_not_tell_twins_apart() -> None:
    told = silent = 0
    for family in world():
        for member in twins(family):
            if member.facet != "attribute" or member.parent is None:
                continue
            beside = family.members[member.parent].document.attributes
            [(value, other)] = [(v[0], beside[k][0]) for k, v in member.document.attributes.items() if v != beside[k]]
            title = member.document.title.lower()
            told, silent = told + 1, silent + (value not in title or other in title)
    assert 0.5 < silent / told < 0.98


def test_every_document_is_as_the_schema_says() -> None:
    for document in products():
        assert document.title.strip() == document.title
        assert 8 <= len(document.title) <= 400
        assert "  " not in document.title
        assert math.isfinite(document.price) and document.price >= 1
        assert document.sold_count >= 1
        assert document.service == [service for service in SERVICES if service in document.service]
        assert 1 <= len(document.attributes) <= 9
        for key, values in document.attributes.items():
            assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", key)
            assert values and len(set(values)) == len(values) and all(values)
        assert list(document.sku_options) == [str(number) for number in range(1, len(document.sku_options) + 1)]
        options = [tuple(option.items()) for option in document.sku_options.values()]
        assert len(set(options)) == len(options) and all(options)
        assert document.attributes.get("brand", [""]) == [document.brand.lower()]
        assert document.short_description or document.description


def test_texts_hold_no_control_characters() -> None:
    assert all(character.isprintable() for document in products() for character in _text(document))


def test_descriptions_mention_the_facts() -> None:
    for document in products():
        told = f"{document.short_description} {document.description}"
        assert all(value in told for values in document.attributes.values() for value in values)


def test_every_document_is_read_back_from_a_catalogue(tmp_path: Path) -> None:
    path, reading = tmp_path / "catalogue.jsonl", Reading()
    path.write_bytes(b"".join(msgspec.json.encode(document) + b"\n" for document in products()))
    assert list(read_documents(path, reading=reading)) == products()
    assert not reading.rejected


@needs_shared
def test_no_brand_of_the_world_is_one_of_the_real_catalogue() -> None:
    real = {str(row["brand"]).lower() for row in rows(SN15 / "catalogue.jsonl.gz")} - {""}
    assert len(real) > 100
    assert not real & {document.brand.lower() for document in products()}


def _text(document: Document) -> str:
    return json.dumps(msgspec.to_builtins(document), ensure_ascii=False)
