"""Set the threshold of title similarity on labelled pairs: `python -m benchmarks.title_threshold`.

Needs the extra `embed` and problems with their catalogue (`--data`, default ../shared/data/sn15: problems.jsonl.gz and
catalogue.jsonl.gz; problem_suite_v3.json brings the arena's own vectors of its titles, whose scale is another).

Each gold title is held against every listing of another shop. The labels come from words alone, so that no model judges
itself: a listing that shares 0.7 of the words (Jaccard) is the same article listed again, one that shares 0.5 to 0.7 is
the same with words left out, one that shares less than a quarter is another product. What lies between has no label.
In `swapped` a word that only few titles have is replaced by one of another gold title: another product under all but
the same title, which shows what no threshold can tell.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oresmith.arena.catalogue import Product, load_catalogue
from oresmith.arena.problems import gold_ids, load_problems
from oresmith.minilm import MODEL, Encoder, load_encoder

THRESHOLDS = (0.50, 0.60, 0.65, 0.70, 0.75, 0.78, 0.79, 0.80, 0.81, 0.82, 0.85, 0.90, 0.95)
LISTED_AGAIN, SHORTENED, ANOTHER = "listed again", "words left out", "another product"
RARE = 20
"""Titles that a word may stand in at most, for it to name the product."""
F32 = NDArray[np.float32]


class Pairs(NamedTuple):
    """Similarities by label."""

    by_label: dict[str, F32]
    nearest: F32
    """Of each gold title the most similar listing of another product."""
    swapped: F32


def words(title: str) -> frozenset[str]:
    """The distinct words of a title."""
    return frozenset(re.findall(r"\w+", title.casefold()))


def label(one: frozenset[str], other: frozenset[str]) -> str | None:
    """What two titles are by their words alone; None where nobody can say."""
    shared = len(one & other) / max(len(one | other), 1)
    if shared >= 0.7:
        return LISTED_AGAIN
    if shared >= 0.5:
        return SHORTENED
    return ANOTHER if shared < 0.25 else None


def swapped(titles: Sequence[str], rng: random.Random) -> Iterator[tuple[str, str]]:
    """Each title beside itself with one rare word replaced by a rare word of another title."""
    common = Counter(word for title in titles for word in words(title))

    def rare(title: str) -> list[str]:
        return [word for word in title.split() if word.isalpha() and len(word) > 3 and common[word.casefold()] <= RARE]

    for title in titles:
        mine = rare(title)
        theirs = [word for word in rare(rng.choice(titles)) if word.casefold() not in words(title)]
        if mine and theirs:
            yield title, title.replace(rng.choice(mine), rng.choice(theirs), 1)


def vectors(encode: Encoder, titles: Iterable[str]) -> dict[str, F32]:
    """The vector of each distinct title; one that the model cannot read whole is left out."""
    found = {title: encode(title) for title in sorted(set(titles))}
    return {title: vector for title, vector in found.items() if vector is not None}


def measure(products: dict[str, Product], golds: Sequence[str], encode: Encoder, rng: random.Random) -> Pairs:
    """Similarities of all pairs of a gold title and a listing of another shop."""
    listings = [one for one in products.values() if isinstance(one.title, str)]
    vector = vectors(encode, (one.title for one in listings))
    listings = [one for one in listings if one.title in vector]
    matrix, bags = np.stack([vector[one.title] for one in listings]), [words(one.title) for one in listings]
    found: dict[str, list[float]] = {LISTED_AGAIN: [], SHORTENED: [], ANOTHER: []}
    nearest: list[float] = []
    for gold in (products[one] for one in golds):
        row, bag, best = matrix @ vector[gold.title], words(gold.title), 0.0
        for place, other in enumerate(listings):
            kind = label(bag, bags[place])
            if kind is None or other.shop_id == gold.shop_id or other.title == gold.title:
                continue
            found[kind].append(row[place])
            best = max(best, row[place]) if kind == ANOTHER else best
        nearest.append(best)
    pairs = list(swapped([products[one].title for one in golds], rng))
    made = vectors(encode, (title for _, title in pairs))
    swaps = [float(vector[one] @ made[two]) for one, two in pairs if one in vector and two in made]
    by_label = {kind: np.array(values, dtype=np.float32) for kind, values in found.items()}
    return Pairs(by_label, np.array(nearest, dtype=np.float32), np.array(swaps, dtype=np.float32))


def table(pairs: Pairs) -> list[str]:
    """The lines that stand in oresmith/arena/titles.py."""
    again, shortened, another = (pairs.by_label[kind] for kind in (LISTED_AGAIN, SHORTENED, ANOTHER))
    lines = [
        f"{len(again):,} pairs listed again, {len(shortened):,} with words left out, {len(another):,} of another"
        f" product; {len(pairs.nearest):,} gold titles, {len(pairs.swapped):,} swaps",
        "threshold  listed again  words left out  another product  titles met by another  swapped",
    ]
    for least in THRESHOLDS:
        kinds = (again, shortened, another, pairs.nearest, pairs.swapped)
        one, two, three, four, five = (float((values >= least).mean()) for values in kinds)
        lines.append(f"{least:9.2f}  {one:12.3f}  {two:14.3f}  {three:15.1e}  {four:21.4f}  {five:7.3f}")
    return lines


def scales(suite: Path, encode: Encoder) -> str:
    """How similar the titles of a suite are to each other, by the vectors that stand in it and by the model here."""
    stored: dict[str, list[float]] = {}
    for problem in json.loads(suite.read_bytes()):
        stored |= problem.get("reward_title_embeddings") or {}
    here = vectors(encode, stored)
    titles = sorted(here)
    theirs = np.array([stored[title] for title in titles])
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    told = []
    for name, matrix in (("the suite's own vectors", theirs), (MODEL, np.stack([here[title] for title in titles]))):
        pairs = (matrix @ matrix.T)[np.triu_indices(len(titles), 1)]
        told.append(f"{name}: median {np.median(pairs):.3f}, 99% below {np.quantile(pairs, 0.99):.3f}")
    return f"all pairs of the {len(titles)} titles of {suite.name}; " + "; ".join(told)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/sn15"))
    options = parser.parse_args()
    encode = load_encoder("benchmarks.title_threshold")
    products = load_catalogue(options.data / "catalogue.jsonl.gz")
    problems = load_problems(options.data / "problems.jsonl.gz")
    golds = sorted({one for problem in problems for one in gold_ids(problem) if one in products})
    print(MODEL)
    print(scales(options.data / "problem_suite_v3.json", encode))
    print("\n".join(table(measure(products, golds, encode, random.Random(5)))))


if __name__ == "__main__":
    main()
