"""The embedded world's catalogue: what a stream of products costs, and that its memory does not grow with its size.

`python -m benchmarks.arena_world [--size 2500000]` measures one size.
"""

from __future__ import annotations

import argparse

from benchmarks.measure import Section, Settings, in_fresh_process, verdict
from oresmith.arena.world import documents

SEED = 1
TARGET_SECONDS = 90.0
"""Of CPU on one core for a million products."""
TARGET_GROWTH = 1.5
"""Peak memory at the largest size by that at a tenth of it."""


def stream(size: str) -> int:
    """Make the products one by one and drop them; returns how many there were."""
    return sum(1 for _ in documents(SEED, int(size)))


def measured(size: int) -> tuple[float, int]:
    """CPU seconds and peak bytes of a fresh process that streams `size` products."""
    done = in_fresh_process("benchmarks.arena_world:stream", str(size), ready="oresmith.arena.world")
    if done["result"] != size:
        raise RuntimeError(f"{done['result']} products instead of {size}")
    return done["cpu"], done["rss"]


def bench(settings: Settings) -> Section:
    """The table of `make bench`: at the usual 20,000 rows, a tenth of a million products and a million."""
    section = Section(
        title="The embedded world's products, streamed by one process",
        columns=("products", "CPU s", "s per million", "peak MB"),
    )
    found = [(size, *measured(size)) for size in (settings.rows * 5, settings.rows * 50)]
    for size, cpu, rss in found:
        section.rows.append((f"{size:,}", f"{cpu:.1f}", f"{cpu / size * 1e6:.1f}", f"{rss / 1e6:.0f}"))
        section.numbers[f"seconds per million at {size}"] = round(cpu / size * 1e6, 2)
        section.numbers[f"peak bytes at {size}"] = rss
    (_, _, small), (size, cpu, large) = found
    section.notes.append(f"seconds per million products {verdict(cpu / size * 1e6, TARGET_SECONDS, at_least=False)}")
    section.notes.append(f"memory at ten times the size {verdict(large / small, TARGET_GROWTH, at_least=False)}")
    return section


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000)
    wanted = parser.parse_args().size
    seconds, peak = measured(wanted)
    print(f"{wanted:,} products: {seconds:.1f} s CPU, peak {peak / 1e6:.0f} MB")
