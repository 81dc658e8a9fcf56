"""Source `arena`: play the days of an entry in the embedded world and lay the traces out as any other source's.

What comes out is a directory with a provenance file, the problems, the catalogue and the traces, so that nothing past
it knows that an arena made them; beside them stands the truth, which the stage `truth` alone reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from oresmith.arena.documents import Document, Reading, read_documents
from oresmith.arena.miners import FAMILIES
from oresmith.arena.miners.session import Runtime
from oresmith.arena.search import Searcher, build_index
from oresmith.arena.suites import Suite, base_path, make_suite, read_definition, suite_jsonl, truth_rows
from oresmith.arena.witness import HEAD
from oresmith.blocks.execute import run_pipeline
from oresmith.blocks.packing import RECORDS
from oresmith.declaration import Text
from oresmith.errors import SnapshotError, shown
from oresmith.param_data import Snapshot
from oresmith.playing import PlayRuns, Run, write_packed
from oresmith.sources import check_inside
from oresmith.yamlfile import READ_FAULTS, read_yaml

DAY_MS = 86_400_000
RUNTIMES: tuple[Runtime, ...] = ("old", "new")


class ArenaDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The provenance YAML of an arena: what its owner declares of everything that is played there."""

    source: Text
    licence: Text
    versions: dict[str, str] = {}


class Played(NamedTuple):
    """The sides of a recording that go into its provenance file."""

    declared: ArenaDeclaration
    suite: Suite
    runs: list[Run]


def record(entry: Snapshot, target: Path, *, workers: int, scratch: Path) -> Path:
    """Play all days of the entry.

    Args:
        entry: of source `arena`, checked by `load_params`.
        target: directory to make: provenance.yaml, problems.jsonl, catalogue.jsonl.zst, suite.json, traces/,
            truth.jsonl and, where the entry asks for it, witness.jsonl.zst.
        workers: processes that play at the same time; the bytes do not depend on them.
        scratch: for the index and for parts.

    Returns:
        `target`.

    Raises:
        OresmithError: a suite or catalogue that is missing, wrong or outside the arena's directory, a suite that is not
            played on one of the days, an unknown family of miners, or an unsatisfiable reward, before anything is
            played.
    """
    where = f"snapshot {entry.name}"
    declared = _declared(Path(entry.provenance))
    runs = plan(entry, where)
    definition_file = _checked_suite(entry, where, runs[0].day[:10], runs[-1].day[:10])
    target.mkdir(parents=True)
    scratch.mkdir(parents=True, exist_ok=True)
    catalogue = target / "catalogue.jsonl.zst"
    write_packed(catalogue, (msgspec.json.encode(document) for document in _documents(entry)), RECORDS)
    build_index(read_documents(catalogue), scratch / "index")
    with Searcher.open(scratch / "index") as searcher:
        suite = suite_of(definition_file, searcher, entry.seed or 0)
    (target / "problems.jsonl").write_bytes(suite_jsonl(suite))
    (target / "traces").mkdir()
    step = PlayRuns(runs, [one.problem for one in suite.problems], scratch / "index", target, scratch / "parts")
    run_pipeline([step], tasks=len(runs), workers=workers, scratch=scratch / "run")
    _gather(entry, suite, runs, target, scratch / "parts")
    _declare(entry, Played(declared, suite, runs), target)
    return target


def plan(entry: Snapshot, where: str) -> list[Run]:
    """The runs of an entry: each agent version plays the suite once a day, on the runtime of its version.

    Raises:
        SnapshotError: a family that there is not, and days beyond the calendar.
    """
    unknown = sorted(set(entry.miners or {}) - set(FAMILIES))
    if unknown:
        raise SnapshotError(
            "no such family of miners", where=f"{where}: miners", expected=", ".join(sorted(FAMILIES)), got=unknown[0]
        )
    first = datetime.fromisoformat(entry.day or "").replace(tzinfo=UTC)
    if datetime.max.replace(tzinfo=UTC) - first < timedelta(days=entry.days or 1):
        raise SnapshotError("the calendar ends before the last day does", where=f"{where}: day", got=f"{entry.day}")
    runs: list[Run] = []
    for number in range(entry.days or 1):
        day = first + timedelta(days=number)
        for family, versions in sorted((entry.miners or {}).items()):
            for version in range(versions):
                runs.append(_run(entry, family, version, day, len(runs)))
    return runs


def _checked_suite(entry: Snapshot, where: str, first: str, last: str) -> Path:
    """The file of the entry's suite, once it is known that it, and what it and the entry name, may be played."""
    path = Path(entry.path) / f"{entry.suite}.yaml"
    for name in (path.name, entry.catalogue or ""):
        check_inside(path.parent / name, path.parent, where)
    definition = read_definition(path)
    check_inside(base_path(path, definition) or path, path.parent, where)
    opens, rotates = definition.opens, definition.rotates
    if (opens is not None and first < opens) or (rotates is not None and last >= rotates):
        raise SnapshotError(
            "the suite is not played on all of these days",
            where=f"{where}: day",
            expected=" and ".join([f"from {opens}"] * bool(opens) + [f"before {rotates}"] * bool(rotates)),
            got=f"{first} to {last}",
            todo=f"choose other days, or another version of {path} with other dates",
        )
    return path


def _run(entry: Snapshot, family: str, version: int, day: datetime, place: int) -> Run:
    agent = f"{family}-{version + 1}"
    name = f"{day:%Y-%m-%d}.{_keyed('name', entry.seed, agent)[:10]}"
    return Run(
        family=family,
        version=version,
        agent=f"agent-{_keyed('agent', entry.seed, agent)[:12]}",
        miner=_keyed("miner", entry.seed, agent),
        run_id=f"run-{_keyed('run', entry.seed, entry.suite, agent, day.isoformat())[:16]}",
        race_id=f"race-{day:%Y-%m-%d}",
        validator=f"validator-{place % 3 + 1}",
        runtime=RUNTIMES[version % 2],
        day=day.isoformat().replace("+00:00", "Z"),
        start_ms=int(day.timestamp() * 1000) + place % 24 * (DAY_MS // 24),
        seed=int(_keyed("play", entry.seed, day.isoformat())[:12], 16),
        file=f"traces/{name}.jsonl.zst",
        witness=entry.witness,
    )


def _keyed(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


def _documents(entry: Snapshot) -> Iterator[Document]:
    if entry.catalogue is None:
        from oresmith.arena.world import documents

        return documents(entry.seed or 0, entry.products or 1)
    return _given(Path(entry.path) / entry.catalogue)


def _given(path: Path) -> Iterator[Document]:
    """A catalogue from outside; its rejects are told at the end, and a line that is none never stops the others."""
    reading = Reading()
    yield from read_documents(path, reading=reading)
    for reason, count in sorted(reading.rejected.items()):
        print(f"catalogue: {count:,} lines rejected: {reason}, first {shown(reading.places[reason][0])}")


def suite_of(path: Path, searcher: Searcher, seed: int) -> Suite:
    """Make the suite of a definition; the one that it plants variants of is made first.

    Raises:
        OresmithError: a definition that is missing or wrong, or too poor a catalogue for it.
    """
    definition = read_definition(path)
    above = base_path(path, definition)
    base = make_suite(read_definition(above), searcher.documents(), searcher, seed) if above else None
    return make_suite(definition, searcher.documents(), searcher, seed, base=base)


def _gather(entry: Snapshot, suite: Suite, runs: Sequence[Run], target: Path, parts: Path) -> None:
    """Put the parts of all runs together in the order of the plan."""
    with (target / "truth.jsonl").open("wb") as writer:
        writer.writelines(msgspec.json.encode(row) + b"\n" for row in truth_rows(suite))
        for place in range(len(runs)):
            writer.write((parts / f"truth-{place:05d}.jsonl").read_bytes())
    if entry.witness:
        seen = (line for place in range(len(runs)) for line in _lines(parts / f"witness-{place:05d}.jsonl"))
        write_packed(target / "witness.jsonl.zst", chain([HEAD.rstrip()], seen), RECORDS)
    (target / "suite.json").write_bytes(msgspec.json.format(msgspec.json.encode(suite.report), indent=1) + b"\n")


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as reader:
        yield from (line.rstrip(b"\n") for line in reader)


def _declare(entry: Snapshot, played: Played, target: Path) -> None:
    runs, definition = played.runs, played.suite.definition
    files = {
        run.file: {
            "agent_version": run.agent,
            "run_id": run.run_id,
            "race_id": run.race_id,
            "suite": f"{definition.suite}/{definition.version}",
            "validator": run.validator,
            "miner": run.miner,
            "runtime": run.runtime,
            "created_at": run.day,
        }
        for run in runs
    }
    last = datetime.fromisoformat(runs[-1].day) + timedelta(days=1)
    declaration: dict[str, Any] = {
        "source": played.declared.source,
        "licence": played.declared.licence,
        "time_range": {"from": runs[0].day, "to": last.isoformat().replace("+00:00", "Z")},
        "versions": played.declared.versions | {"suite": f"{definition.suite}/{definition.version}"},
        "patterns": ["traces/**"],
        "problems": "problems.jsonl",
        "catalogue": "catalogue.jsonl.zst",
        "truth": "truth.jsonl",
        "pool": definition.pool,
        "files": files,
    }
    if entry.witness:
        declaration["witness"] = "witness.jsonl.zst"
    (target / "provenance.yaml").write_text(yaml.safe_dump(declaration, sort_keys=False), "utf-8")


def _declared(path: Path) -> ArenaDeclaration:
    try:
        return msgspec.convert(read_yaml(path), ArenaDeclaration)
    except FileNotFoundError as error:
        raise SnapshotError("there is no provenance file", where=str(path), todo="write source and licence") from error
    except (msgspec.ValidationError, *READ_FAULTS) as error:
        raise SnapshotError(
            "the arena's provenance file is wrong",
            where=str(path),
            expected="source, licence and, optionally, versions",
            got=str(error)[:300],
        ) from error
