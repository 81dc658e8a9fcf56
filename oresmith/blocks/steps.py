"""The datatrove steps between reader and writer: rows to trajectories, trajectories to evidence rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol

from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from oresmith.blocks.rejects import RejectWriter
from oresmith.records import Judgement, Reject, Source, Trajectory
from oresmith.traces import CodecError, Context, decode

Place = tuple[str, int]
"""(file, line) inside a snapshot."""


class TraceDecoder(PipelineStep):  # type: ignore[misc]
    """Turns each row into a canonical trajectory; a row of no known format or of a wrong shape is a counted reject.

    Args:
        contexts: what is declared, by file.
        judgements: reasoning scores that stand beside the traces, by (file, line).
        rejects: takes the rows that no codec can read.
    """

    type = "decoder"
    name = "codecs"

    def __init__(
        self, contexts: Mapping[str, Context], judgements: Mapping[Place, Judgement], rejects: RejectWriter
    ) -> None:
        super().__init__()
        self.contexts, self.judgements, self.rejects = contexts, judgements, rejects

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents with `metadata["trajectory"]`; their raw row is dropped."""
        spent = 0.0
        with self.rejects as rejects:
            for document in data:
                began = perf_counter()
                source: Source = document.metadata["source"]
                try:
                    trajectory = decode(document.metadata.pop("row"), self.contexts[source.file], source)
                except CodecError as error:
                    rejects.reject(_refused(rejects.stage, source, error), rank)
                    spent += perf_counter() - began
                    continue
                judgement = self.judgements.get((source.file, source.line))
                if judgement is not None:
                    trajectory.judge = judgement
                document.metadata["trajectory"] = trajectory
                spent += perf_counter() - began
                yield document
        self.stats.time_stats.update(spent, "task")


def _refused(stage: str, source: Source, error: CodecError) -> Reject:
    evidence = {name: text for name in ("what", "expected", "got") if (text := getattr(error, name))}
    return Reject(stage=stage, source=source, reasons=[error.reason.value], evidence=evidence)


class Signal(Protocol):
    """What `SignalStep` needs of a signal (oresmith.evidence.signals)."""

    name: str

    def facts(self, trajectory: Trajectory) -> dict[str, Any]:
        """Columns and values."""


class SignalStep(PipelineStep):  # type: ignore[misc]
    """Adds one signal's facts to `metadata["facts"]` of each document; datatrove times it under the signal's name."""

    type = "evidence"

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.name = signal.name
        super().__init__()

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents."""
        spent, rows = 0.0, 0
        for document in data:
            began = perf_counter()
            facts = document.metadata.setdefault("facts", {})
            facts.update(self.signal.facts(document.metadata["trajectory"]))
            spent += perf_counter() - began
            rows += 1
            yield document
        self.stats.time_stats.update(spent, "task")
        self.stat_update("rows", value=rows, unit="task")


def facts_of(document: Document) -> dict[str, Any]:
    """The evidence row of a document, for `ParquetTableWriter`."""
    facts: dict[str, Any] = document.metadata["facts"]
    return facts


def signal_steps(signals: Sequence[Signal]) -> list[SignalStep]:
    """One step a signal, in their order."""
    return [SignalStep(signal) for signal in signals]
