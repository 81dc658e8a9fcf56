"""What a suite shall hold: a small YAML file, versioned, read strictly."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from oresmith.arena.suites.levels import LEVELS
from oresmith.errors import OresmithError
from oresmith.yamlfile import READ_FAULTS, read_yaml

CATEGORIES = ("product", "shop", "voucher")
VARIANTS = ("paraphrase", "order", "voucher_wording", "gold", "same_specification")
MAX_PROBLEMS = 20_000
"""Of one suite, bases and variants together."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_PROBLEMS)]
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")]
_Date = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}\Z")]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base: an unknown key is a fault, because it is a misspelt one."""


class LevelCounts(_Strict, frozen=True):
    """Base problems by level."""

    L1: _Count = 0
    L2: _Count = 0
    L3: _Count = 0
    L4: _Count = 0
    L5: _Count = 0


class Counts(_Strict, frozen=True):
    """Base problems by category and level."""

    product: LevelCounts = LevelCounts()
    shop: LevelCounts = LevelCounts()
    voucher: LevelCounts = LevelCounts()


class VariantCounts(_Strict, frozen=True):
    """Variants by kind, on top of the base problems."""

    paraphrase: _Count = 0
    order: _Count = 0
    voucher_wording: _Count = 0
    gold: _Count = 0
    same_specification: _Count = 0


class SuiteDefinition(_Strict, frozen=True):
    """One version of one suite. Another content is another version: problem ids carry both."""

    suite: _Name
    version: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    counts: Counts
    schema: Literal["oresmith.suite/1"] = "oresmith.suite/1"
    pool: Literal["train", "dev", "heldout"] | None = None
    """Pool that the suite's owner wishes for; None leaves it to the split."""
    opens: _Date | None = None
    """First day on which the suite is played, YYYY-MM-DD."""
    rotates: _Date | None = None
    """First day on which it is not played any more."""
    variants: VariantCounts = VariantCounts()
    variants_of: _Name | None = None
    """File name of another definition beside this one, whose base problems are the sources of the variants (planted
    leaks); None takes this suite's own."""
    voucher_needed: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.9
    """Least share of the voucher problems whose gold basket fits the budget by the voucher alone."""

    twinned: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.3
    """Share of the product problems that are made so that another product meets their specification too: variants of
    kind same_specification come from these. As they are easier to guess, small cells may hold fewer."""

    def count(self, category: str, level: str) -> int:
        """Base problems of a cell."""
        return int(getattr(getattr(self.counts, category), level))

    def cells(self) -> list[tuple[str, str, int]]:
        """(category, level, count) of every cell that holds something."""
        found = [(category, level, self.count(category, level)) for category in CATEGORIES for level in LEVELS]
        return [cell for cell in found if cell[2]]

    def variant_count(self, kind: str) -> int:
        """Variants of a kind."""
        return int(getattr(self.variants, kind))

    @property
    def size(self) -> int:
        """Problems in all, variants included."""
        return sum(cell[2] for cell in self.cells()) + sum(map(self.variant_count, VARIANTS))


def read_definition(path: Path) -> SuiteDefinition:
    """Read a suite's definition.

    Args:
        path: a YAML file of the fields of `SuiteDefinition`.

    Raises:
        OresmithError: naming the file and the key, for a file that cannot be read, an unknown, missing or mistyped
            key, a value out of its bounds, dates in the wrong order, and a suite without problems.
    """
    try:
        raw = read_yaml(path)
    except READ_FAULTS as error:
        raise OresmithError(
            "the suite's definition cannot be read", where=str(path), expected="a YAML file", got=_told(error)
        ) from error
    return definition_of(raw, str(path))


def definition_of(raw: Any, where: str) -> SuiteDefinition:
    """The definition that a YAML value states; `where` names its file. Raises as `read_definition`."""
    try:
        definition = msgspec.convert(raw, SuiteDefinition)
    except (msgspec.ValidationError, RecursionError) as error:
        key = re.search(r" - at `\$\.?([^`]*)`", str(error))
        raise OresmithError(
            "the suite's definition is wrong",
            where=f"{where}: {key[1]}" if key and key[1] else where,
            got=str(error)[:200],
            todo="see docs/arena.md for the keys and their bounds",
        ) from error
    _check_dates(definition, where)
    if not 0 < definition.size <= MAX_PROBLEMS:
        raise OresmithError(
            "the suite's size is out of bounds",
            where=f"{where}: counts",
            expected=f"1 to {MAX_PROBLEMS} problems, variants included",
            got=str(definition.size),
        )
    if definition.variants_of is None and definition.size and not definition.cells():
        raise OresmithError(
            "variants need base problems",
            where=f"{where}: variants",
            todo="give counts, or name another suite in variants_of",
        )
    return definition


def base_path(path: Path, definition: SuiteDefinition) -> Path | None:
    """The file of the suite whose variants are wanted, beside `path`; None where the suite's own are meant.

    Raises:
        OresmithError: the suite names itself.
    """
    if definition.variants_of is None:
        return None
    if definition.variants_of == path.name:
        raise OresmithError("a suite cannot name itself", where=f"{path}: variants_of", todo="leave the key out")
    return path.parent / definition.variants_of


def _check_dates(definition: SuiteDefinition, where: str) -> None:
    dates: dict[str, datetime.date] = {}
    for key in ("opens", "rotates"):
        value = getattr(definition, key)
        if value is None:
            continue
        try:
            dates[key] = datetime.date.fromisoformat(value)
        except ValueError as error:
            raise OresmithError("no such day", where=f"{where}: {key}", expected="YYYY-MM-DD", got=value) from error
    if len(dates) == 2 and dates["rotates"] <= dates["opens"]:
        raise OresmithError(
            "the suite rotates before it opens",
            where=f"{where}: rotates",
            expected=f"a day after {definition.opens}",
            got=str(definition.rotates),
        )


def _told(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
