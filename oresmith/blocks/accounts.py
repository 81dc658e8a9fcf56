"""Counts of rows per input file and shard, so that `read == kept + rejected` can be asserted after a run.

One `Accounts` object is shared by the steps of a pipeline: whoever reads, rejects or keeps a row says so, and writes
the shard's file when it is done; the last one to finish leaves the complete counts. Nothing is kept when it is pickled,
so a worker starts at zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from oresmith.errors import AccountingError
from oresmith.reasons import Reason
from oresmith.records import Record, Source


class InputFile(Record, frozen=True):
    """One file of a snapshot, as its manifest lists it."""

    path: str
    """Where it lies now."""
    file: str
    """Path relative to the snapshot's root: what records and accounts call it."""
    snapshot: str
    sha256: str = ""
    size: int = 0
    """Bytes as stored."""


class FileAccount(msgspec.Struct, kw_only=True):
    """What became of the rows of one input file in one shard."""

    snapshot: str
    file: str
    read: int = 0
    """Lines, or rows of an earlier stage's output; a damaged rest of a stream counts as one line."""
    bytes: int = 0
    """Of the decompressed stream, line ends included; 0 where rows and not files were read."""
    unreadable: int = 0
    """Rejected by the reader."""
    forwarded: int = 0
    """Passed on by the reader."""
    kept: int = 0
    """Written by the last writer."""
    rejected: dict[str, int] = msgspec.field(default_factory=dict)
    """Deciding reason -> rows, those of the reader included."""
    stream: Reason | None = None
    """STREAM_TRUNCATED, STREAM_CORRUPT or BOMB where the stream broke off and the parameters accept it."""


def shard_name(rank: int) -> str:
    """Stem of a shard's files: the number of the shard, never of the worker."""
    return f"{rank:05d}"


def shard_files(files: Iterable[InputFile], max_bytes: int) -> list[list[InputFile]]:
    """Put files, sorted by snapshot and name, into shards of at most `max_bytes` stored bytes (or one larger file).

    The result depends on the files alone, so that neither their order nor the number of workers changes any output.
    """
    shards: list[list[InputFile]] = []
    room = 0
    for file in sorted(files, key=lambda file: (file.snapshot, file.file)):
        if not shards or file.size > room:
            shards.append([])
            room = max_bytes
        shards[-1].append(file)
        room -= file.size
    return shards


class Accounts:
    """Counts rows by shard and input file and writes `folder/<shard>.json`, a list of `FileAccount`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shards: dict[int, dict[tuple[str, str], FileAccount]] = {}

    def __reduce__(self) -> tuple[type[Accounts], tuple[Path]]:
        return type(self), (self.folder,)

    def file(self, rank: int, source: InputFile | Source) -> FileAccount:
        """The account of a row's input file, in order of first use."""
        shard = self._shards.setdefault(rank, {})
        key = (source.snapshot, source.file)
        account = shard.get(key)
        if account is None:
            account = shard[key] = FileAccount(snapshot=source.snapshot, file=source.file)
        return account

    def reject(self, rank: int, source: Source, reason: str) -> None:
        """Count a rejected row under the reason that decides."""
        rejected = self.file(rank, source).rejected
        rejected[reason] = rejected.get(reason, 0) + 1

    def save(self, rank: int) -> None:
        """Write the shard's counts as they stand; called by each step at its end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        accounts = list(self._shards.get(rank, {}).values())
        for account in accounts:
            account.rejected = dict(sorted(account.rejected.items()))
        (self.folder / f"{shard_name(rank)}.json").write_bytes(msgspec.json.encode(accounts) + b"\n")


def read_accounts(folder: Path, shards: int) -> Iterator[FileAccount]:
    """The accounts of shards 0 to `shards` - 1, in order.

    Raises:
        AccountingError: a shard has no account, or one that is not of this form.
    """
    for rank in range(shards):
        path = folder / f"{shard_name(rank)}.json"
        try:
            yield from msgspec.json.decode(path.read_bytes(), type=list[FileAccount])
        except (FileNotFoundError, msgspec.MsgspecError) as error:
            raise AccountingError(
                "a shard has no readable account", where=str(path), expected=f"accounts of {shards} shards"
            ) from error


def check_accounts(folder: Path, shards: int) -> list[FileAccount]:
    """Assert for each file that all rows read were kept or rejected, and return the accounts.

    Raises:
        AccountingError: naming the first file whose numbers do not add up.
    """
    accounts = list(read_accounts(folder, shards))
    for account in accounts:
        rejected = sum(account.rejected.values())
        if account.read != account.kept + rejected or account.read != account.forwarded + account.unreadable:
            raise AccountingError(
                "rows are unaccounted for",
                where=f"{account.snapshot}/{account.file}",
                expected="read = kept + rejected = forwarded + unreadable",
                got=f"read {account.read}, kept {account.kept}, rejected {rejected}, "
                f"forwarded {account.forwarded}, unreadable {account.unreadable}",
                todo="this is a fault of the pipeline, not of the input: report it with these numbers",
            )
    return accounts
