"""The embedded world's catalogue: a believable shop world of any size from a seed, family by family."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from oresmith.arena.documents import Document
from oresmith.arena.world.families import Counter, Family, Member, draw_family
from oresmith.arena.world.names import MAX_DOCUMENTS, Names
from oresmith.arena.world.streets import FAMILIES_PER_STREET, street
from oresmith.errors import OresmithError

__all__ = ["MAX_DOCUMENTS", "Family", "Member", "documents", "families"]


def documents(seed: int, size: int) -> Iterator[Document]:
    """Yield the first `size` products of the world of this seed.

    A larger size continues a smaller one. Products of different seeds share no id (see `Names.product_id`), and memory
    does not grow with the size. What one product's lists and dicts hold may be shared with its twins: change none.

    Raises:
        OresmithError: a size that is negative or above `MAX_DOCUMENTS`.
    """
    if not 0 <= size <= MAX_DOCUMENTS:
        raise OresmithError(
            "no such size of an embedded world", expected=f"0 to {MAX_DOCUMENTS:,} products", got=str(size)[:40]
        )
    return islice((member.document for family in _endless(seed) for member in family.members), size)


def families(seed: int, size: int) -> Iterator[Family]:
    """Yield the whole families that `documents` takes its first `size` products from, in the same order."""
    count = 0
    for family in _endless(seed):
        if count >= size:
            return
        count += len(family.members)
        yield family


def _endless(seed: int) -> Iterator[Family]:
    names, at = Names(seed), Counter(0, 0, -1)
    while True:
        here = street(seed, at.family // FAMILIES_PER_STREET, names)
        for _ in range(FAMILIES_PER_STREET):
            family, at = draw_family(seed, at, here, names)
            yield family
