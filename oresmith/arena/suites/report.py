"""Figures of a suite, and what two suites have in common."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from oresmith.arena.documents import product_of
from oresmith.arena.suites.levels import LEVELS
from oresmith.arena.suites.plan import SuiteProblem
from oresmith.arena.suites.probe import POLICIES
from oresmith.arena.suites.vouchers import needs


def report_of(problems: Sequence[SuiteProblem], searches: int) -> dict[str, Any]:
    """Figures of a suite, JSON-ready.

    Returns:
        `counts` by category, level and variant; `baselines`: by level, and under "category/level", the mean probability
        of success of each policy without judgement; `shape` by level: medians of constraints per reward, of the gold's
        rank in the reference query and of near misses, and the share of problems with another product that meets the
        specification; `voucher_needed`: share of voucher problems whose gold basket needs the voucher; `searches`:
        calls of `find_product` that making it took.
    """
    cells: dict[str, list[SuiteProblem]] = defaultdict(list)
    for made in problems:
        cells[made.level].append(made)
        cells[f"{made.plan.category}/{made.level}"].append(made)
    levels = [level for level in LEVELS if level in cells]
    vouchers = [made.plan for made in problems if made.plan.voucher is not None]
    needed = [needs(plan.voucher, [product_of(wish.gold) for wish in plan.wishes]) for plan in vouchers if plan.voucher]
    return {
        "problems": len(problems),
        "clusters": len({made.cluster for made in problems}),
        "counts": {
            "category": _tally(made.plan.category for made in problems),
            "level": _tally(made.level for made in problems),
            "variant": _tally(made.variant for made in problems),
        },
        "baselines": {
            cell: {
                policy: round(statistics.fmean(made.shares[policy] for made in cells[cell]), 4) for policy in POLICIES
            }
            for cell in sorted(cells, key=lambda name: ("/" in name, name))
        },
        "shape": {level: _shape(cells[level]) for level in levels},
        "voucher_needed": round(statistics.fmean(needed), 4) if needed else None,
        "searches": searches,
    }


def collisions(first: Iterable[SuiteProblem], second: Iterable[SuiteProblem]) -> dict[str, list[str]]:
    """What two suites share: `golds` (product ids), `queries`, and `specifications` (problem ids of the first suite
    whose specification some problem of the second has), each sorted."""
    a, b = list(first), list(second)
    specifications = {made.plan.specification() for made in b}
    golds, others = ({gold for made in part for gold in made.plan.golds()} for part in (a, b))
    return {
        "golds": sorted(golds & others),
        "queries": sorted({str(made.problem.query) for made in a} & {str(made.problem.query) for made in b}),
        "specifications": sorted(made.problem_id for made in a if made.plan.specification() in specifications),
    }


def _tally(values: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for value in values:
        found[value] += 1
    return dict(sorted(found.items()))


def _shape(problems: Sequence[SuiteProblem]) -> dict[str, float]:
    wishes = [wish for made in problems for wish in made.plan.wishes]
    standings = [standing for made in problems for standing in made.standings]
    return {
        "constraints": statistics.median(len(wish.constraints) for wish in wishes),
        "rank": statistics.median(standing.rank for standing in standings),
        "near_misses": statistics.median(standing.near for standing in standings),
        "twinned": round(statistics.fmean(all(one.twins for one in made.standings) for made in problems), 4),
    }
