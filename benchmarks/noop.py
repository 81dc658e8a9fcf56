"""What `dvc repro` costs when there is nothing to do, in a copy of the working tree so that nothing here is touched."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import ROOT, Section, Settings, SkippedError, verdict

TARGET = 3.0
"""CPU seconds, children included."""
QUIET = {
    "DVC_NO_ANALYTICS": "1",
    "HF_HUB_OFFLINE": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "TOKENIZERS_PARALLELISM": "false",
}


def bench(settings: Settings) -> Section:
    """Run the pipeline once in the copy, uncounted, then `dvc repro` again and again."""
    if not (ROOT / "dvc.yaml").exists() or not (ROOT / ".dvc").is_dir():
        raise SkippedError("there is no DVC pipeline here yet")
    copy = _copy_tree(settings.home / "noop")
    _repro(copy)
    spent = [_repro(copy) for _ in range(settings.repeats)]
    seconds = statistics.median(spent)
    return Section(
        "A `dvc repro` with nothing to do",
        ("command", "CPU s", "target"),
        [("dvc repro", f"{seconds:.2f}", verdict(seconds, TARGET, at_least=False))],
        {"cpu_seconds": seconds},
    )


def _copy_tree(target: Path) -> Path:
    """Files that git tracks or would track, in a git repository of their own."""
    shutil.rmtree(target, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    subprocess.run(["git", "init", "-q"], cwd=target, check=True)
    return target


def _repro(copy: Path) -> float:
    """CPU seconds of one `dvc repro`, its children included."""
    search = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "repro"],
        cwd=copy,
        env=os.environ | QUIET | {"PATH": search, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        tail = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise SkippedError(f"`dvc repro` does not run through: {' '.join(tail)[:200]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
