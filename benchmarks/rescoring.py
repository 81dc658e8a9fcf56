"""Scoring rollouts without generating: `python -m benchmarks.rescoring [--rollouts 100000] [--workers 2]`.

Scripted policies play a suite of the embedded world a few times a problem, by the harness; each rollout then stands for
many samples. Measured is all of it in wall time, since the target names the cores: reading, the strict scores, the
classes of failure, and every figure with its interval. The CPU time of all processes together is told beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from benchmarks.measure import Section, Settings, in_fresh_process, verdict

TARGET_SECONDS = 60.0
TARGET_ROLLOUTS = 100_000
WORKERS = 2
PROBLEMS = {"product": 240, "shop": 180, "voucher": 180}
PLAYED = 3
"""Samples of a problem that are really played."""
LEVELS = 5


def make(home: Path, rollouts: int) -> Path:
    """Problems, catalogue and rollouts below a directory, made once; returns the directory."""
    target = home / f"rollouts-{rollouts}"
    if (target / "manifest.json").is_file():
        return target
    from oresmith.blocks.atomic import load_manifest, stage_output
    from oresmith.evaluation.records import ROLLOUT_SCHEMA
    from oresmith.evaluation.writing import ROLLOUTS

    played = _play(home)
    made = load_manifest(played, ROLLOUT_SCHEMA)["params"]
    count = sum(PROBLEMS.values())
    samples = -(-rollouts // count)
    with stage_output(target, "rescoring", schema=ROLLOUT_SCHEMA, params=made | {"samples": samples}) as staged:
        packer = zstandard.ZstdCompressor(1)
        with (staged.path / ROLLOUTS).open("wb") as raw, packer.stream_writer(raw) as writer:
            for line in _tiled(played / ROLLOUTS, samples):
                writer.write(line)
    return target


def _tiled(path: Path, samples: int) -> Iterator[bytes]:
    """Each problem's played samples in turn, under the numbers of all its samples; equal lines stand far apart, since
    what compresses too well is refused as a bomb."""
    with path.open("rb") as raw:
        lines = zstandard.ZstdDecompressor().stream_reader(raw).read().splitlines(keepends=True)
    for sample in range(samples):
        place = sample % PLAYED
        for line in lines[place::PLAYED]:
            yield line.replace(b'"sample":%d,' % place, b'"sample":%d,' % sample, 1)


def _play(home: Path) -> Path:
    import msgspec

    from oresmith.arena.search import index_of
    from oresmith.arena.suites import make_suite, suite_jsonl
    from oresmith.arena.suites.definition import Counts, LevelCounts, SuiteDefinition
    from oresmith.arena.world import documents
    from oresmith.evaluation.evaluate import publish
    from oresmith.evaluation.problems import problems_of_file
    from oresmith.param_models import Rollout
    from tests.evaluation.scripted import Scripted, expert, looping, never

    products = list(documents(1, 20_000))
    counts = {
        name: LevelCounts(**{f"L{n}": many // LEVELS for n in range(1, LEVELS + 1)}) for name, many in PROBLEMS.items()
    }
    definition = SuiteDefinition(
        schema="oresmith.suite/1", suite="bench", version=1, opens="2026-06-01", counts=Counts(**counts)
    )
    home.mkdir(parents=True, exist_ok=True)
    (home / "catalogue.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in products))
    with index_of(products) as shop:
        suite = make_suite(definition, products, shop, 1)
        (home / "problems.jsonl").write_bytes(suite_jsonl(suite))
        chosen = problems_of_file(home / "problems.jsonl")
        skilled = expert([case.problem for case in chosen.cases], shop)
        policies = {0: skilled, 1: never, 2: looping}

        def write(request: Any, turn: int) -> Any:
            problem, sample, _ = request.key.rsplit("/", 2)
            kind = (hash_of(problem) + int(sample)) % 4
            return policies.get(kind - 1, skilled)(request, turn)

        settings = Rollout(samples=PLAYED, temperature=1.0, max_turns=16)
        return publish(
            Scripted(write, context=10**6),
            chosen,
            {"": shop},
            home / "played",
            name="scripted",
            settings=settings,
            lock="played",
            observed=home / "played.json",
            quiet=True,
        ).target


def hash_of(text: str) -> int:
    """A number that belongs to a text, the same in every process."""
    from hashlib import sha256

    return sha256(text.encode()).digest()[0]


def score(home: str, rollouts: str, workers: str) -> dict[str, Any]:
    """Score all; wall seconds, CPU seconds of all processes, and what came out."""
    from oresmith.evaluation.scored import publish_scores, score_folder

    folder = Path(home)
    before, begin = _cpu(), time.perf_counter()
    scored = score_folder(
        folder / f"rollouts-{rollouts}", folder / "problems.jsonl", folder / "catalogue.jsonl", workers=int(workers)
    )
    publish_scores(scored, folder / "scores", lock="scores")
    wall = time.perf_counter() - begin
    overall = scored.scores.overall
    return {
        "seconds": wall,
        "cpu": _cpu() - before,
        "rollouts": overall.rollouts,
        "problems": overall.problems,
        "asr": str(overall.asr),
        "failures": {name: rate.k for name, rate in overall.failures.items()},
    }


def _cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measured(home: Path, rollouts: int, workers: int) -> dict[str, Any]:
    """Make what is missing, and score it in a fresh process."""
    make(home, rollouts)
    arguments = (str(home), str(rollouts), str(workers))
    done = in_fresh_process("benchmarks.rescoring:score", *arguments, ready="oresmith.evaluation.scored")
    found: dict[str, Any] = done["result"]
    if found["rollouts"] != -(-rollouts // sum(PROBLEMS.values())) * sum(PROBLEMS.values()):
        raise RuntimeError(f"{found['rollouts']} rollouts instead of {rollouts}")
    return found | {"rss": done["rss"]}


def bench(settings: Settings) -> Section:
    """The table of `make bench`: at the usual 20,000 rows, 100,000 rollouts."""
    rollouts = settings.rows * TARGET_ROLLOUTS // 20_000
    workers = min(WORKERS, len(os.sched_getaffinity(0)))
    found = measured(settings.home / "rescoring", rollouts, workers)
    section = Section(
        title=f"Scoring {rollouts:,} rollouts of {found['problems']} problems with {workers} processes",
        columns=("rollouts", "s", "CPU s", "rollouts/s", "peak MB of the first process"),
    )
    section.rows.append(
        (
            f"{rollouts:,}",
            f"{found['seconds']:.1f}",
            f"{found['cpu']:.1f}",
            f"{rollouts / found['seconds']:,.0f}",
            f"{found['rss'] / 1e6:.0f}",
        )
    )
    section.numbers = {
        "seconds": round(found["seconds"], 2),
        "cpu seconds": round(found["cpu"], 2),
        "rollouts": rollouts,
    }
    section.notes.append(f"ASR {found['asr']}; failures {found['failures']}")
    if rollouts == TARGET_ROLLOUTS:
        section.notes.append(f"seconds {verdict(found['seconds'], TARGET_SECONDS, at_least=False)}")
    return section


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=TARGET_ROLLOUTS)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--dir", type=Path, required=True)
    asked = parser.parse_args()
    print(json.dumps(measured(asked.dir.resolve(), asked.rollouts, asked.workers), indent=1))
