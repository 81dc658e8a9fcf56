"""Runs of miners as a datatrove step: one run a shard, so that workers share the work and never the state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from datatrove.pipeline.base import PipelineStep

from oresmith.arena.miners.session import Runtime
from oresmith.blocks.packing import TALKS, PackedLines
from oresmith.records import Problem


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One agent version on one suite on one day; field names are those of `records.Provenance` where it has them."""

    family: str
    version: int
    agent: str
    miner: str
    run_id: str
    race_id: str
    validator: str
    runtime: Runtime
    day: str
    """ISO 8601 UTC."""
    start_ms: int
    seed: int
    file: str
    """Path of the trace file, relative to the recording."""
    witness: bool


class PlayRuns(PipelineStep):  # type: ignore[misc]
    """Plays run `rank` of the plan and writes its trace file and its parts of truth and witness.

    Args:
        runs: the plan.
        problems: the suite, in order.
        index: directory of the catalogue's index, opened by each worker.
        target: the recording's directory.
        parts: where truth-NNNNN.jsonl and witness-NNNNN.jsonl go.
    """

    type = "arena"
    name = "play"

    def __init__(
        self, runs: Sequence[Run], problems: Sequence[Problem], index: Path, target: Path, parts: Path
    ) -> None:
        super().__init__()
        self.runs, self.problems = list(runs), list(problems)
        self.index, self.target, self.parts = index, target, parts

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Play one run; yields nothing, since envelopes go to files as lines."""
        from oresmith.arena.search import Searcher

        self.parts.mkdir(parents=True, exist_ok=True)
        run = self.runs[rank]
        truth: list[bytes] = []
        with Searcher.open(self.index) as shop, (self.parts / f"witness-{rank:05d}.jsonl").open("wb") as seen:
            write_packed(self.target / run.file, self._envelopes(run, shop, truth, seen), TALKS)
        (self.parts / f"truth-{rank:05d}.jsonl").write_bytes(b"".join(line + b"\n" for line in truth))
        yield from data or ()

    def _envelopes(self, run: Run, shop: Any, truth: list[bytes], seen: Any) -> Iterator[bytes]:
        from oresmith.arena.miners import play_run
        from oresmith.arena.witness import entry_line

        played = play_run(
            shop,
            self.problems,
            family=run.family,
            version=run.version,
            seed=run.seed,
            runtime=run.runtime,
            start_ms=run.start_ms,
            run_id=run.run_id,
            declared_version=run.agent,
        )
        for number, one in enumerate(played, start=1):
            truth.append(msgspec.json.encode(one.truth | {"file": run.file, "line": number}))
            if run.witness:
                seen.writelines(map(entry_line, one.witness))
            yield one.line


def write_packed(path: Path, lines: Iterable[bytes], frame: int) -> None:
    """Write lines, without their ends, `frame` of them to a zstd frame."""
    with PackedLines(path, frame) as writer:
        for line in lines:
            writer.add(line)
