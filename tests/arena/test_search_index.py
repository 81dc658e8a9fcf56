"""An index says what it is, appears whole or not at all, and is refused by name where it is not what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oresmith.arena.documents import Document
from oresmith.arena.search import Searcher, build_index, read_manifest
from oresmith.arena.search.index import MANIFEST
from oresmith.errors import OresmithError


def made(count: int) -> list[Document]:
    return [Document(product_id=str(place), shop_id="1", title=f"mug {place}", price=5.0) for place in range(count)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    build_index(made(3), tmp_path / "index")
    return tmp_path / "index"


def test_the_manifest_names_catalogue_fields_and_files(home: Path) -> None:
    manifest = read_manifest(home)
    assert (manifest.documents, manifest.fields) == (3, ["title", "sku_options", "attributes"])
    assert {path.name for path in home.iterdir() if not path.name.startswith(".")} == {*manifest.files, MANIFEST}


def test_the_digest_is_that_of_the_documents_in_their_order(tmp_path: Path) -> None:
    def digest(name: str, documents: list[Document]) -> str:
        return build_index(documents, tmp_path / name).catalogue_sha256

    one = digest("a", made(3))
    assert one == digest("b", made(3))
    assert len({one, digest("c", made(3)[::-1]), digest("d", made(2)), digest("e", [])}) == 4


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[Document]:
        yield from made(2)
        raise OresmithError("the catalogue ends early")

    with pytest.raises(OresmithError, match="ends early"):
        build_index(broken(), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["title", "product_id"])
def test_text_that_no_file_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    bad = {"product_id": "x", "shop_id": "1", "title": "t", "price": 1.0} | {name: "\ud800"}
    with pytest.raises(OresmithError, match="cannot be indexed"):
        build_index([Document(**bad)], tmp_path / "index")


def test_two_documents_of_one_id_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="7: two documents have one product id"):
        build_index([*made(9), *made(8)[7:]], tmp_path / "index")


def test_a_directory_in_use_is_refused_and_an_empty_one_taken(tmp_path: Path, home: Path) -> None:
    with pytest.raises(OresmithError, match="there already"):
        build_index(made(1), home)
    assert read_manifest(home).documents == 3
    (tmp_path / "empty").mkdir()
    assert build_index(made(1), tmp_path / "empty").documents == 1
    (tmp_path / "file").touch()
    with pytest.raises(OresmithError, match="there already"):
        build_index(made(1), tmp_path / "file")
    with pytest.raises(OresmithError, match="cannot be written"):
        build_index(made(1), tmp_path / "file" / "index")


@pytest.mark.parametrize("fields", [(), ("titel",), ("title", "product_url")])
def test_unknown_fields_are_refused(tmp_path: Path, fields: tuple[str, ...]) -> None:
    with pytest.raises(OresmithError, match="fields to index"):
        build_index(made(1), tmp_path / "index", fields=fields)


def changed(home: Path, **new: object) -> None:
    path = home / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | new))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no index": (lambda home: (home / MANIFEST).unlink(), "this is no index"),
    "no JSON": (lambda home: (home / MANIFEST).write_text("{"), "this is no index"),
    "no object": (lambda home: (home / MANIFEST).write_text("[1]"), "this is no index"),
    "too deep": (lambda home: (home / MANIFEST).write_text("[" * 100_000), "this is no index"),
    "schema": (lambda home: changed(home, schema="oresmith.index/0"), "another schema"),
    "schema of a type": (lambda home: changed(home, schema=None), "another schema"),
    "engine": (lambda home: changed(home, engine="tantivy 9"), "made otherwise"),
    "analyser": (lambda home: changed(home, analyser="none"), "made otherwise"),
    "more": (lambda home: changed(home, extra=1), "damaged manifest"),
    "type": (lambda home: changed(home, documents="3"), "damaged manifest"),
    "count": (lambda home: changed(home, documents=4), "not whole"),
    "lost file": (lambda home: next(home.glob("*.store")).unlink(), "not whole"),
    "cut file": (lambda home: next(home.glob("*.idx")).write_bytes(b""), "not whole"),
    "added file": (lambda home: (home / "x").touch(), "not whole"),
    "nonsense": (lambda home: _same_size(home / "meta.json"), "cannot be opened"),
}


def _same_size(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_not_our_index_is_refused(home: Path, kind: str) -> None:
    damage, message = DAMAGE[kind]
    damage(home)
    with pytest.raises(OresmithError, match=message):
        Searcher.open(home)


def test_opening_writes_nothing(home: Path) -> None:
    before = {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in home.iterdir()}
    with Searcher.open(home) as shop:
        assert shop.find_product("mug", price="1-9")
    assert {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in home.iterdir()} == before


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"glance": 0}])
def test_a_depth_of_nothing_is_refused(home: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(OresmithError, match="depth and glance"):
        Searcher.open(home, **wrong)
