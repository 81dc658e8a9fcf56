"""Plants leaks of known kinds into a copy of a training file, so that the recall of a check is measured, not claimed.

Imports nothing from `oresmith.leakage`: what a leak is must not be decided by the code that looks for it. `KEYED` are
kinds that a key covers. `FREE` are kinds that no key covers: what is found of those is found as near wording.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]

KEYED = ("case", "order", "whitespace", "voucher", "gold", "spec", "chain")
FREE = ("paraphrase", "translation", "units")
TRACED = ("case", "order", "whitespace", "voucher", "paraphrase", "translation", "units", "answer")
"""Kinds that a trace, which states no reward, can carry; `answer` recommends the gold product for another question."""


class Planted(NamedTuple):
    """A planted row, by its declared id."""

    row_id: str
    kind: str


def plant(
    heldout: Sequence[Row], train: Iterable[str], out: Path, kinds: Iterable[str], *, traces: bool = False
) -> list[Planted]:
    """Write a copy of a training file with leaks in it.

    Args:
        heldout: the held-out problems, as their file states them.
        train: lines of the training file.
        out: takes the copy, JSON lines in a seeded order.
        kinds: which to plant: one leak of each held-out problem that has what the kind needs.
        traces: plant trajectories (OpenAI messages) in place of problems.

    Returns:
        What was planted.
    """
    rng, lines, planted = random.Random(7), [line.rstrip("\n") for line in train], list[Planted]()
    for kind in kinds:
        for number, problem in enumerate(heldout):
            for place, row in enumerate(_leaks(problem, kind, rng)):
                row_id = f"planted-{kind}-{number}-{place}"
                lines.append(json.dumps(_trace(row, row_id) if traces else row | {"problem_id": row_id}))
                planted.append(Planted(row_id, kind))
    rng.shuffle(lines)
    out.write_text("\n".join(lines) + "\n", "utf-8")
    return planted


def recall(planted: Iterable[Planted], found: set[str]) -> dict[str, tuple[int, int]]:
    """Kind -> (found, planted), for the ids that a check told."""
    rows = list(planted)
    hits = Counter(row.kind for row in rows if row.row_id in found)
    return {kind: (hits[kind], count) for kind, count in Counter(row.kind for row in rows).items()}


def _leaks(problem: Row, kind: str, rng: random.Random) -> list[Row]:
    """Rows that share with a problem what the kind says, and nothing else."""
    base, voucher_text = _parts(problem["query"])
    if kind == "gold":
        return [_other(problem, rng) | {"reward": _golds(problem)}]
    if kind == "answer":
        return [_other(problem, rng) | {"answer": ",".join(item["product_id"] for item in _golds(problem))}]
    if kind == "spec":
        stated = [_reordered(item, rng) for item in _items(problem)]
        return [_other(problem, rng) | {"reward": stated[::-1]}] if _states_enough(stated) else []
    if kind == "chain":
        # The second shares a wording with the first, the first a gold product with the problem.
        middle = _other(problem, rng) | {"reward": _golds(problem)}
        return [middle, _reworded(problem, middle["query"].upper(), rng)]
    if kind == "voucher":
        return [_reworded(problem, base, rng, with_voucher=True)]
    query = _WORDINGS[kind](base, rng)
    return [] if query is None else [_reworded(problem, query + voucher_text, rng, voucher=problem.get("voucher"))]


def _reworded(problem: Row, query: str, rng: random.Random, *, voucher: Any = None, with_voucher: bool = False) -> Row:
    """The query put otherwise, with a gold product and a title of its own and no constraints."""
    item = {"product_id": f"fresh-{rng.randrange(10**12)}", "title": ["Something else"]}
    row: Row = {"query": query, "reward": item}
    if with_voucher:
        budget, threshold, cut = rng.choice((311, 427, 1211)), rng.choice((151, 177)), rng.choice((21, 37))
        row["query"] += (
            f"\n\nMy budget is only `{budget}`, but I have a voucher with the following rules:\n1. The voucher applies "
            f"to all products.\n2. It is valid only when the total price of the products exceeds `{threshold}`.\n3. It "
            f"provides a fixed discount of `{cut}`."
        )
        voucher = {"voucher_type": "platform", "threshold": threshold, "discount_type": "fixed", "face_value": cut}
        voucher |= {"discount": None, "cap": None, "price_after_voucher": 1.0, "budget": budget}
    return row | ({"voucher": voucher, "reward": [item]} if voucher else {})


def _other(problem: Row, rng: random.Random) -> Row:
    number = rng.randrange(10**12)
    return {"query": f"Order {number} of collection {number * 7}, as discussed with customer {number % 977}."}


def _parts(query: str) -> tuple[str, str]:
    base, _, text = query.partition("\n\nMy budget")
    return base, text and f"\n\nMy budget{text}"


def _items(problem: Row) -> list[Row]:
    return problem["reward"] if isinstance(problem["reward"], list) else [problem["reward"]]


def _golds(problem: Row) -> list[Row]:
    return [{"product_id": item["product_id"]} for item in _items(problem)]


def _reordered(item: Row, rng: random.Random) -> Row:
    """The same constraints in another order, of another product."""
    stated = {name: item[name] for name in ("attributes", "sku_options", "price", "service") if item.get(name)}
    mixed = {name: rng.sample(value, len(value)) for name, value in reversed(stated.items())}
    return mixed | {"product_id": f"fresh-{rng.randrange(10**12)}", "title": ["Something else"]}


def _states_enough(items: list[Row]) -> bool:
    """At least three constraints, one of them an attribute or SKU pair; a pair stated twice is one."""
    pairs = others = 0
    for item in items:
        for name in ("attributes", "sku_options"):
            stated = [pair for entry in item.get(name, []) for pair in entry.items()]
            pairs += len({json.dumps(pair).replace("_", " ").lower() for pair in stated})
        others += sum(len(item.get(name, [])) for name in ("price", "service"))
    return pairs >= 1 and pairs + others >= 3


def _trace(row: Row, row_id: str) -> Row:
    calls = [("find_product", {"q": "it"}), ("recommend_product", {"product_ids": row.get("answer", "none")})]
    messages: list[Row] = [{"role": "user", "content": row["query"]}]
    for number, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "{}"})
    return {"trajectory_id": row_id, "problem_id": f"p-{row_id}", "messages": messages}


def _order(base: str, rng: random.Random) -> str:
    words = base.split()
    rng.shuffle(words)
    return " ".join(words)


def _swapped(words: dict[str, str]) -> Callable[[str, random.Random], str]:
    pattern = re.compile(
        r"\b(" + "|".join(sorted(map(re.escape, words), key=len, reverse=True)) + r")\b", re.IGNORECASE
    )
    return lambda base, rng: pattern.sub(lambda match: words[match[0].lower()], base)


def _units(base: str, rng: random.Random) -> str | None:
    """Every measure in another unit; None for a query without one."""
    changed = base
    for pattern, unit, factor in _MEASURES:

        def converted(match: re.Match[str], unit: str = unit, factor: float = factor) -> str:
            return f"{float(match[1]) * factor:g} {unit}"

        changed = pattern.sub(converted, changed)
    return None if changed == base else changed


_MEASURES = [
    (re.compile(r"\b(\d+(?:\.\d+)?)\s*(?:-\s*)?(?:inch|inches|in)\b", re.IGNORECASE), "centimetres", 2.54),
    (re.compile(r"\b(\d+(?:\.\d+)?)\s*ml\b", re.IGNORECASE), "litres", 0.001),
    (re.compile(r"\b(\d+(?:\.\d+)?)\s*kg\b", re.IGNORECASE), "grams", 1000),
    (re.compile(r"\b(\d+(?:\.\d+)?)\s*gb\b", re.IGNORECASE), "megabytes", 1000),
    (re.compile(r"\b(\d+(?:\.\d+)?)\s*cm\b", re.IGNORECASE), "millimetres", 10),
    (re.compile(r"\b(\d+(?:\.\d+)?)\s*m\b", re.IGNORECASE), "feet", 3.2808),
]
_SYNONYMS = {
    "looking for": "in the market for",
    "show me": "what do you have in the way of",
    "find": "track down",
    "i need": "i have been meaning to get hold of",
    "need": "require",
    "please": "if you would",
    "show": "present",
    "products": "items",
    "product": "item",
    "black": "dark",
    "white": "pale",
    "red": "crimson",
    "blue": "navy-coloured",
    "green": "emerald",
    "large": "big",
    "small": "little",
    "made of": "built from",
    "made from": "built from",
    "brand": "make",
    "with": "having",
    "priced": "that goes for",
    "price": "cost",
    "above": "north of",
    "over": "north of",
    "more than": "upwards of",
    "below": "south of",
    "under": "south of",
    "less than": "not quite",
    "between": "somewhere from",
    "free shipping": "delivery at no charge",
    "cash on delivery": "payment at the door",
    "suitable for": "meant for",
    "preferably": "ideally",
    "supports": "works with",
    "offers": "comes along with",
}
_SPANISH = {
    **dict(
        zip(
            "looking for show me find need the a an with in of and or to from that is are".split(),
            [
                "buscando",
                "para",
                "muestra",
                "me",
                "encuentra",
                "necesito",
                "el",
                "un",
                "una",
                "con",
                "en",
                "de",
                "y",
                "o",
                "a",
                "desde",
                "que",
                "es",
                "son",
            ],
            strict=True,
        )
    ),
    **dict(
        zip(
            "black white red blue green large small size price priced above below between".split(),
            [
                "negro",
                "blanco",
                "rojo",
                "azul",
                "verde",
                "grande",
                "chico",
                "talla",
                "precio",
                "costando",
                "sobre",
                "bajo",
                "entre",
            ],
            strict=True,
        )
    ),
    **dict(
        zip(
            "please products product brand made shop i i'm my can you some any more than less".split(),
            [
                "por favor",
                "productos",
                "producto",
                "marca",
                "hecho",
                "tienda",
                "yo",
                "estoy",
                "mi",
                "puede",
                "usted",
                "unos",
                "cualquier",
                "más",
                "que",
                "menos",
            ],
            strict=True,
        )
    ),
}
_WORDINGS: dict[str, Callable[[str, random.Random], str | None]] = {
    "case": lambda base, rng: "".join(c.upper() if rng.random() < 0.5 else c.lower() for c in base) + "!!",
    "order": _order,
    "whitespace": lambda base, rng: " \n " + re.sub(r" ", lambda _: rng.choice((" \n ", "\t", "\u00a0 ", "  ")), base),
    "paraphrase": _swapped(_SYNONYMS),
    "translation": _swapped(_SPANISH),
    "units": _units,
}
