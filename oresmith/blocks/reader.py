"""The datatrove reader of raw traces: every line becomes a document or a reject, and is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from oresmith.blocks.accounts import Accounts, FileAccount, InputFile
from oresmith.blocks.rejects import RejectWriter
from oresmith.errors import OresmithError
from oresmith.lines.decoding import MAX_DEPTH, BadJsonError, decode
from oresmith.lines.framing import BadLine, Limits, Line, read_lines
from oresmith.reasons import Reason
from oresmith.records import Reject, Source

_BROKEN = (Reason.STREAM_TRUNCATED, Reason.STREAM_CORRUPT, Reason.BOMB)


class TraceReader(PipelineStep):  # type: ignore[misc]
    """Reads JSONL, gzip and zstd files of traces; documents carry `row` (the decoded JSON) and `source` as metadata.

    Args:
        shards: the files of each task; see `accounts.shard_files`. The number of tasks is their number.
        rejects: takes the lines that cannot be read; its stage's name is theirs.
        limits: of lines and streams.
        max_depth: of the JSON.
        duplicate_keys: reject lines in which an object holds a key twice (costs about 0.7 of the parsing itself).
        accept_truncated: go on with what could be read of a damaged stream; otherwise the shard fails at its end.
    """

    type = "reader"
    name = "traces"

    def __init__(
        self,
        shards: list[list[InputFile]],
        rejects: RejectWriter,
        *,
        limits: Limits | None = None,
        max_depth: int = MAX_DEPTH,
        duplicate_keys: bool = True,
        accept_truncated: bool = False,
    ) -> None:
        super().__init__()
        self.shards, self.rejects, self.limits = shards, rejects, limits or Limits()
        self.max_depth, self.duplicate_keys = max_depth, duplicate_keys
        self.accept_truncated = accept_truncated

    @property
    def accounts(self) -> Accounts:
        """The accounts that the reject writer counts in: there is one for all steps."""
        return self.rejects.accounts

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents of shard `rank`, files in the given order.

        Raises:
            OresmithError: a stream of the shard is truncated, corrupt or a bomb, and `accept_truncated` is off.
        """
        if data:
            yield from data
        broken: list[str] = []
        with self.rejects as rejects:
            rejects.open(rank)
            for file in self.shards[rank]:
                account = self.accounts.file(rank, file)
                yield from self._read(file, account, rank)
                if account.stream:
                    broken.append(f"{file.file}: {account.stream} after {account.forwarded} rows")
        self.accounts.save(rank)
        if broken and not self.accept_truncated:
            raise OresmithError(
                "input streams are damaged",
                where=f"snapshot {self.shards[rank][0].snapshot}",
                expected="streams that can be read to their end",
                got="; ".join(broken),
                todo="fetch the files again, or set accept_truncated to go on with the rows before the damage",
            )

    def _read(self, file: InputFile, account: FileAccount, rank: int) -> Iterator[Document]:
        spent, began = 0.0, perf_counter()
        for line in read_lines(Path(file.path), self.limits):
            account.read += 1
            account.bytes = line.end
            bad = line if isinstance(line, BadLine) else None
            row: Any = None
            if isinstance(line, Line):
                source = _source(file, line, len(line.data))
                try:
                    row = decode(line.data, max_depth=self.max_depth, duplicate_keys=self.duplicate_keys)
                except BadJsonError as error:
                    bad = BadLine(
                        line.number, line.offset, len(line.data), error.reason, error.detail, error.position, line.end
                    )
            if bad:
                account.unreadable += 1
                account.stream = bad.reason if bad.reason in _BROKEN else account.stream
                self._reject(file, bad, rank)
                continue
            account.forwarded += 1
            name = f"{file.snapshot}/{file.file}:{line.number}"
            spent += perf_counter() - began
            yield Document(text=name, id=name, metadata={"row": row, "source": source})
            began = perf_counter()
        self.stats.time_stats.update(spent + perf_counter() - began, "file")
        self.stat_update("read", value=account.read, unit="file")
        self.stat_update("unreadable", value=account.unreadable, unit="file")

    def _reject(self, file: InputFile, bad: BadLine, rank: int) -> None:
        evidence: dict[str, Any] = {"detail": bad.detail} if bad.detail else {}
        if bad.position is not None:
            evidence["position"] = bad.position
        source = _source(file, bad, bad.length)
        reject = Reject(stage=self.rejects.stage, source=source, reasons=[bad.reason.value], evidence=evidence)
        self.rejects.reject(reject, rank)


def _source(file: InputFile, line: Line | BadLine, length: int) -> Source:
    return Source(
        snapshot=file.snapshot,
        file=file.file,
        file_sha256=file.sha256,
        line=line.number,
        offset=line.offset,
        length=length,
    )
