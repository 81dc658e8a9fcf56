"""Training steps and rollouts on a GPU, alone: no network, no project, no weights.

Takes whatever torch and transformers it finds and names them. Packages that are missing and are pure Python (peft, trl,
accelerate, datasets) may lie as wheels in a folder. A model of Qwen3-4B's shape with random weights takes SFT, KTO and
Dr. GRPO steps with LoRA and plays batched rollouts (gpu_smoke_parts.py, to be copied along); where TRL is found, all of
its trainers take steps, too (gpu_smoke_trl.py). Every part says tokens a second, memory and utilisation; a part that
fails or finds no time left is reported as such.

    python gpu_smoke.py [--wheels DIR] [--out FIGURES.json] [--seconds 330] [--tiny]

Exit codes: 0, 1 where a part failed, 2 where there is nothing to run on.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}
PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "peft", "trl", "datasets", "vllm", "flash-attn")
SMI = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--id=0")
PEAKS = (("B200", 2250.0), ("H200", 989.0), ("H100", 989.0), ("A100", 312.0), ("L40S", 362.0), ("4090", 165.0))
"""Dense bfloat16, 10^12 a second, from data sheets."""


def unpack_wheels(folder: Path, target: Path) -> list[str]:
    """Unpack pure-Python wheels where imports find them after what is installed.

    Args:
        folder: holds `*-none-any.whl`; others are left out.
        target: an empty directory.

    Returns:
        Names of the files that were taken.
    """
    taken = []
    for wheel in sorted(folder.glob("*-none-any.whl")):
        name = wheel.name.split("-")[0]
        if _version(name) is None:
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(target)  # keeps every member below the target
            taken.append(wheel.name)
    if taken:
        sys.path.append(str(target))
        importlib.invalidate_caches()
    return taken


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


class Utilisation:
    """How busy the device was while this was open: nvidia-smi twice a second, or this process's share of its cores."""

    def __init__(self, cuda: bool) -> None:
        self._program = shutil.which(SMI[0]) if cuda else None
        self._seen: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Utilisation:
        self._began = time.monotonic(), time.process_time()
        if self._program:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        wall, used = time.monotonic() - self._began[0], time.process_time() - self._began[1]
        self._ended.set()
        if self._program:
            self._thread.join()
            self.share = round(sum(self._seen) / len(self._seen) / 100, 3) if self._seen else None
        else:
            self.share = round(used / max(wall, 1e-9) / len(os.sched_getaffinity(0)), 3)

    share: float | None = None

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            try:
                asked = [str(self._program), *SMI[1:]]
                answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout
                self._seen.append(float(answer.split()[0]))
            except (OSError, subprocess.SubprocessError, ValueError, IndexError):
                return


def timed(part: Callable[[], int], steps: int, device: str, parameters: int, flops: float) -> dict[str, Any]:
    """Run a part once, then time it.

    Returns:
        Seconds and tokens a second, GiB at the peak, utilisation of the device, and the share of its peak operations.
    """
    import torch

    cuda = device == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    part()
    tokens = 0
    with Utilisation(cuda) as used:
        _wait(cuda)
        began = time.monotonic()
        for _ in range(steps):
            tokens += part()
        _wait(cuda)
        seconds = time.monotonic() - began
    found: dict[str, Any] = {"tokens_per_s": round(tokens / seconds, 1), "seconds_per_step": round(seconds / steps, 3)}
    if cuda:
        found["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
        peak = next((tflops for name, tflops in PEAKS if name in torch.cuda.get_device_name(0)), None)
        if peak:
            found["peak_share"] = round(tokens / seconds * flops * parameters / (peak * 1e12), 3)
    return found | {"utilisation": used.share}


def _wait(cuda: bool) -> None:
    import torch

    if cuda:
        torch.cuda.synchronize()


def describe(device: str) -> dict[str, Any]:
    """The machine and every package by version."""
    import torch

    found: dict[str, Any] = {"python": platform.python_version(), "device": device}
    found["packages"] = {name: version for name in PACKAGES if (version := _version(name))}
    if device == "cuda":
        found["gpu"] = torch.cuda.get_device_name(0)
        found["gpu_memory_gib"] = round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1)
        found["cuda"] = torch.version.cuda
    return found


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """All parts, as far as the time goes."""
    import torch

    ends = time.monotonic() + arguments.seconds
    device = "cuda" if torch.cuda.is_available() and not arguments.tiny else "cpu"
    if device == "cpu" and not arguments.tiny:
        raise SystemExit("error: torch sees no GPU; --tiny runs on the CPU")
    steps = importlib.import_module("gpu_smoke_parts")
    sizes, dtype = (steps.TINY, torch.float32) if arguments.tiny else (steps.FULL, torch.bfloat16)
    found = describe(device)
    print(json.dumps(found), flush=True)
    smoke = steps.Smoke(sizes, device, dtype)
    found |= {"model": smoke.kind, "parameters": smoke.parameters, "lora": smoke.lora.by, "parts": {}}
    # Operations a parameter and token: forward, backward without weight gradients, and forward again (checkpointing).
    parts: dict[str, tuple[Callable[[], int], float]] = {
        "sft": (smoke.sft, 6.0),
        "rollouts": (smoke.rollouts, 2.0),
        "kto": (smoke.kto, 12.0),
        "grpo": (smoke.grpo, 6.0),
        "sft_long": (smoke.sft_long, 6.0),
    }
    for name, (part, flops) in parts.items():
        once = partial(timed, part, sizes.steps, device, smoke.parameters, flops)
        found["parts"][name] = _guarded(ends, once)
        print(name, json.dumps(found["parts"][name]), flush=True)
    if _version("trl") and _version("datasets"):
        trainers = importlib.import_module("gpu_smoke_trl").TRAINERS
        del smoke, parts, part, once
        for name, trainer in trainers.items():
            if device == "cuda":
                torch.cuda.empty_cache()
            watched = partial(_watched, device == "cuda", partial(trainer, sizes, device, dtype, steps.build_model))
            found["parts"][name] = _guarded(ends, watched)
            print(name, json.dumps(found["parts"][name]), flush=True)
    else:
        found["parts"]["trl"] = {"left_out": "TRL or datasets is not there; give them as wheels"}
    return found


def _watched(cuda: bool, part: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The part's figures with the utilisation while it ran, set-up included."""
    with Utilisation(cuda) as used:
        found = part()
    return found | {"utilisation": used.share}


def _guarded(ends: float, part: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The part's figures, or why there are none: one that fails must not hide the others."""
    if time.monotonic() > ends:
        return {"left_out": "no time was left"}
    try:
        return part()
    except Exception as error:  # whatever versions are found may break in their own ways
        return {"failed": f"{type(error).__name__}: {str(error)[:500]}"}


def main(argv: list[str] | None = None) -> int:
    """Run, print each part as it ends, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, help="folder of pure-Python wheels for what is missing")
    parser.add_argument("--out", type=Path, help="file of the figures, JSON")
    parser.add_argument("--seconds", type=float, default=330.0, help="no part begins after so long")
    parser.add_argument("--tiny", action="store_true", help="a few thousand parameters, on the CPU")
    arguments = parser.parse_args(argv)
    sys.path.insert(0, str(Path(__file__).resolve().parent))  # the other two files lie beside this one
    for name, value in OFFLINE.items():
        os.environ.setdefault(name, value)
    with tempfile.TemporaryDirectory(prefix="gpu-smoke-") as scratch:
        if arguments.wheels:
            print("wheels:", ", ".join(unpack_wheels(arguments.wheels, Path(scratch))) or "none needed", flush=True)
        wanting = [name for name in ("torch", "transformers") if _version(name) is None]
        if wanting:
            print(f"error: {', '.join(wanting)} must be there", file=sys.stderr)
            return 2
        found = run(arguments)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    failed = [name for name, figures in found["parts"].items() if "failed" in figures]
    print("failed: " + ", ".join(failed) if failed else "all parts that ran are well")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
