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
MAX_REJECTS = 1_000_000
"""Default of the most rejects of one file: a reject takes 200 bytes, and a line of one byte can be its cause."""


class TraceReader(PipelineStep):  # type: ignore[misc]
    """Reads JSONL, gzip and zstd files of traces; documents carry `row` (the decoded JSON) and `source` as metadata.

    Args:
        shards: the files of each task; see `accounts.shard_files`. The number of tasks is their number.
        rejects: takes the lines that cannot be read; its stage's name is theirs.
        limits: of lines and streams.
        max_depth: of the JSON.
        duplicate_keys: reject lines in which an object holds a key twice (costs about 0.7 of the parsing itself).
        max_rejects: lines of one file that the steps of this stage may reject; past them the rest of the file is one
            reject with the reason BOMB and counts as a damaged stream.
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
        max_rejects: int = MAX_REJECTS,
        accept_truncated: bool = False,
    ) -> None:
        super().__init__()
        self.shards, self.rejects, self.limits = shards, rejects, limits or Limits()
        self.max_depth, self.duplicate_keys = max_depth, duplicate_keys
        self.max_rejects, self.accept_truncated = max_rejects, accept_truncated

    @property
    def accounts(self) -> Accounts:
        """The accounts that the reject writer counts in: there is one for all steps."""
        return self.rejects.accounts

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents of shard `rank`, files in the given order.

        Raises:
            OresmithError: a stream of the shard is truncated, corrupt or a bomb, and `accept_truncated` is off; or a
                file is of a kind that is not read at all.
        """
        if data:
            yield from data
        broken: list[str] = []
        with self.rejects as rejects:
            rejects.open(rank)
            for file in self.shards[rank]:
                account = self.accounts.file(rank, file)
                yield from self._read(file, account, rank, broken)
        self.accounts.save(rank)
        if broken and not self.accept_truncated:
            raise OresmithError(
                "input streams are damaged",
                where=f"snapshot {self.shards[rank][0].snapshot}",
                expected="streams that can be read to their end",
                got="; ".join(broken),
                todo="fetch the files again (for a bomb, raise the limit), or set accept_truncated to go on with the "
                "rows before the damage",
            )

    def _read(self, file: InputFile, account: FileAccount, rank: int, broken: list[str]) -> Iterator[Document]:
        spent, began = 0.0, perf_counter()
        for line in self._lines(file, account):
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
                if bad.reason in _BROKEN:
                    account.stream = bad.reason
                    broken.append(f"{file.file}: {bad.reason} after {account.forwarded} rows ({bad.detail})")
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

    def _lines(self, file: InputFile, account: FileAccount) -> Iterator[Line | BadLine]:
        """The lines of a file, until too many were rejected, by whichever step.

        Errors name the file as the source does: where it is stored says nothing to whoever has to mend it.
        """
        try:
            for line in read_lines(Path(file.path), self.limits):
                yield line
                # One comparison does for most files: the sum is taken only where it can be too large.
                if account.read <= self.max_rejects or account.stream:
                    continue
                if sum(account.rejected.values()) > self.max_rejects:
                    detail = f"more than {self.max_rejects} lines of the file cannot be read"
                    yield BadLine(line.number + 1, line.end, 0, Reason.BOMB, detail, None, line.end)
                    return
        except OresmithError as error:
            where = f"snapshot {file.snapshot}: {file.file}"
            raise OresmithError(
                error.what, where=where, expected=error.expected, got=error.got, todo=error.todo
            ) from error

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
