"""The files of a set of rollouts, written in one pass over the journal, and read back.

* `rollouts.jsonl.zst`: OpenAI rows (`row_of`), which every reader of OpenAI messages takes, ours as a stranger's file.
* `rollouts.parquet`: the same samples as a table (schemas/rollouts.py).
* `atif.jsonl.zst`: ATIF documents.
* `requests.jsonl.zst`: every request and its answer. A request's messages are the first `messages` ones of its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.anyfile import read_any
from oresmith.blocks.packing import TALKS, PackedLines
from oresmith.errors import OresmithError
from oresmith.evaluation.episode import request_key, seed_of
from oresmith.evaluation.journal import Journal
from oresmith.evaluation.problems import Case
from oresmith.evaluation.records import ROLLOUT_SCHEMA, ChatReply, Rollout
from oresmith.records import Format, Reject, Source, Trajectory
from oresmith.traces import Context, decode, encode, to_openai
from schemas.corpus import MESSAGES
from schemas.rollouts import ARROW

ROLLOUTS, TABLE, ATIF, REQUESTS = "rollouts.jsonl.zst", "rollouts.parquet", "atif.jsonl.zst", "requests.jsonl.zst"
BESIDE = ("calls", "usage")
"""Columns of a row that only `rollouts.jsonl.zst` holds."""
_GROUP = 512
"""Rows of a row group of the table."""


class Writer:
    """Writes the files of one model's rollouts.

    Args:
        folder: exists, and is empty.
        model: its name.
        run: digest of the configuration.
        tools: definitions that the model was given.
    """

    def __init__(self, folder: Path, model: str, run: str, tools: list[dict[str, Any]]) -> None:
        self.folder, self.model, self.run, self.tools = folder, model, run, tools
        self._place = 0
        self._line = 0

    def write(self, cases: Sequence[Case], samples: int, journal: Journal) -> dict[str, int]:
        """Write all samples, problem by problem; returns the rows of each file.

        Raises:
            OresmithError: the journal lacks a sample.
        """
        asked = 0
        with ExitStack() as stack:
            rollouts, atif, requests = (
                stack.enter_context(PackedLines(self.folder / name, TALKS)) for name in (ROLLOUTS, ATIF, REQUESTS)
            )
            table = stack.enter_context(_Table(self.folder / TABLE))
            for case in cases:
                for sample in range(samples):
                    if (case.name, sample) not in journal:
                        raise OresmithError("a sample was not played", where=request_key(case.name, sample, 0))
                    rollout = journal.get((case.name, sample))
                    row = self.row_of(case, rollout)
                    trajectory = self._seal(row, rollouts)
                    atif.add(msgspec.json.encode(encode(trajectory, Format.ATIF)))
                    table.add(table_row(row, trajectory))
                    for line in request_rows(rollout):
                        requests.add(msgspec.json.encode(line))
                        asked += 1
        return {ROLLOUTS: self._line, TABLE: self._line, ATIF: self._line, REQUESTS: asked}

    def row_of(self, case: Case, rollout: Rollout) -> dict[str, Any]:
        """The OpenAI row of a sample, with what evaluation adds beside the columns that every reader knows."""
        bare = Trajectory(trajectory_id="", identity="", content="", source=_NOWHERE, format=Format.OPENAI)
        bare.messages = rollout.messages
        calls = [call for message in rollout.messages for call in message.tool_calls]
        known = {
            "problem_id": rollout.problem_id,
            "query": case.problem.query,
            "category": case.problem.category,
            "difficulty": case.problem.difficulty,
            "snapshot": case.shop or None,
        }
        return {key: value for key, value in known.items() if value is not None} | {
            "problem": rollout.problem,
            "model": self.model,
            "sample": rollout.sample,
            "seed": rollout.seed,
            "finish": rollout.ended,
            "turns": sum(message.role == "assistant" for message in rollout.messages),
            "malformed": rollout.malformed,
            "usage": {name: _total(rollout.replies, name) for name in ("prompt_tokens", "completion_tokens")},
            "agent_version": self.model,
            "run_id": self.run,
            "trajectory_id": f"{self.model}/{rollout.problem}/{rollout.sample}",
            "messages": to_openai(bare)["messages"],
            "tools": self.tools,
            "calls": [
                {"id": call.id, "name": call.name, "result": result}
                for call, result in zip(calls, rollout.results, strict=True)
            ],
        }

    def _seal(self, row: dict[str, Any], file: PackedLines) -> Trajectory:
        """Write a row, and read it as a stranger would; the trajectory is without the columns `BESIDE`."""
        line = msgspec.json.encode(row)
        file.add(line)
        self._line += 1
        source = Source(
            snapshot="", file=ROLLOUTS, file_sha256="", line=self._line, offset=self._place, length=len(line)
        )
        self._place += len(line) + 1
        kept = {key: value for key, value in row.items() if key not in BESIDE}
        return decode(kept, Context(source=source, source_name=ROLLOUTS, trust_rows=True))


def request_rows(rollout: Rollout) -> Iterator[dict[str, Any]]:
    """One row a request: its key and seed, how many of the row's first messages it held, and the reply as it came."""
    said = [place for place, message in enumerate(rollout.messages) if message.role == "assistant"]
    for turn, reply in enumerate(rollout.replies):
        yield {
            "key": request_key(rollout.problem, rollout.sample, turn),
            "problem": rollout.problem,
            "sample": rollout.sample,
            "turn": turn,
            "seed": seed_of(rollout.seed, turn),
            # A reply that never came, or came too late, is no message.
            "messages": said[turn] if turn < len(said) else len(rollout.messages),
            "reply": reply,
        }


def table_row(row: dict[str, Any], trajectory: Trajectory) -> dict[str, Any]:
    """The table's row of a sample."""
    own: dict[str, Any] = {
        "row_id": trajectory.trajectory_id,
        "messages": [msgspec.json.encode(message).decode() for message in row["messages"]],
        "tools": msgspec.json.encode(row["tools"]).decode(),
        "system_prompt": trajectory.system_prompt,
        "schema": ROLLOUT_SCHEMA,
    }
    usage: dict[str, int | None] = row["usage"]
    known: dict[str, Any] = {name: row.get(name) for name in ARROW.names}
    return known | usage | own


def read_rollouts(folder: Path) -> Iterator[Trajectory]:
    """The rollouts of a set, as `oresmith.traces` reads them; what evaluation adds is in `extra["columns"]`.

    Args:
        folder: an output of the stage `rollout` or of `oresmith evaluate`.

    Raises:
        OresmithError: no such file, or a row that cannot be read.
    """
    path = folder / ROLLOUTS
    for found in read_any(path):
        if isinstance(found, Reject):
            raise OresmithError("no rollout", where=f"{path}:{found.source.line}", got=", ".join(found.reasons))
        yield found


class _Table:
    """A Parquet file of rows, a row group at a time."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetWriter(path, ARROW, compression="zstd")
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None and self._rows:
            self._flush()
        self._file.close()

    def add(self, row: dict[str, Any]) -> None:
        """Take one row."""
        self._rows.append(row)
        if len(self._rows) == _GROUP:
            self._flush()

    def _flush(self) -> None:
        columns = [_array([row[field.name] for row in self._rows], field.type) for field in ARROW]
        self._file.write_table(pa.Table.from_arrays(columns, schema=ARROW))
        self._rows.clear()


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == MESSAGES:
        lists = pa.array(values, pa.list_(pa.string()))
        texts = pa.ExtensionArray.from_storage(kind.value_type, lists.values)
        return pa.ListArray.from_arrays(lists.offsets, texts, type=kind)
    if isinstance(kind, pa.JsonType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.string()))
    return pa.array(values, kind)


def _total(replies: Sequence[ChatReply], name: str) -> int | None:
    """The sum over all turns; None where one is not counted."""
    counted = [getattr(reply, name) for reply in replies if reply.finish != "error"]
    return None if None in counted else sum(counted)


_NOWHERE = Source(snapshot="", file="", file_sha256="", line=1, offset=0, length=0)
