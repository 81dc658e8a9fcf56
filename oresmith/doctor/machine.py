"""What this machine is: cores, memory, disk, GPUs, Python. Everything is read; nothing is started but `nvidia-smi`."""

from __future__ import annotations

import csv
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

GIB = 2**30
NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader,nounits")
"""Names and MiB; the arguments are fixed."""
_SMI_S = 20.0
_CGROUP = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Of version 2 and 1: what a container may take, however much the machine has."""


class Gpu(msgspec.Struct, frozen=True):
    """One GPU as its driver reports it."""

    name: str
    memory_gib: float
    free_gib: float
    driver: str


class Machine(msgspec.Struct, frozen=True):
    """Facts of a machine."""

    system: str
    python: str
    cores: int
    """That this process may use."""
    memory_gib: float | None
    """That this process may use; None where the system does not say."""
    disk_free_gib: float
    """Where the project lies."""
    gpus: list[Gpu]


def read_machine(root: Path = Path(), *, ask: Callable[[], str] | None = None, system: Path = Path("/")) -> Machine:
    """Read the facts of this machine.

    Args:
        root: of the project, whose disk counts.
        ask: gives the answer of nvidia-smi; None asks it.
        system: root of the file system, for tests.
    """
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        python=".".join(map(str, sys.version_info[:3])),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=_memory(system),
        disk_free_gib=round(shutil.disk_usage(root).free / GIB, 1),
        gpus=read_gpus((ask or ask_nvidia)()),
    )


def ask_nvidia() -> str:
    """The answer of nvidia-smi; empty where there is none, or it fails: then there is no GPU to use."""
    program = shutil.which(NVIDIA_SMI[0])
    if program is None:
        return ""
    try:
        done = subprocess.run(  # noqa: S603 (fixed arguments)
            [program, *NVIDIA_SMI[1:]], capture_output=True, text=True, timeout=_SMI_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def read_gpus(answer: str) -> list[Gpu]:
    """GPUs from nvidia-smi's CSV; lines of another form are left out.

    Args:
        answer: lines `name, MiB, MiB free, driver`.
    """
    found = []
    for cells in csv.reader(answer.splitlines(), skipinitialspace=True):
        try:
            name, total, free, driver = cells
            found.append(Gpu(name, round(float(total) / 1024, 1), round(float(free) / 1024, 1), driver))
        except ValueError:
            continue
    return found


def _memory(system: Path) -> float | None:
    """GiB of memory, or of the container's limit where that is less."""
    sizes = []
    try:
        lines = (system / "proc/meminfo").read_text("ascii").splitlines()
        sizes += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")]
    except (OSError, ValueError, IndexError):
        pass
    for name in _CGROUP:
        try:
            sizes.append(int((system / name).read_text("ascii")))
        except (OSError, ValueError):  # no container, or the word `max`
            continue
    return round(min(sizes) / GIB, 1) if sizes else None
