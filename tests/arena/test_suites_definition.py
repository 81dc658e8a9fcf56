"""The definition of a suite is read strictly: what is wrong is named by file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from oresmith.arena.suites import LEVELS, base_path, read_definition
from oresmith.errors import OresmithError
from tests.code_deps import ROOT

GOOD: dict[str, Any] = {
    "suite": "small",
    "version": 3,
    "counts": {"product": {"L1": 2}, "voucher": {"L2": 1}},
    "opens": "2026-06-01",
    "rotates": "2026-06-08",
    "variants": {"order": 1},
}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in (GOOD | changes).items() if value is not None}))
    return path


def test_a_definition_says_what_it_holds(tmp_path: Path) -> None:
    definition = read_definition(written(tmp_path))
    assert definition.cells() == [("product", "L1", 2), ("voucher", "L2", 1)]
    assert (definition.size, definition.pool, definition.version) == (4, None, 3)
    assert base_path(tmp_path / "suite.yaml", definition) is None


def test_another_suite_is_found_beside_the_definition(tmp_path: Path) -> None:
    path = written(tmp_path, variants_of="other.yaml")
    assert base_path(path, read_definition(path)) == tmp_path / "other.yaml"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"suit": "typo"}, "suit"),
        ({"suite": "../up"}, "suite"),
        ({"suite": None}, "suite"),
        ({"version": 0}, "version"),
        ({"version": "1"}, "version"),
        ({"schema": "oresmith.suite/2"}, "schema"),
        ({"counts": {"product": {"L6": 1}}}, "counts.product"),
        ({"counts": {"products": {"L1": 1}}}, "counts"),
        ({"counts": {"product": {"L1": -1}}}, "counts.product.L1"),
        ({"counts": {"shop": {"L3": 10**9}}}, "counts.shop.L3"),
        ({"counts": {"shop": {"L3": 15_000, "L4": 15_000}}}, "counts"),
        ({"counts": {}}, "variants"),
        ({"counts": {}, "variants": {}}, "counts"),
        ({"variants": {"mirror": 1}}, "variants"),
        ({"variants": {"order": 1.5}}, "variants.order"),
        ({"pool": "never-touch"}, "pool"),
        ({"opens": "01.06.2026"}, "opens"),
        ({"opens": "2026-02-30"}, "opens"),
        ({"suite": "open\n"}, "suite"),
        ({"rotates": "2026-06-01"}, "rotates"),
        ({"variants_of": "../other.yaml"}, "variants_of"),
        ({"voucher_needed": 1.1}, "voucher_needed"),
    ],
)
def test_a_fault_is_named_by_file_and_key(tmp_path: Path, changes: dict[str, Any], key: str) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(OresmithError) as refusal:
        read_definition(path)
    assert str(path) in refusal.value.where
    assert key in f"{refusal.value.where} {refusal.value.got}"


@pytest.mark.parametrize("text", ["", "- a list", "suite: [", "suite: a\nsuite: b", "a: " + "[" * 1200])
def test_what_is_no_such_yaml_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    with pytest.raises(OresmithError, match="suite"):
        read_definition(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="cannot be read"):
        read_definition(tmp_path / "none.yaml")


def test_a_suite_is_no_variant_of_itself(tmp_path: Path) -> None:
    path = written(tmp_path, variants_of="suite.yaml")
    with pytest.raises(OresmithError, match="variants_of"):
        base_path(path, read_definition(path))


def test_the_suites_that_come_with_the_project_are_read_and_belong_together() -> None:
    folder = ROOT / "snapshots" / "arena"
    first, second = read_definition(folder / "open-1.yaml"), read_definition(folder / "hidden-1.yaml")
    assert first.pool is None and second.pool == "heldout"
    assert base_path(folder / "hidden-1.yaml", second) == folder / "open-1.yaml"
    assert {level for _, level, _ in first.cells()} == set(LEVELS)
