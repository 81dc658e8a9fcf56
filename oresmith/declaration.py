"""What the owner of a source declares of it: the provenance YAML beside the traces, checked before any file is read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from oresmith.errors import SnapshotError
from oresmith.records import Provenance
from oresmith.yamlfile import READ_FAULTS, read_yaml

KEYED_HASH = re.compile(r"[0-9a-f]{16,64}")
Text = Annotated[str, msgspec.Meta(pattern=r"^[^\x00\ud800-\udfff]+\Z", max_length=4096)]


class TimeRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from", "end": "to"}):
    """Logical time of the snapshot, ISO 8601 UTC, ends included."""

    start: Text
    end: Text


class Declaration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The provenance YAML beside a source: what its owner declares of it (docs/formats.md)."""

    source: Text
    licence: Text
    time_range: TimeRange
    versions: dict[str, str] = {}
    """Versions in force: runtime, scorer, judge, suite."""
    patterns: tuple[Text, ...] = ("**",)
    problems: Text | None = None
    catalogue: Text | None = None
    judgements: Text | None = None
    witness: Text | None = None
    """The arena server's own request log: confirms the call logs of traces that it recorded (docs/arena.md)."""
    truth: Text | None = None
    """What is true of the traces because they were made so; read by the stage that compares findings with it alone."""
    pool: Literal["train", "dev", "heldout"] | None = None
    """The source's wish for its problems; honoured when a problem is first seen, then the ledger rules."""
    trust_rows: bool = False
    """Whether the rows' own columns are true (`traces.Context.trust_rows`). Set it only where no agent, miner or other
    stranger wrote them: a row could otherwise claim another's version, run, validator or outcome."""
    files: dict[str, Provenance] = {}
    """Per trace file, by its path relative to the source: fields of `records.Provenance`."""


def read_declaration(path: Path) -> Declaration:
    """Read and check a provenance YAML.

    Raises:
        SnapshotError: missing, not YAML, an unknown field or a wrong type, naming it.
    """
    try:
        declared = msgspec.convert(read_yaml(path), Declaration)
    except FileNotFoundError as error:
        raise SnapshotError(
            "there is no provenance file", where=str(path), todo="write one: docs/formats.md shows a small example"
        ) from error
    except msgspec.ValidationError as error:
        raise SnapshotError(
            "the provenance file is wrong",
            where=str(path),
            expected="source, licence, time_range and, optionally, versions, patterns, problems, catalogue, files, ..",
            got=str(error)[:300],
        ) from error
    except READ_FAULTS as error:
        raise SnapshotError("the provenance file cannot be read", where=str(path), got=str(error)[:300]) from error
    return _checked(declared, path)


def _checked(declared: Declaration, path: Path) -> Declaration:
    """Refuse times that are none, and a miner's key in clear: what is published must not name who wrote an agent."""
    start, end = (_time(text, f"{path}: time_range") for text in (declared.time_range.start, declared.time_range.end))
    if end < start:
        raise SnapshotError("the time range ends before it begins", where=str(path), got=declared.time_range.end)
    for name, provenance in declared.files.items():
        if provenance.created_at is not None:
            _time(provenance.created_at, f"{path}: files: {name}: created_at")
    for name, provenance in declared.files.items():
        if provenance.miner is not None and not KEYED_HASH.fullmatch(provenance.miner):
            raise SnapshotError(
                "a miner is not given as a keyed hash",
                where=f"{path}: files: {name}: miner",
                expected="16 to 64 hex digits, such as an HMAC-SHA256 of the key under a secret of your own",
                todo="replace the key by its keyed hash",
            )
    return declared


def _time(text: str, where: str) -> datetime:
    """An ISO 8601 time; one without a zone is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise SnapshotError("no ISO 8601 time", where=where, expected="2026-05-01T00:00:00Z", got=text[:80]) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
