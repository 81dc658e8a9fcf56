"""What a run of a step took, beside time and memory of the process: energy and GPU memory. Never part of an artefact.

Energy is read where the machine lets it be read: of processor packages (RAPL) and of NVIDIA GPUs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")
_COUNTER, _RANGE = "energy_uj", "max_energy_range_uj"


class Energy:
    """Counters of energy from now on.

    Args:
        powercap: the kernel's directory of counters; only root may read them on most machines.
    """

    def __init__(self, powercap: Path = POWERCAP) -> None:
        # One colon is a whole package; its parts (two colons) are in it.
        self._zones = [zone for zone in sorted(powercap.glob("*-rapl:*")) if zone.name.count(":") == 1]
        self._packages = [_number(zone / _COUNTER) for zone in self._zones]
        self._gpus = _gpu_joules()

    def spent(self) -> dict[str, float]:
        """Joules since the start, of all that runs on the machine: `cpu_joules`, `gpu_joules`; what cannot be read is
        left out. A package's counter that overran more than once reads too low."""
        found: dict[str, float] = {}
        packages = [
            (_number(zone / _COUNTER), before, _number(zone / _RANGE))
            for zone, before in zip(self._zones, self._packages, strict=True)
        ]
        known = [(now - before) % (limit + 1) for now, before, limit in packages if min(now, before, limit) >= 0]
        if known:
            found["cpu_joules"] = round(sum(known) / 1e6, 1)
        gpus = _gpu_joules()
        if gpus is not None and self._gpus is not None:
            found["gpu_joules"] = round(gpus - self._gpus, 1)
        return found


def gpu_facts() -> dict[str, Any]:
    """`gpu` (name) and `gpu_peak_mib` (memory of the fullest one that this process used); nothing without GPUs."""
    import torch

    if not torch.cuda.is_available():
        return {}
    peaks = [torch.cuda.max_memory_allocated(place) // 2**20 for place in range(torch.cuda.device_count())]
    return {"gpu": torch.cuda.get_device_name(), "gpu_peak_mib": max(peaks)}


def _number(path: Path) -> int:
    """What a counter says; -1 where it cannot be read."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return -1


def _gpu_joules() -> float | None:
    """Of all GPUs since the driver was loaded."""
    try:
        import pynvml  # type: ignore[import-untyped]

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
        return sum(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) for handle in handles) / 1000 if handles else None
    except Exception:  # no package, no driver, or a GPU that does not count: nothing depends on it
        return None
