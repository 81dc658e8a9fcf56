import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from oresmith.arena.catalogue import Catalogue, load_catalogue
from oresmith.errors import OresmithError
from tests.arena.build import product

DOCUMENTS: list[dict[str, Any]] = [
    {"product_id": str(number), "shop_id": "s", "title": "Mug", "price": 5.0, "brand": "not kept"}
    for number in range(20)
]


def lines(documents: list[Any]) -> bytes:
    return b"".join(msgspec.json.encode(document) + b"\n" for document in documents)


def packed(name: str, *parts: bytes) -> bytes:
    """Each part a gzip member or zstd frame of its own."""
    pack = gzip.compress if name.endswith(".gz") else zstandard.ZstdCompressor().compress
    return b"".join(pack(part) for part in parts) if name.endswith((".gz", ".zst")) else b"".join(parts)


NAMES = ["catalogue.jsonl", "catalogue.jsonl.gz", "catalogue.jsonl.zst"]


@pytest.mark.parametrize("name", NAMES)
def test_documents_are_read_whole_from_every_packing_and_several_frames(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(packed(name, lines(DOCUMENTS[:7]), lines(DOCUMENTS[7:])))
    catalogue = load_catalogue(path)
    assert list(catalogue) == [document["product_id"] for document in DOCUMENTS]
    assert (catalogue["3"].title, catalogue["3"].price) == ("Mug", 5.0)
    assert catalogue["3"].service is msgspec.UNSET, "the document lacks it"


def test_only_the_ids_asked_for_are_kept_and_the_missing_ones_named(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.jsonl"
    path.write_bytes(lines(DOCUMENTS))
    catalogue = load_catalogue(path, only={"3", "5", "none"})
    assert sorted(catalogue) == ["3", "5"]
    assert catalogue.missing(["none", "3", "also", "none"]) == ["also", "none"]
    assert load_catalogue(path, only=[]) == {}


def test_missing_names_nothing_where_all_is_there() -> None:
    assert Catalogue({"a": product("a")}).missing(["a"]) == []


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_stream_cut_off_anywhere_is_an_error_and_never_a_shorter_catalogue(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    first, second = packed(name, lines(DOCUMENTS[:10])), packed(name, lines(DOCUMENTS[10:]))
    whole = first + second
    for cut in range(len(whole)):
        if cut == len(first):  # a complete file of its own
            continue
        path.write_bytes(whole[:cut])
        with pytest.raises(OresmithError, match=name):
            load_catalogue(path, only=["none"])


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_damaged_stream_is_an_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    whole = packed(name, lines(DOCUMENTS))
    for bad in (whole + b"garbage", whole[:40] + b"\xff" * 8 + whole[48:]):
        path.write_bytes(bad)
        with pytest.raises(OresmithError, match=name):
            load_catalogue(path)


@pytest.mark.parametrize(
    "bad",
    [b"{", b"[]", b"null", b"{}", b'{"product_id": 5}', b'{"product_id": "\xff"}', b'{"product_id": "1"', b"[" * 5000],
)
@pytest.mark.parametrize("only", [None, ["none"]])
def test_a_bad_line_is_refused_naming_file_and_line(bad: bytes, only: list[str] | None, tmp_path: Path) -> None:
    path = tmp_path / "catalogue.jsonl"
    path.write_bytes(lines(DOCUMENTS[:2]) + b"\n" + bad + b"\n" + lines(DOCUMENTS[2:]))
    with pytest.raises(OresmithError, match=r"catalogue\.jsonl:4: not a product document"):
        load_catalogue(path, only=only)


def test_an_id_may_stand_twice_with_the_same_content_and_not_with_another(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.jsonl"
    path.write_bytes(lines([DOCUMENTS[0], DOCUMENTS[0]]))
    assert len(load_catalogue(path, path)) == 1
    path.write_bytes(lines([DOCUMENTS[0], DOCUMENTS[0] | {"price": 6.0}]))
    with pytest.raises(OresmithError, match=r"catalogue\.jsonl:2: .*twice"):
        load_catalogue(path)


def test_a_missing_or_empty_file_is_refused(tmp_path: Path) -> None:
    for name in NAMES:
        with pytest.raises(OresmithError, match=name):
            load_catalogue(tmp_path / name)
        (tmp_path / name).write_bytes(packed(name, b""))
        with pytest.raises(OresmithError, match=name):
            load_catalogue(tmp_path / name)


def test_values_of_wrong_shapes_are_kept_for_the_scorer_to_judge(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.jsonl"
    path.write_bytes(lines([{"product_id": "1", "price": "5", "service": None, "sku_options": []}]))
    kept = load_catalogue(path)["1"]
    assert (kept.price, kept.service, kept.sku_options) == ("5", None, [])
