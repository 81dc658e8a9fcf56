"""Set the Jaccard threshold of near wordings on labelled pairs: `python -m benchmarks.leak_threshold`.

Needs ShoppingBench's public test problems (`--data`, default ../shared/data/shoppingbench).

One problem: variants made by rule (case, order, white space, dropped words, added politeness, other words for the
same). Two problems: all pairs of the 750 test problems, and harder ones in which a word of the product, in the query
and in the gold title, is swapped, added or dropped, so that the whole template is shared. Each pair is judged as
`oresmith.leakage` would: with gold titles known, with none known, and without the rule on differing words
(`another_product`), which shows why a threshold alone is not enough.

Without titles nobody can tell a dropped product word from any other dropped word: such pairs have no label there. They
are joined, because to keep them apart would let a leak pass, and are printed but not counted.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from oresmith.arena.problems import load_problems
from oresmith.leakage.keys import read_problem, word_hash
from oresmith.leakage.neardup import another_product
from oresmith.leakage.text import FUNCTION_WORDS, fold, tokens, words
from oresmith.leakage.voucher import without_voucher
from oresmith.records import Problem

THRESHOLDS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
SAME_WORDS = {
    "php": "pesos",
    "pesos": "php",
    "priced above": "that cost more than",
    "cost more than": "are priced over",
    "free delivery": "free shipping",
    "free shipping": "complimentary delivery",
    "cash on delivery": "cod",
    "women's": "ladies",
    "show me": "i am searching for",
    "looking for": "i want to buy",
    "made of": "made from",
    "comes with": "with",
    "available on": "sold at",
}
UNDECIDABLE = ("product word added", "product word dropped")
Tokens = frozenset[int]


class Pair(NamedTuple):
    """Token sets of two queries and of their gold titles."""

    kind: str
    a: Tokens
    b: Tokens
    title_a: Tokens
    title_b: Tokens


def hashed(found: frozenset[str]) -> Tokens:
    """Tokens as clustering sees them."""
    return frozenset(map(word_hash, found))


def variants(text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Rule-made variants of a folded request that ask for the same, each with its rule's name."""
    parts = text.split()
    yield "case", text.upper()
    yield "white space", "\n".join(parts)
    yield "punctuation", re.sub(r"[^\w\s]", " ", text)
    yield "order", " ".join(rng.sample(parts, len(parts)))
    yield "function words dropped", " ".join(one for one in parts if one not in FUNCTION_WORDS or rng.random() < 0.5)
    yield "politeness added", f"hi, could you please help me? {text} thanks a lot!"
    for count in (1, 2):
        gone = set(rng.sample(range(len(parts)), min(count, len(parts))))
        yield f"{count} words dropped", " ".join(one for place, one in enumerate(parts) if place not in gone)
    known = [one for one in SAME_WORDS if one in text]
    for count in (1, 3):
        if known:
            other = text
            for one in rng.sample(known, min(count, len(known))):
                other = other.replace(one, SAME_WORDS[one])
            yield f"{count} in other words", other


def same_pairs(problems: list[Problem], rng: random.Random) -> Iterator[Pair]:
    """Pairs of one problem."""
    for one in problems:
        request, _ = without_voucher(fold(one.query or ""), one.voucher)
        reading = read_problem(one)
        title = hashed(reading.title_words)
        for kind, text in variants(" ".join(request.split()), rng):
            yield Pair(kind, hashed(reading.words), hashed(tokens(words(fold(text)))), title, title)


def other_pairs(problems: list[Problem], rng: random.Random) -> Iterator[Pair]:
    """Pairs of two problems."""
    readings = [read_problem(one) for one in problems]
    for left, right in combinations(readings, 2):
        sides = (left.words, right.words, left.title_words, right.title_words)
        yield Pair("two test problems", *map(hashed, sides))
    for one in readings:
        product = sorted(word for word in one.words & one.title_words if word.isalpha())
        strange = rng.choice(readings).title_words - one.title_words - one.words
        strange = frozenset(word for word in strange if word.isalpha())
        if not product or not strange:
            continue
        old, new = {rng.choice(product)}, {rng.choice(sorted(strange))}
        cases = {
            "product swapped": ((one.words - old) | new, (one.title_words - old) | new),
            "product word added": (one.words | new, one.title_words | new),
            "product word dropped": (one.words - old, one.title_words - old),
        }
        for kind, (other, title) in cases.items():
            yield Pair(kind, *map(hashed, (one.words, other, one.title_words, title)))


def joined(pair: Pair, threshold: float, judge: str) -> bool:
    """Whether the two would be one cluster: "titles", "no titles", or by "jaccard alone"."""
    if len(pair.a & pair.b) < threshold * len(pair.a | pair.b):
        return False
    titles = (pair.title_a, pair.title_b) if judge == "titles" else (frozenset[int](), frozenset[int]())
    return judge == "jaccard alone" or not another_product(pair.a, pair.b, *titles)


def table(same: list[Pair], other: list[Pair], judge: str) -> None:
    """Print precision and recall for each threshold, then the share joined by kind."""
    print(f"\n{judge}\nthreshold  precision  recall  falsely joined")
    labelled = [pair for pair in other if judge != "no titles" or pair.kind not in UNDECIDABLE]
    for threshold in THRESHOLDS:
        right = sum(joined(pair, threshold, judge) for pair in same)
        wrong = [pair for pair in labelled if joined(pair, threshold, judge)]
        precision = right / max(right + len(wrong), 1)
        print(f"{threshold:9.2f}  {precision:9.4f}  {right / len(same):6.3f}  {len(wrong)} of {len(labelled)}")


def by_kind(pairs: list[Pair], judge: str, threshold: float) -> None:
    """Print how many pairs of each kind are joined."""
    for kind in dict.fromkeys(pair.kind for pair in pairs):
        of_kind = [pair for pair in pairs if pair.kind == kind]
        found = sum(joined(pair, threshold, judge) for pair in of_kind)
        print(f"  {kind:24} {found / len(of_kind):6.3f} of {len(of_kind)}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/shoppingbench"))
    parser.add_argument("--threshold", type=float, default=0.8, help="threshold of the tables by kind")
    options = parser.parse_args()
    files = [options.data / f"synthesize_{kind}_test.jsonl" for kind in ("product", "shop", "voucher")]
    problems, rng = list(load_problems(*files)), random.Random(5)
    same, other = list(same_pairs(problems, rng)), list(other_pairs(problems, rng))
    nearest = max(len(pair.a & pair.b) / len(pair.a | pair.b) for pair in other if pair.kind == "two test problems")
    print(f"{len(same)} pairs of one problem, {len(other)} of two; the nearest two test problems: {nearest:.2f}")
    for judge in ("titles", "no titles", "jaccard alone"):
        table(same, other, judge)
    for judge in ("titles", "no titles"):
        print(f"\njoined at {options.threshold}, {judge}")
        by_kind(same, judge, options.threshold)
        by_kind(other, judge, options.threshold)


if __name__ == "__main__":
    main()
