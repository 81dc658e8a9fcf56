"""One writer for every row that is not passed on: unreadable lines, and what datatrove filters exclude."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

import msgspec

from oresmith.blocks.accounts import Accounts, shard_name
from oresmith.errors import OresmithError
from oresmith.records import Reject, Source, Trajectory

if TYPE_CHECKING:
    from datatrove.data import Document

UNNAMED = "unnamed_filter"
"""Reason of a row that a filter excluded without giving one."""
_LONGEST_REASON = 100


class RejectWriter:
    """Writes `folder/<shard>.jsonl`, one `records.Reject` a line, in the order in which rows are rejected.

    That is input order unless a filter works in batches. Give the same object to the reader and to every filter, as
    `exclusion_writer=`: it may be entered any number of times and counts each row in the accounts. What a document says
    of its rejection stands in its metadata: `filter_reason` (set by datatrove), or `reasons` (list of codes, the
    deciding one first) and `evidence` (dict). Nothing else of a document is written, so no trace text is.
    """

    def __init__(self, folder: Path, stage: str, accounts: Accounts) -> None:
        self.folder, self.stage, self.accounts = folder, stage, accounts
        self._entered = 0
        self._files: dict[int, IO[bytes]] = {}
        self._begun: set[int] = set()
        self._encode = msgspec.json.Encoder().encode

    def __reduce__(self) -> tuple[type[RejectWriter], tuple[Path, str, Accounts]]:
        return type(self), (self.folder, self.stage, self.accounts)

    def __enter__(self) -> RejectWriter:
        self._entered += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered -= 1
        if self._entered == 0:
            self.close()

    def open(self, rank: int) -> IO[bytes]:
        """The shard's file; the first use in a task starts it anew, a later one appends."""
        if rank not in self._files:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{shard_name(rank)}.jsonl"
            self._files[rank] = path.open("ab" if rank in self._begun else "wb")
            self._begun.add(rank)
        return self._files[rank]

    def reject(self, reject: Reject, rank: int) -> None:
        """Write a reject of shard `rank` and count it."""
        self.open(rank).write(self._encode(reject) + b"\n")
        self.accounts.reject(rank, reject.source, reject.reasons[0])

    def write(self, document: Document, rank: int = 0) -> None:
        """Reject a document, as datatrove's filters ask of their `exclusion_writer`.

        Raises:
            OresmithError: the document's metadata names no source, so the row could not be accounted for.
        """
        metadata = document.metadata
        trajectory = metadata.get("trajectory")
        known = isinstance(trajectory, Trajectory)
        source = trajectory.source if known else metadata.get("source")
        if not isinstance(source, Source):
            raise OresmithError("a rejected document has no source", where=f"stage {self.stage}, id {document.id}")
        reasons = metadata.get("reasons") or [str(metadata.get("filter_reason") or UNNAMED)[:_LONGEST_REASON]]
        reject = Reject(
            stage=self.stage,
            source=source,
            reasons=reasons,
            trajectory_id=trajectory.trajectory_id if known else None,
            problem_id=trajectory.problem.problem_id if known else None,
            evidence=metadata.get("evidence", {}),
        )
        self.reject(reject, rank)

    def close(self) -> None:
        """Close the files and save the accounts of their shards."""
        for rank, file in self._files.items():
            file.close()
            self.accounts.save(rank)
        self._files.clear()


def read_rejects(folder: Path) -> Iterator[Reject]:
    """All rejects of a stage, shard by shard.

    Raises:
        OresmithError: a file is not of this form.
    """
    decoder = msgspec.json.Decoder(Reject)
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield decoder.decode(line)
                except msgspec.MsgspecError as error:
                    raise OresmithError("this is no reject record", where=f"{path}:{number}", got=str(error)) from error
