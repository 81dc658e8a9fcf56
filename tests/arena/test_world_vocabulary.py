"""The words of the embedded world."""

from __future__ import annotations

from pathlib import Path

import pytest

from oresmith.arena.world import families, vocabulary
from oresmith.arena.world.vocabulary import Category, categories
from oresmith.errors import OresmithError

EVERY = pytest.mark.parametrize("category", categories(), ids=lambda category: category.path)


def test_there_are_sixty_categories_over_several_departments() -> None:
    assert len({category.path for category in categories()}) == len(categories()) >= 60
    assert len({category.department for category in categories()}) >= 6
    assert [category.number for category in categories()] == list(range(len(categories())))


@EVERY
def test_a_category_has_a_vocabulary_of_its_own(category: Category) -> None:
    keys = [key for key, _ in category.attributes]
    assert 5 <= len(set(keys)) == len(keys) <= 8
    assert not set(keys) & {key for key, _ in category.options}
    assert not {"brand", "accessory_type", "compatible_line"} & set(keys)
    for _, values in (*category.attributes, *category.options):
        assert len(set(values)) == len(values) >= 2
        assert all(value and value == value.strip().lower() for value in values)
    own = set(keys) - {key for other in categories() if other is not category for key, _ in other.attributes}
    assert len(own) >= 4


@EVERY
def test_sellers_promise_nothing_that_is_a_value_of_an_attribute(category: Category) -> None:
    values = {value for _, values in category.attributes for value in values}
    assert not {word.lower() for word in category.words} & values
    assert len(category.words) == 8


@EVERY
def test_a_category_has_attributes_that_a_search_by_words_cannot_tell_apart(category: Category) -> None:
    stated = dict(category.attributes)
    assert category.lookalikes
    for one, other, shared in category.lookalikes:
        assert set(shared) <= set(stated[one]) & set(stated[other])


def test_every_category_has_its_turn() -> None:
    assert {family.line.category.path for family in families(3, 8000)} == {category.path for category in categories()}


@pytest.mark.parametrize(
    "damage", [b"{", b'{"department": "x"}', b"\xff", b'{"department":"x","audience":"","more":1}']
)
def test_a_damaged_vocabulary_is_refused_by_name(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kitchen.json").write_bytes(damage)
    monkeypatch.setattr(vocabulary, "FOLDER", tmp_path)
    with pytest.raises(OresmithError, match=r"kitchen\.json"):
        categories.__wrapped__()


def test_a_missing_vocabulary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "FOLDER", tmp_path)
    with pytest.raises(OresmithError, match="cannot be read"):
        categories.__wrapped__()
