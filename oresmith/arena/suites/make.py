"""Make a suite of a definition over any catalogue behind a search."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from oresmith.arena.documents import Document, Shop
from oresmith.arena.suites.bases import BaseMaker
from oresmith.arena.suites.check import check_suite
from oresmith.arena.suites.definition import VARIANTS, SuiteDefinition
from oresmith.arena.suites.plan import SuiteProblem
from oresmith.arena.suites.report import report_of
from oresmith.arena.suites.variants import VariantMaker
from oresmith.arena.suites.workshop import Workshop
from oresmith.errors import OresmithError

MOST_DOCUMENTS = 20_000
"""Products held while a suite is made; of a larger catalogue whole shops are drawn until as many are reached."""


@dataclass(frozen=True)
class Suite:
    """A suite as made: its definition, and its problems with the truth about them."""

    definition: SuiteDefinition
    seed: int
    problems: list[SuiteProblem]
    """Bases cell by cell, then variants kind by kind."""
    report: dict[str, Any]
    """See `report.report_of`."""


def make_suite(
    definition: SuiteDefinition,
    documents: Iterable[Document],
    shop: Shop,
    seed: int,
    *,
    base: Suite | None = None,
    avoid: Sequence[Suite] = (),
) -> Suite:
    """Make the suite that a definition describes.

    The same definition, seed and products give the same suite, whatever the order of the documents.

    Args:
        definition: what it shall hold.
        documents: the catalogue, with unique ids, read once.
        shop: a search over the same catalogue.
        seed: of everything drawn.
        base: the suite of `definition.variants_of`; its problems are the sources of the variants, and no base problem
            made here shares a gold product, a specification or near words with one of it.
        avoid: other suites that base problems must not share anything with.

    Raises:
        OresmithError: `variants_of` without `base` or the other way round, a catalogue without products, too poor a
            catalogue for the counts asked for, or (a fault of this module) a problem that its gold does not solve.
    """
    if (definition.variants_of is None) is not (base is None):
        raise OresmithError(
            "variants_of and the suite it names belong together",
            where=f"{definition.suite}: variants_of",
            got=f"variants_of {definition.variants_of}, and {'a' if base else 'no'} suite",
        )
    origin = f"{seed}/{definition.suite}/{definition.version}"
    chosen = _choose(documents, seed)
    planned = {(category, level): count for category, level, count in definition.cells()}
    workshop = Workshop(chosen, shop, origin, planned)
    for other in [*([base] if base else []), *avoid]:
        workshop.reserve(other.problems)
    bases = _bases(definition, workshop)
    sources = [made for made in (base.problems if base else bases) if made.variant == "base"]
    variants = VariantMaker(workshop, sources, shop.get)
    made = bases + [one for kind in VARIANTS for one in variants.make(kind, definition.variant_count(kind))]
    check_suite([one.problem for one in made], shop).require(definition.suite)
    return Suite(definition, seed, made, report_of(made, workshop.prober.searches))


def suite_jsonl(suite: Suite) -> bytes:
    """The problems in suite form, a line each: what `arena.problems.load_problems` reads, and no truth."""
    encoder = msgspec.json.Encoder()
    rows = [
        {
            "problem_id": made.problem.problem_id,
            "query": made.problem.query,
            "category": str(made.problem.category).capitalize(),
            "difficulty": made.problem.difficulty,
            "reward": made.problem.reward,
            "voucher": made.problem.voucher,
        }
        for made in suite.problems
    ]
    return b"".join(encoder.encode(row) + b"\n" for row in rows)


def truth_rows(suite: Suite) -> list[dict[str, Any]]:
    """What is true of each problem, in the order of the suite: rows of kind `problem` of a snapshot's truth file."""
    return [
        {
            "kind": "problem",
            "problem_id": made.problem_id,
            "cluster": made.cluster,
            "variant": made.variant,
            "level": made.level,
            "suite": suite.definition.suite,
            "pool": suite.definition.pool,
        }
        for made in suite.problems
    ]


def _bases(definition: SuiteDefinition, workshop: Workshop) -> list[SuiteProblem]:
    maker, made = BaseMaker(workshop), []
    vouchers = sum(count for category, _, count in definition.cells() if category == "voucher")
    spare = int(vouchers * (1 - definition.voucher_needed) + 1e-9)
    seen: Counter[str] = Counter()
    for category, level, count in definition.cells():
        for number in range(count):
            before, after = seen[category], seen[category] + 1
            # Those that need no voucher stand evenly among the others.
            needed = category != "voucher" or before * spare // vouchers == after * spare // vouchers
            # Beside its gold product a twin stands on the first page, which a cell's random choices must afford.
            owed = category == "product" and int(after * definition.twinned + 1e-9) > seen["twinned"]
            twinned = owed and workshop.quota.affords_twin((category, level))
            one = maker.make(category, level, number, voucher_needed=needed, twinned=twinned)
            seen[category] += 1
            seen["twinned"] += category == "product" and bool(one.standings[0].twins)
            made.append(one)
    return made


def _choose(documents: Iterable[Document], seed: int) -> list[Document]:
    """Whole shops in an order that the seed draws, until `MOST_DOCUMENTS` products; sorted by id."""

    @lru_cache(maxsize=1 << 20)
    def rank(shop: str) -> bytes:
        return hashlib.blake2b(f"{seed}/{shop}".encode("utf-8", "surrogatepass"), digest_size=8).digest()

    kept = heapq.nsmallest(
        MOST_DOCUMENTS, documents, key=lambda document: (rank(document.shop_id), document.shop_id, document.product_id)
    )
    if not kept:
        raise OresmithError("a suite needs a catalogue with products", where="documents", got="none")
    return sorted(kept, key=lambda document: document.product_id)
