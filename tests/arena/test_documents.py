"""A catalogue of documents is read line by line; what is no product is counted and named, never fatal."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from oresmith.arena.documents import Document, Reading, read_documents
from oresmith.errors import OresmithError

GOOD: dict[str, Any] = {"product_id": "1", "shop_id": "2", "title": "mug", "price": 5}
FULL = GOOD | {
    "brand": "b",
    "category": "c > d",
    "short_description": "s",
    "description": "l",
    "specification": "p",
    "sold_count": 3,
    "service": ["COD"],
    "sku_options": {"1": {"color": "red"}},
    "attributes": {"material": ["steel", "cork"]},
    "main_image_url": "i",
    "product_url": "u",
}


def written(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_every_field_is_read_and_what_is_left_out_is_empty(tmp_path: Path) -> None:
    full, bare = read_documents(written(tmp_path / "c.jsonl", FULL, GOOD | {"product_id": "9", "unknown": 1}))
    assert full == Document(**(FULL | {"price": 5.0}))
    assert bare == Document(product_id="9", shop_id="2", title="mug", price=5.0)
    assert (bare.brand, bare.sold_count, bare.service, bare.sku_options, bare.attributes) == ("", 0, [], {}, {})


def test_a_product_inside_an_indexing_document_is_read(tmp_path: Path) -> None:
    wrapped = {"id": "1", "contents": "mug", "product": FULL}
    assert list(read_documents(written(tmp_path / "c.jsonl", wrapped))) == [Document(**FULL)]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_plain_and_packed_files_are_one(tmp_path: Path, suffix: str) -> None:
    pack = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.zst": zstandard.ZstdCompressor().compress}[suffix]
    (tmp_path / f"c{suffix}").write_bytes(pack(json.dumps(FULL).encode() + b"\n"))
    assert list(read_documents(tmp_path / f"c{suffix}")) == [Document(**FULL)]


BAD: dict[str, tuple[Any, str]] = {
    "text": ("nonsense", "not_a_product"),
    "half": ('{"product_id": "1"', "not_a_product"),
    "list": ([1], "not_a_product"),
    "null": (None, "not_a_product"),
    "deep": ("[" * 200 + "]" * 200, "not_a_product"),
    "no id": ({"shop_id": "2", "title": "t", "price": 1}, "not_a_product"),
    "number as id": (GOOD | {"product_id": 1}, "not_a_product"),
    "empty id": (GOOD | {"product_id": ""}, "not_a_product"),
    "comma in id": (GOOD | {"product_id": "1,2"}, "not_a_product"),
    "line end in id": (GOOD | {"product_id": "1\n"}, "not_a_product"),
    "long id": (GOOD | {"product_id": "1" * 129}, "not_a_product"),
    "empty shop": (GOOD | {"shop_id": ""}, "not_a_product"),
    "half surrogate": (GOOD | {"title": "\ud800"}, "not_a_product"),
    "two keys": ('{"product_id": "1", "product_id": "2", "shop_id": "1", "title": "", "price": 1}', "not_a_product"),
    "price as text": (GOOD | {"price": "5"}, "not_a_product"),
    "truth as price": (GOOD | {"price": True}, "not_a_product"),
    "no price": (GOOD | {"price": None}, "not_a_product"),
    "negative price": (GOOD | {"price": -1}, "bad_price"),
    "price beyond all": (GOOD | {"price": 1e12}, "bad_price"),
    "sold beyond 64 bits": (GOOD | {"sold_count": 2**63}, "not_a_product"),
    "service": (GOOD | {"service": "COD"}, "not_a_product"),
    "options": (GOOD | {"sku_options": {"1": {"size": 4}}}, "not_a_product"),
    "attributes": (GOOD | {"attributes": {"size": "4"}}, "not_a_product"),
    "same id": (FULL | {"product_id": "0"}, "duplicate_id"),
    "wrapped nothing": ({"product": {}}, "not_a_product"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_line_that_is_no_product_is_counted_with_its_place_and_passed_over(tmp_path: Path, kind: str) -> None:
    line, reason = BAD[kind]
    path = written(tmp_path / "c.jsonl", GOOD | {"product_id": "0"}, line, GOOD | {"product_id": "last"})
    reading = Reading()
    assert [one.product_id for one in read_documents(path, reading=reading)] == ["0", "last"]
    assert (reading.kept, dict(reading.rejected), reading.places) == (2, {reason: 1}, {reason: [f"{path}:2"]})


def test_an_id_of_an_earlier_file_is_a_duplicate_and_only_the_first_places_are_kept(tmp_path: Path) -> None:
    one = written(tmp_path / "a.jsonl", GOOD)
    two = written(tmp_path / "b.jsonl", *[GOOD] * 7, GOOD | {"product_id": "2"})
    reading = Reading()
    assert [document.product_id for document in read_documents(one, two, reading=reading)] == ["1", "2"]
    assert dict(reading.rejected) == {"duplicate_id": 7}
    assert reading.places == {"duplicate_id": [f"{two}:{number}" for number in range(1, 6)]}


@pytest.mark.parametrize("lines", [(), ("", " "), (GOOD | {"price": -1},)])
def test_a_file_without_a_product_is_refused_by_name(tmp_path: Path, lines: tuple[Any, ...]) -> None:
    good, path = written(tmp_path / "a.jsonl", GOOD), written(tmp_path / "c.jsonl", *lines)
    with pytest.raises(OresmithError, match=r"c\.jsonl: holds no product"):
        list(read_documents(good, path))


def test_a_stream_that_is_cut_off_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(FULL).encode() * 50)[:-9])
    with pytest.raises(OresmithError, match="cut off"):
        list(read_documents(path))
    with pytest.raises(OresmithError):
        list(read_documents(tmp_path / "nothing.jsonl"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*FULL, "product"]) | st.text(), inner),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.sampled_from([*FULL, "product"]), json_values), max_size=5))
def test_no_line_raises_and_every_line_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]]
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "c.jsonl", FULL | {"product_id": "sure"}, *lines)
    reading = Reading()
    assert sum(1 for _ in read_documents(path, reading=reading)) == reading.kept
    assert reading.kept + sum(reading.rejected.values()) == len(lines) + 1
