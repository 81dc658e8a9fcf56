"""Time and memory of the stage `corpus` over trajectories that the stages before have left, two workers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.corpus_world import corpus_world
from benchmarks.measure import ROOT, Section, Settings, verdict
from benchmarks.project import inside, params

ROWS = 100_000
SECONDS, MEMORY = 120.0, 1500.0
"""Wall seconds on two cores; MB of all processes of the stage together."""


def bench(settings: Settings) -> Section:
    """The whole stage in a fresh process with two workers, its processes' memory added up while it runs."""
    rows = ROWS if settings.rows >= 20_000 else settings.rows
    where, home = corpus_world(settings, rows)
    command = [sys.executable, "-m", "benchmarks.corpus_build", str(where), str(home)]
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    peak, spent = 0, dict[int, float]()
    while process.poll() is None:
        peak = max(peak, _look(process.pid, spent))
        time.sleep(0.1)
    if process.returncode:
        raise RuntimeError("the stage failed")
    seconds = time.monotonic() - began
    told: dict[str, Any] = json.loads((process.stdout.read() if process.stdout else "").splitlines()[-1])
    size = sum(path.stat().st_size for path in (where / "data" / "corpus").rglob("*.parquet"))
    section = Section(
        f"Corpus: {rows:,} trajectories, {told['trajectories']:,} published, two workers",
        ("what", "value", "target"),
        notes=["wall time; memory is that of all processes together, shared pages counted once for each."],
    )
    section.rows = [
        ("seconds", f"{seconds:.1f}", verdict(seconds, SECONDS, at_least=False)),
        ("CPU seconds", f"{sum(spent.values()):.1f}", ""),
        ("peak MB", f"{peak / 1e6:,.0f}", verdict(peak / 1e6, MEMORY, at_least=False)),
        ("MB written", f"{size / 1e6:,.0f}", ""),
    ]
    section.numbers = {
        "rows": rows,
        "seconds": seconds,
        "cpu": sum(spent.values()),
        "peak_mb": peak / 1e6,
        "mb": size / 1e6,
    }
    return section


def _look(pid: int, spent: dict[int, float]) -> int:
    """Resident bytes of a process and all its descendants; notes the CPU seconds of each in `spent`."""
    import psutil

    total = 0
    try:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            total += one.memory_info().rss
            spent[one.pid] = sum(one.cpu_times()[:2])
    except psutil.Error:
        pass
    return total


def main() -> None:
    """Run the stage in a project; for the process that `bench` starts."""
    import msgspec

    from stages import corpus

    where, home = sys.argv[1:]
    with inside(Path(where)):
        chosen = params(Path(home))
        run = msgspec.structs.replace(chosen.run, workers=2)
        report = corpus.run(msgspec.structs.replace(chosen, run=run))
    print(json.dumps({"trajectories": report.trajectories}))


if __name__ == "__main__":
    main()
