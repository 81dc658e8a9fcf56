"""Cluster many synthetic problems and compare with datasketch: `python -m benchmarks.leak_clusters --count 1000000`.

Prints the time (wall, making the problems not counted), the peak memory, what was found of each planted kind, how many
families were falsely merged, and two ratios of CPU time to datasketch (per-document `update_batch`, `MinHashLSH`):
signatures and candidate search on the same tokens, and end to end (keys, search, verification, union). datasketch is
timed on a subsample of the same run, per row; its index is then smaller than ours, and ours includes the verification.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from benchmarks.leak_world import Planted, world
from oresmith.leakage.clusters import Clusters, cluster, title_words, wordings
from oresmith.leakage.keys import read_problem
from oresmith.leakage.neardup import NearParams, near_pairs
from oresmith.leakage.table import KeyTable

CHUNK = 20_000


class Clock(NamedTuple):
    """Seconds of wall and of CPU time, all threads together."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Clock:
        """The present reading."""
        return cls(time.perf_counter(), time.process_time())

    def since(self, start: Clock) -> Clock:
        """What went by since an earlier reading."""
        return Clock(self.wall - start.wall, self.cpu - start.cpu)


class Made(NamedTuple):
    """The keys of a world, the family and kind of each problem, and the time that reading the keys took."""

    table: KeyTable
    families: list[int]
    kinds: list[str]
    spent: Clock


def read_world(problems: Iterator[Planted]) -> Made:
    """Read the keys in chunks, so that the problems themselves never stand in memory together."""
    parts, families, kinds, spent = list[KeyTable](), list[int](), list[str](), Clock(0.0, 0.0)
    while chunk := list(islice(problems, CHUNK)):
        families += [one.family for one in chunk]
        kinds += [one.kind for one in chunk]
        start = Clock.now()
        parts.append(KeyTable.read(one.problem for one in chunk))
        took = Clock.now().since(start)
        spent = Clock(spent.wall + took.wall, spent.cpu + took.cpu)
    return Made(KeyTable.concat(parts), families, kinds, spent)


def check(made: Made, clusters: Clusters) -> None:
    """Print what was found and what was falsely merged."""
    cluster_of = dict(clusters.assignments())
    of_row = [cluster_of[name] for name in made.table.names()]
    home = {family: own for family, kind, own in zip(made.families, made.kinds, of_row, strict=True) if not kind}
    planted: Counter[str] = Counter(kind for kind in made.kinds if kind)
    found: Counter[str] = Counter()
    families: defaultdict[str, set[int]] = defaultdict(set)
    for family, kind, own in zip(made.families, made.kinds, of_row, strict=True):
        families[own].add(family)
        found[kind] += own == home[family]
    for kind, count in planted.items():
        print(f"  found by {kind:11} {found[kind]} of {count}")
    merged = sum(len(group) - 1 for group in families.values())
    print(f"  falsely merged: {merged} of {len(home)} families")
    print(f"  pairs that differ in one value only: {clusters.report.one_value_pairs}")


def datasketch_seconds(tokens: list[list[bytes]]) -> tuple[float, float]:
    """CPU seconds for signatures and candidates, and for verifying and joining these, of datasketch on token lists."""
    from datasketch import MinHash, MinHashLSH  # type: ignore[import-untyped]

    start = Clock.now()
    index, hashes = MinHashLSH(threshold=0.8, num_perm=128), []
    for number, one in enumerate(tokens):
        minhash = MinHash(num_perm=128, seed=1)
        minhash.update_batch(one)
        index.insert(number, minhash)
        hashes.append(minhash)
    candidates = [index.query(minhash) for minhash in hashes]
    middle = Clock.now()
    sets, parent = [set(one) for one in tokens], list(range(len(tokens)))
    for a, others in enumerate(candidates):
        for b in others:
            if a < b and len(sets[a] & sets[b]) >= 0.8 * len(sets[a] | sets[b]):
                parent[b] = min(parent[a], parent[b])
    return middle.since(start).cpu, Clock.now().since(middle).cpu


def compare(made: Made, sample: list[Planted], clusters_cpu: float) -> None:
    """Print the ratios to datasketch."""
    start = Clock.now()
    tokens = [[word.encode() for word in read_problem(one.problem).words] for one in sample]
    reading = Clock.now().since(start).cpu
    search, verify = datasketch_seconds(tokens)
    table = made.table.unique()
    start = Clock.now()
    rows, members = wordings(table)
    near_pairs(table.words.take(rows), title_words(table, members), NearParams())
    ours, theirs = Clock.now().since(start).cpu / len(table), search / len(sample)
    print(f"  datasketch on a subsample of {len(sample)}, CPU time per row of each:")
    print(f"  signatures and candidates: {theirs * 1e6:.0f} us against {ours * 1e6:.1f} us: {theirs / ours:.1f} times")
    whole, own = (reading + search + verify) / len(sample), (made.spent.cpu + clusters_cpu) / len(made.families)
    print(f"  end to end: {whole * 1e6:.0f} us against {own * 1e6:.0f} us: {whole / own:.1f} times")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--sample", type=int, default=5_000, help="problems that datasketch is timed on")
    options = parser.parse_args()
    made = read_world(world(options.count))
    start = Clock.now()
    clusters = cluster(made.table)
    spent = Clock.now().since(start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024
    wall = made.spent.wall + spent.wall
    print(f"{len(made.families)} problems: {wall:.1f} s wall ({made.spent.wall:.1f} for the keys), peak {peak:.2f} GB")
    print(f"  CPU: {made.spent.cpu:.1f} s for the keys, {spent.cpu:.1f} s for the clusters")
    print(f"  {clusters.report.clusters} clusters, edges {dict(clusters.report.edges)}")
    check(made, clusters)
    compare(made, list(islice(world(options.count), options.sample)), spent.cpu)


if __name__ == "__main__":
    main()
