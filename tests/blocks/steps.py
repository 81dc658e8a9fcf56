"""Pipeline steps that tests give to workers, which import them by name."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.filters.base_filter import BaseFilter

from oresmith.blocks.accounts import Accounts, InputFile
from oresmith.blocks.reader import TraceReader
from oresmith.blocks.rejects import RejectWriter
from oresmith.blocks.writers import TrajectoryWriter
from oresmith.errors import ParameterError
from oresmith.records import Format, Message, Problem, Trajectory


class Canonical(PipelineStep):  # type: ignore[misc]
    """The shortest normaliser: rows to trajectories."""

    type, name = "test", "canonical"

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        for document in data:
            row = document.metadata.pop("row")
            document.metadata["trajectory"] = Trajectory(
                trajectory_id=document.id,
                identity="i",
                content="c",
                source=document.metadata["source"],
                format=Format.SN15_ENVELOPE,
                problem=Problem(problem_id=str(row.get("problem_id")) if isinstance(row, dict) else None),
                messages=[Message(role="user", content=str(row))],
                extra={"row": row},
            )
            yield document


class OddProblems(BaseFilter):  # type: ignore[misc]
    """Rejects odd problems with two reasons and evidence; in batches if asked."""

    name = "odd"

    def filter(self, doc: Any) -> bool | tuple[bool, str]:
        problem = str(doc.metadata["trajectory"].problem.problem_id)
        if problem[-1] in "13579":
            doc.metadata.update(reasons=["outcome", "reasoning"], evidence={"score": 0.0})
            return False, "outcome"
        return True

    def filter_batch(self, batch: list[Any]) -> list[bool | tuple[bool, str]]:
        return [self.filter(doc) for doc in batch]


class Fails(PipelineStep):  # type: ignore[misc]
    """Fails in every shard from the second on, in a chosen way."""

    type, name = "test", "fails"

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        yield from data or ()
        if rank == 0:
            return
        if self.how == "refusal":
            raise ParameterError("of shard", where=str(rank), got="x", todo="y")
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "unpicklable":
            raise UnpicklableError(sys.stderr)
        if self.how == "fault":
            private = "of-a-trace"
            json.loads("[1," + private)
        if self.how == "disk":
            raise OSError(28, "No space left on device", "somewhere")


class UnpicklableError(Exception):
    """Holds something that cannot leave its process."""


class Blocks(PipelineStep):  # type: ignore[misc]
    """Writes the process id to a folder, then waits for a pipe that nobody ever writes to."""

    type, name = "test", "blocks"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        started = os.open(self.folder / "started", os.O_WRONLY)
        os.write(started, f"{os.getpid()}\n".encode())
        (self.folder / "never").open().read()
        yield from ()


def normaliser(out: Path, shards: list[list[InputFile]], *filters: Any, **rules: Any) -> list[Any]:
    """A whole stage: reader, canonical form, filters (classes that take an exclusion writer), writer."""
    accounts = Accounts(out / "accounts")
    rejects = RejectWriter(out / "rejects", "normalize", accounts)
    chosen = [make(exclusion_writer=rejects) for make in filters]
    reader = TraceReader(shards, rejects, **rules)
    return [reader, Canonical(), *chosen, TrajectoryWriter(out / "trajectories", accounts)]
