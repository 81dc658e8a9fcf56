"""The datatrove steps of the corpus: read the trajectories that a plan asks for, measure them, write their rows.

A task is one shard of one snapshot. Its plan is a Parquet file of the wanted rows in (file, line) order, which is the
order of the trajectories in the shard: both are read once, side by side, whatever their number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from oresmith.blocks.writers import damaged
from oresmith.corpus.guard import touched
from oresmith.corpus.plan import KTO, MEASURED, SUBTASK
from oresmith.corpus.problems import read_columns
from oresmith.corpus.rows import Dialogue, Renderer, dialogue, row_bytes, trajectory_row, view_rows
from oresmith.corpus.shards import Layout, SplitFiles
from oresmith.errors import OresmithError
from oresmith.leakage.ledger import TRAIN
from oresmith.lines.framing import BadLine, Limits, read_lines
from oresmith.records import Trajectory

_OWN_FILES = Limits(max_line_bytes=512 * 1024 * 1024, max_ratio=1e6)
_BATCH = 512
_MEASURES = pa.schema(
    [
        ("n", pa.int64()),
        ("row_bytes", pa.int64()),
        ("recommends", pa.list_(pa.string())),
        ("views_since", pa.int64()),
        ("unfit", pa.string()),
    ]
)


class Shard(NamedTuple):
    """One file of normalised trajectories."""

    order: int
    """Place of the snapshot."""
    snapshot: str
    number: int
    path: Path

    @property
    def key(self) -> str:
        """Name that sorts as the rows do."""
        return f"{self.order:03d}-{self.snapshot}-{self.number:05d}"


class _Place(msgspec.Struct):
    file: str
    line: int


class _Peek(msgspec.Struct):
    source: _Place


def input_shards(data: Path, names: list[str]) -> list[Shard]:
    """All files of normalised trajectories, in the order of their rows.

    Raises:
        OresmithError: a snapshot has none.
    """
    shards: list[Shard] = []
    for order, name in enumerate(names):
        folder = data / "normalize" / name / "trajectories"
        paths = sorted(folder.glob("*.jsonl*"))
        if not paths:
            raise OresmithError("there are no normalised trajectories", where=str(folder), todo="run `dvc repro`")
        shards += [Shard(order, name, int(path.name.partition(".")[0]), path) for path in paths]
    return shards


def write_plans(wanted: pl.DataFrame, shards: list[Shard], data: Path, folder: Path) -> list[Shard]:
    """Write each shard's plan, `folder/<key>.parquet`, and return the shards of which rows are wanted."""
    folder.mkdir(parents=True)
    files = pl.concat([_files_of(shard, data) for shard in shards])
    placed = wanted.join(files, on=["order", "file"], how="left", maintain_order="left")
    parts = placed.partition_by("shard", as_dict=True, include_key=False)
    for shard in shards:
        if (part := parts.get((shard.key,))) is not None:
            part.sort("file", "line").write_parquet(folder / f"{shard.key}.parquet", row_group_size=_BATCH)
    return [shard for shard in shards if (shard.key,) in parts]


def _files_of(shard: Shard, data: Path) -> pl.DataFrame:
    """The input files whose trajectories a shard holds: whole files, so that a row's file names its shard."""
    index = data / "normalize" / shard.snapshot / "index" / f"{shard.number:05d}.parquet"
    files = read_columns(index, ["file"], "rows of the index").unique()
    return files.with_columns(pl.lit(shard.order, pl.Int64).alias("order"), pl.lit(shard.key).alias("shard"))


class WantedReader(PipelineStep):  # type: ignore[misc]
    """Yields the wanted trajectories of a shard; metadata: `trajectory`, `dialogue` and `facts` (the plan's row).

    Args:
        shards: by task; see `write_plans`.
        plans: the folder of the plans.
        renderer: re-checks rows of the views.
    """

    type = "reader"
    name = "wanted trajectories"

    def __init__(self, shards: list[Shard], plans: Path, renderer: Renderer | None = None) -> None:
        super().__init__()
        self.shards, self.plans, self.renderer = shards, plans, renderer

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents of task `rank`.

        Raises:
            OresmithError: the shard is damaged, or lacks a wanted row.
        """
        shard = self.shards[rank]
        wanted = _plan_rows(self.plans / f"{shard.key}.parquet")
        facts = next(wanted, None)
        peek, decode = msgspec.json.Decoder(_Peek).decode, msgspec.json.Decoder(Trajectory).decode
        for line in read_lines(shard.path, _OWN_FILES):
            if facts is None:
                break
            if isinstance(line, BadLine):
                raise damaged(shard.path, line.number, line.reason.value)
            try:
                place = peek(line.data).source
                if (place.file, place.line) != (facts["file"], facts["line"]):
                    continue
                trajectory = decode(line.data)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise damaged(shard.path, line.number, str(error)) from error
            found = dialogue(trajectory, self.renderer)
            identity = trajectory.trajectory_id
            metadata = {"trajectory": trajectory, "dialogue": found, "facts": facts}
            yield Document(text=identity, id=identity, metadata=metadata)
            facts = next(wanted, None)
        if facts is not None:
            where = f"{shard.path}, {facts['file']}:{facts['line']}"
            raise OresmithError("a decided row is not among the trajectories", where=where, todo="run `dvc repro`")


class Measurer(PipelineStep):  # type: ignore[misc]
    """Writes what only the dialogue can say: bytes of the row, guarded products touched, fitness for the views.

    Args:
        folder: takes `<rank>.parquet`.
        golds: JSON file of `problems.guarded_golds`; a file, because each task unpickles its steps.
    """

    type = "writer"
    name = "measures"

    def __init__(self, folder: Path, golds: Path) -> None:
        super().__init__()
        self.folder, self.golds = folder, golds

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Measure all documents and pass them on."""
        golds: dict[str, int] = json.loads(self.golds.read_bytes())
        found: dict[str, list[Any]] = {name: [] for name in _MEASURES.names}
        for document in data:
            trajectory, spoken, facts = _parts(document)
            found["n"].append(facts["n"])
            found["row_bytes"].append(row_bytes(trajectory_row(trajectory, spoken, facts)))
            guarded = touched(trajectory, golds)
            found["recommends"].append(guarded.recommends)
            found["views_since"].append(guarded.views_since)
            found["unfit"].append(spoken.unfit)
            yield document
        self.folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(found, schema=_MEASURES), self.folder / f"{rank:05d}.parquet")


class RowWriter(PipelineStep):  # type: ignore[misc]
    """Writes the rows of `trajectories`, `subtask`, `sft` and `kto` to `folder/<config>/`, one set of files a shard.

    Args:
        shards: by task.
        folder: see `shards.place_parts`.
        layout: bounds of row groups and files.
    """

    type = "writer"
    name = "rows"

    def __init__(self, shards: list[Shard], folder: Path, layout: Layout) -> None:
        super().__init__()
        self.shards, self.folder, self.layout = shards, folder, layout

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Write all documents' rows and pass the documents on."""
        key = self.shards[rank].key
        open_files: dict[tuple[str, str], SplitFiles] = {}
        with ExitStack() as stack:
            for document in data:
                trajectory, spoken, facts = _parts(document)
                for config, split, row in _rows(trajectory, spoken, facts):
                    files = open_files.get((config, split))
                    if files is None:
                        files = SplitFiles(self.folder / config, config, f"{split}-{key}", self.layout)
                        open_files[config, split] = stack.enter_context(files)
                    files.add(row)
                yield document


def _rows(trajectory: Trajectory, spoken: Dialogue, facts: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    place = facts["place"]
    if place == SUBTASK:
        yield "subtask", TRAIN, trajectory_row(trajectory, spoken, facts)
    elif place != KTO:
        yield "trajectories", place, trajectory_row(trajectory, spoken, facts)
    yield from view_rows(trajectory.trajectory_id, spoken, facts)


def read_measures(folder: Path) -> pl.DataFrame:
    """What the measurers of all tasks wrote: `n` and the columns of `plan.MEASURED`."""
    paths = sorted(folder.glob("*.parquet")) if folder.exists() else []
    empty = pl.DataFrame(schema={"n": pl.Int64(), **MEASURED})
    return pl.concat([empty, *(pl.read_parquet(path) for path in paths)])


def _plan_rows(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH):
            yield from batch.to_pylist()


def _parts(document: Document) -> tuple[Trajectory, Dialogue, dict[str, Any]]:
    found = document.metadata
    return found["trajectory"], found["dialogue"], found["facts"]
