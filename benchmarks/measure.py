"""How everything here is measured: CPU seconds of this process, several rounds, all contenders in each round.

Wall time depends on what else the machine does, so it is not used. Contenders take turns within a round, so that a
machine that slows down slows all of them, and only their ratios are compared with a target.
"""

from __future__ import annotations

import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class SkippedError(Exception):
    """A benchmark cannot run here; its text says why in one line."""


@dataclass
class Section:
    """One table of the report, and the numbers behind it."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Settings:
    """What the command line asks for."""

    home: Path
    """Directory of the bench data and of all that is written."""
    rows: int
    repeats: int


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process that one call costs, garbage of earlier work collected before."""
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def rounds(contenders: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each contender over `repeats` rounds in which all take their turn."""
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, work in contenders.items():
            spent[name].append(cpu_seconds(work))
    return {name: statistics.median(seconds) for name, seconds in spent.items()}


def in_fresh_process(target: str, *arguments: str, ready: str) -> dict[str, Any]:
    """Call `module:function` with text arguments in a new Python; its result with its CPU seconds and peak memory.

    Args:
        target: what to call.
        arguments: its arguments.
        ready: a module that is imported before the clock starts.

    Returns:
        `{"result", "cpu" (seconds of the call), "rss" (peak bytes of the whole process)}`.

    Raises:
        SkippedError: the process said so.
        RuntimeError: it failed otherwise.
    """
    command = [sys.executable, "-m", "benchmarks.measure", target, ready, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{target} failed: {done.stderr.strip()[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "skipped" in answer:
        raise SkippedError(str(answer["skipped"]))
    return answer


def _child(target: str, ready: str, arguments: list[str]) -> dict[str, Any]:
    import importlib

    from benchmarks.measure import (
        SkippedError as Skip,
    )  # this file runs as __main__ here: the class it raises is the other

    module, _, name = target.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
        importlib.import_module(ready)
        begin = time.process_time()
        result = function(*arguments)
        cpu = time.process_time() - begin
    except Skip as skip:
        return {"skipped": str(skip)}
    return {"result": result, "cpu": cpu, "rss": peak_memory()}


def peak_memory() -> int:
    """Peak resident bytes of this process since its program began.

    Read from /proc where there is one: what `getrusage` says also counts the parent at the moment of the fork.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    fields = dict(line.split(":", 1) for line in status.read_text("utf-8").splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


def verdict(value: float, target: float, at_least: bool = True) -> str:
    """The target beside the value, and whether it is met."""
    met = value >= target if at_least else value <= target
    return f"{'>=' if at_least else '<='} {target:g}: {'met' if met else 'MISSED'}"


if __name__ == "__main__":
    print(json.dumps(_child(sys.argv[1], sys.argv[2], sys.argv[3:])))
