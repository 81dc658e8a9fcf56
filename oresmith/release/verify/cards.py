"""Every number of the cards follows from the published file that it names (`oresmith.release.cards.check`)."""

from __future__ import annotations

from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.opened import Opened


def check(opened: Opened) -> Findings:
    """See the module."""
    from oresmith.release.cards.check import check_cards

    found = check_cards(opened.root)
    for wrong in found.wrong:
        yield Finding(wrong.what, wrong.card, item=wrong.where)
    return f"{found.numbers:,} numbers of {', '.join(found.cards)}"
