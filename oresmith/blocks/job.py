"""One shard of a pipeline of datatrove steps, run the same way in this process, in a worker and on Ray."""

from __future__ import annotations

import importlib
import os
import signal
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_tb
from typing import Any

import msgspec

from oresmith.blocks.accounts import shard_name
from oresmith.blocks.lifeline import Identity, end_with, identity
from oresmith.errors import OresmithError

_FRAMES = 6
_LONGEST_TEXT = 300
_quiet: list[Path] = []
"""Folder of the job that this process logs for."""


class StepStats(msgspec.Struct, frozen=True):
    """What one step of a pipeline did, over all shards."""

    name: str
    seconds: float
    """As the step timed itself, other steps' work left out."""
    counts: dict[str, float]


class _Failure(msgspec.Struct):
    """An error on its way from a worker, as JSON: nothing is unpickled that a file holds."""

    kind: str
    """Class name; those of `oresmith.errors` come back as they were, other refusals as `OresmithError`."""
    refusal: dict[str, str]
    """Parts of an `OresmithError`; empty for any other error."""
    text: str
    """Of any error: shard, class, message and the last places in the code, for a report; no value of a variable."""
    system: tuple[int, str, str] | None = None
    """Of an OSError: number, sentence and file; a full disk in a worker is a full disk of the stage."""


class Job:
    """Pickled steps and where their run facts go. Each shard starts from fresh copies, so nothing leaks between them.

    Args:
        steps: datatrove steps; objects that they share stay shared within a shard.
        shards: number of tasks, the `world_size` that steps see.
        folder: fresh directory for logs, statistics and failures of this run.
    """

    def __init__(self, steps: Sequence[Any], shards: int, folder: Path) -> None:
        self.shards, self.folder = shards, folder
        self.stage: Identity = identity()
        for name in ("stats", "failures"):
            (folder / name).mkdir(parents=True)
        (folder / "steps").write_bytes(_dill().dumps(list(steps), recurse=True))

    def begin_worker(self) -> None:
        """Tie a worker process to the stage, and leave an interruption to the stage."""
        if os.getpid() != self.stage.pid:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            end_with(self.stage)

    def run(self, shard: int) -> None:
        """Run all steps for one shard, then note its statistics; a failure is noted too, and raised."""
        from datatrove.utils.stats import PipelineStats

        self._quieten()
        try:
            steps = _dill().loads((self.folder / "steps").read_bytes())
            flow: Any = None
            for step in steps:
                flow = step(flow, shard, self.shards)
            if flow is not None:
                deque(flow, maxlen=0)
        except Exception as error:
            self._note_failure(shard, error)
            if os.getpid() == self.stage.pid:
                raise
            # The noted failure says all there is to say; the error itself may not survive the way between processes.
            raise RuntimeError(f"shard {shard} failed") from None
        _write_whole(self.folder / "stats" / f"{shard_name(shard)}.json", PipelineStats(steps).to_json().encode())

    def failure(self) -> Exception | None:
        """The failure of the first shard that failed, as it was raised there."""
        from oresmith import errors

        for path in sorted((self.folder / "failures").glob("*.json")):
            told = msgspec.json.decode(path.read_bytes(), type=_Failure)
            kind = getattr(errors, told.kind, errors.OresmithError)
            if told.system:
                return OSError(*told.system)
            return kind(**told.refusal) if told.refusal else RuntimeError(told.text)
        return None

    def statistics(self) -> list[StepStats]:
        """Per step, the sums over all shards."""
        steps: list[tuple[str, list[float], dict[str, float]]] = []
        for path in sorted((self.folder / "stats").glob("*.json")):
            for place, step in enumerate(msgspec.json.decode(path.read_bytes())):
                if place == len(steps):
                    steps.append((step["name"], [0.0], {}))
                _, seconds, counts = steps[place]
                seconds[0] += _total(step["time_stats"])
                for name, value in step["stats"].items():
                    counts[name] = counts.get(name, 0) + _total(value)
        return [StepStats(name, seconds[0], counts) for name, seconds, counts in steps]

    def _note_failure(self, shard: int, error: Exception) -> None:
        refusal = {}
        if isinstance(error, OresmithError):
            refusal = {part: getattr(error, part) for part in ("what", "where", "expected", "got", "todo")}
        kind = type(error).__name__
        text = f"shard {shard}: {kind}: {str(error)[:_LONGEST_TEXT]} (at {_places(error)})"
        failure = _Failure(kind=kind, refusal=refusal, text=text)
        if isinstance(error, OSError) and error.errno:
            failure.system = (error.errno, error.strerror or "", str(error.filename or ""))
        _write_whole(self.folder / "failures" / f"{shard_name(shard)}.json", msgspec.json.encode(failure))

    def _quieten(self) -> None:
        """Send datatrove's warnings to a file; once a process, since it costs 20 ms."""
        if _quiet != [self.folder]:
            from loguru import logger

            logger.remove()
            # `diagnose` would print the values of variables, and so trace text, into the log.
            logger.add(self.folder / "warnings.log", level="WARNING", diagnose=False, backtrace=False)
            _quiet[:] = [self.folder]


def _places(error: Exception) -> str:
    """The last frames of an error, the innermost first: `file:line in function`, without any value."""
    last = deque(walk_tb(error.__traceback__), maxlen=_FRAMES)
    places = []
    for frame, line in reversed(last):
        code = frame.f_code
        places.append(f"{'/'.join(Path(code.co_filename).parts[-3:])}:{line} in {code.co_name}")
    return ", from ".join(places)


def _write_whole(path: Path, content: bytes) -> None:
    # The other workers are killed when one fails: what they leave has to be readable.
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def _dill() -> Any:
    # datatrove's filters take lambdas, which pickle cannot carry; datatrove itself brings dill.
    return importlib.import_module("dill")


def _total(value: Any) -> float:
    """A datatrove metric is a plain number or a dict with its total."""
    return float(value["total"] if isinstance(value, dict) else value)
