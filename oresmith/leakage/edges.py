"""Edges between problems: why two of them are one, kept in columns beside the table whose rows they join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from oresmith.leakage.table import I64, KeyTable, hex_of
from oresmith.records import Record


class EdgeKind(StrEnum):
    """Why two problems are joined."""

    QUERY = "query"
    """Equal whole query."""
    BASE = "base"
    """Equal query without voucher text."""
    TOKENS = "tokens"
    """Equal token set of the query without voucher text."""
    GOLD = "gold"
    """A gold product in common."""
    SPEC = "spec"
    """Equal reward specification with enough constraints."""
    WORDING = "wording"
    """Near token sets (`neardup`)."""
    GIVEN = "given"
    """A pair that the caller found by other means, such as sentence embeddings."""
    EARLIER = "earlier"
    """Together in the clusters that were extended."""


KINDS = tuple(EdgeKind)
KEY_KINDS = (EdgeKind.QUERY, EdgeKind.BASE, EdgeKind.TOKENS, EdgeKind.SPEC)
"""Kinds whose value is the key of that column."""


class Edge(Record, frozen=True):
    """Two problems, by name, and what joins them: a key, a gold product id, or a similarity."""

    a: str
    b: str
    kind: EdgeKind
    value: str


class Glue(Record, frozen=True):
    """What holds a cluster together: a kind and value ("" for near wordings), and how many of its edges have them."""

    kind: EdgeKind
    value: str
    edges: int
    example: tuple[str, str]
    """Two problems that it joins, by name."""


@dataclass(frozen=True)
class Links:
    """Edges as columns of row numbers."""

    a: I64
    b: I64
    kind: NDArray[np.uint8]
    """Place in `KINDS`."""
    place: I64
    """Gold: position among the table's gold keys. Wording and given: similarity in millionths. Else 0."""

    @staticmethod
    def of(kind: EdgeKind, a: I64, b: I64, place: I64 | None = None) -> Links:
        """Edges of one kind."""
        kinds = np.full(len(a), KINDS.index(kind), dtype=np.uint8)
        return Links(a, b, kinds, np.zeros(len(a), dtype=np.int64) if place is None else place)

    @staticmethod
    def concat(parts: Sequence[Links]) -> Links:
        """All edges, one part after the other."""
        return Links(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("a", "b", "kind", "place")))

    def where(self, wanted: NDArray[np.bool_]) -> Links:
        """The edges of a mask."""
        return Links(self.a[wanted], self.b[wanted], self.kind[wanted], self.place[wanted])

    def described(self, table: KeyTable) -> Iterator[tuple[int, int, EdgeKind, str]]:
        """Rows, kind and value of each edge."""
        columns = zip(self.a.tolist(), self.b.tolist(), self.kind.tolist(), self.place.tolist(), strict=True)
        for a, b, number, place in columns:
            kind = KINDS[number]
            if kind in KEY_KINDS:
                value = hex_of(table.keys[kind.value][b : b + 1])[0]
            elif kind is EdgeKind.GOLD:
                value = str(table.gold_ids[place])
            elif kind is EdgeKind.EARLIER:
                value = hex_of(table.keys["problem"][a : a + 1])[0]
            else:
                value = f"{place / 1e6:.4f}"
            yield a, b, kind, value

    def glue(self, table: KeyTable, most: int = 10) -> tuple[Glue, ...]:
        """What these edges consist of, the most frequent first."""
        counts: Counter[tuple[EdgeKind, str]] = Counter()
        example: dict[tuple[EdgeKind, str], list[int]] = {}
        for a, b, kind, value in self.described(table):
            glue = (kind, "" if kind is EdgeKind.WORDING else value)
            counts[glue] += 1
            example.setdefault(glue, [a, b])
        strongest = sorted(counts.items(), key=lambda item: (-item[1], KINDS.index(item[0][0]), item[0][1]))[:most]
        found: list[Glue] = []
        for (kind, value), count in strongest:
            first, second = hex_of(table.keys["problem"][example[kind, value]])
            found.append(Glue(kind=kind, value=value, edges=count, example=(first, second)))
        return tuple(found)
