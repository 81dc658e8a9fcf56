"""Publishing 300 MB to the embedded Hub with the real client, beside copying and hashing the same files.

Wall time: client and server share the machine, so its load shows. Contenders take turns within a round.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, Section, Settings, SkippedError, verdict

SIZES = {"model.safetensors": 150_000_000, **{f"data/{n:02}.parquet": 5_000_000 for n in range(30)}}
MB = sum(SIZES.values()) / 1e6
TARGET = 0.5
PUBLISH = "publish, one create_commit"


def bench(settings: Settings) -> Section:
    """Measure rates, and the share of the speed of copying and hashing."""
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise SkippedError("the extra `arena` is not installed") from None
    from oresmith.release.hub.server import serve

    source, spent = settings.home / "hub_files", dict[str, list[float]]()
    _write(source)
    with serve(settings.home / "hub") as served:
        told = {"HF_ENDPOINT": served.endpoint, "HF_TOKEN": served.token, "HF_HUB_OFFLINE": "0"}
        told |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        command = [sys.executable, "-m", "benchmarks.hub", str(source), str(settings.repeats)]
        done = subprocess.run(command, env=os.environ | told, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        spent = json.loads(done.stdout)
    shutil.rmtree(settings.home / "hub")
    copied = spent["copy and hash"]
    section = Section(f"Embedded Hub: {MB:,.0f} MB in {len(SIZES)} files", ("what", "MB/s", "of copying", "target"))
    for name, seconds in spent.items():
        share = statistics.median(base / own for base, own in zip(copied, seconds, strict=True))
        rate, target = MB / statistics.median(seconds), verdict(share, TARGET) if name == PUBLISH else ""
        section.rows.append((name, f"{rate:,.0f}", f"{share:.2f}", target))
        section.numbers[name] = {"mb_per_second": rate, "share": share}
    section.notes.append(
        "wall time; the share is the median over rounds; the hash was taken when the bundle was checked"
    )
    return section


def _write(folder: Path) -> None:
    made = random.Random(1)
    for name, size in SIZES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_bytes(made.randbytes(size))


def _rounds(source: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of each contender in each round; runs where the client knows the Hub."""
    from huggingface_hub import CommitOperationAdd, HfApi

    api, copies, spent = HfApi(), source.with_name("hub_copies"), dict[str, list[float]]()
    hashes: dict[str, bytes] = {}

    def copy() -> None:
        for name in SIZES:
            target = copies / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target)
            with (source / name).open("rb") as file:
                hashes[name] = hashlib.file_digest(file, "sha256").digest()

    def publish(*, hashed: bool) -> Callable[[], None]:
        def work() -> None:
            adds: list[Any] = [CommitOperationAdd(name, source / name) for name in SIZES]
            for add in adds if hashed else ():
                add.upload_info.sha256 = hashes[add.path_in_repo]
            api.create_commit("oresmith/bench", adds, commit_message="bench", repo_type="dataset")

        return work

    def download() -> None:
        api.snapshot_download("oresmith/bench", repo_type="dataset", local_dir=copies)

    contenders: dict[str, Callable[[], None]] = {
        "copy and hash": copy,
        PUBLISH: publish(hashed=True),
        "publish, the client hashes too": publish(hashed=False),
        "snapshot_download": download,
    }
    for _ in range(repeats):
        for name, work in contenders.items():
            if name.startswith("publish"):
                api.delete_repo("oresmith/bench", repo_type="dataset", missing_ok=True)
                api.create_repo("oresmith/bench", repo_type="dataset")
            shutil.rmtree(copies, ignore_errors=True)
            begin = time.perf_counter()
            work()
            spent.setdefault(name, []).append(time.perf_counter() - begin)
    shutil.rmtree(copies, ignore_errors=True)
    return spent


if __name__ == "__main__":
    print(json.dumps(_rounds(Path(sys.argv[1]), int(sys.argv[2]))))
