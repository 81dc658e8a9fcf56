"""Every line that was read is published, withheld or rejected: `funnel.json` adds up, and is what the files hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from oresmith.errors import OresmithError
from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.rowsof import WHOLE, data_files, rows
from oresmith.validation.funnel import REJECTS, FileFunnel, Funnel

FILE = "funnel.json"
CERTIFICATE = "certificate/certificate.json"
Counts = Mapping[tuple[str, str, str], int]
"""(snapshot, file, place) -> rows; the place of a reject is its reason."""


def check(opened: Opened) -> Findings:
    """See the module."""
    dataset = opened.dataset
    if not (dataset / FILE).is_file():
        yield Finding("is missing: nobody can tell what was read and what became of it", FILE)
        return ""
    funnel = _read(dataset)
    yield from _adds_up(funnel)
    counted: Counter[tuple[str, str, str]] = Counter()
    yield from _count(dataset, counted)
    yield from _as_stated(funnel, counted)
    yield from _as_certified(funnel, dataset)
    placed = (
        f"{funnel.trajectories:,} trajectories, {funnel.subtask:,} subtask, {sum(funnel.rejects.values()):,} rejects"
    )
    return f"{funnel.read:,} lines read = {placed}, {sum(funnel.withheld.values()):,} withheld"


def _read(dataset: Path) -> Funnel:
    try:
        return msgspec.json.decode((dataset / FILE).read_bytes(), type=Funnel)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise OresmithError("the funnel cannot be read", where=FILE, got=str(error)[:200]) from error


def _adds_up(funnel: Funnel) -> Iterator[Finding]:
    withheld: Counter[str] = Counter()
    rejects: Counter[str] = Counter()
    accounts: list[FileFunnel | Funnel] = [*funnel.files, funnel]
    for file in accounts:
        parts = [file.trajectories, file.subtask, *file.withheld.values(), *file.rejects.values()]
        if file.read != sum(parts) or min(parts) < 0:
            where = f"{file.snapshot}/{file.file}" if isinstance(file, FileFunnel) else "in all"
            yield Finding(f"does not add up: {file.read:,} lines read, {sum(parts):,} accounted for", FILE, item=where)
    for file in funnel.files:
        withheld.update(file.withheld)
        rejects.update(file.rejects)
    for name in ("read", "trajectories", "subtask"):
        total = sum(getattr(file, name) for file in funnel.files)
        if getattr(funnel, name) != total:
            yield Finding(f"{name} is {getattr(funnel, name):,}, the files make {total:,}", FILE)
    for name, total in (("withheld", withheld), ("rejects", rejects)):
        if getattr(funnel, name) != {key: count for key, count in total.items() if count}:
            yield Finding(f"{name} are other numbers than the sums over the files", FILE)


def _count(dataset: Path, counted: Counter[tuple[str, str, str]]) -> Iterator[Finding]:
    """Count the rows of every place; a line of a source stands in one."""
    seen: set[tuple[str, str, int]] = set()
    for file in data_files(dataset, (*WHOLE, REJECTS)):
        reject = file.config == REJECTS
        for number, row in rows(file, ["snapshot", "file", "line", *(["reason"] if reject else [])]):
            place = (row["snapshot"], row["file"], row["line"])
            if place in seen:
                yield Finding("a line of a source stands in two places", file.name, number, "{}/{}:{}".format(*place))
            seen.add(place)
            counted[row["snapshot"], row["file"], row["reason"] if reject else file.config] += 1


def _as_stated(funnel: Funnel, counted: Counts) -> Iterator[Finding]:
    stated = {
        (file.snapshot, file.file, place): count
        for file in funnel.files
        for place, count in ({"trajectories": file.trajectories, "subtask": file.subtask} | file.rejects).items()
    }
    for place in sorted(stated.keys() | counted.keys(), key=str):
        if stated.get(place, 0) != counted.get(place, 0):
            snapshot, name, kind = place
            said = f"{stated.get(place, 0):,} rows {kind} by the funnel, {counted.get(place, 0):,} in the data files"
            yield Finding(said, FILE, item=f"{snapshot}/{name}")


def _as_certified(funnel: Funnel, dataset: Path) -> Iterator[Finding]:
    path = dataset / CERTIFICATE
    if not path.is_file():
        return  # the check of the certificate says so
    accounts: Any = msgspec.json.decode(path.read_bytes())["accounts"]
    certified = {(one["snapshot"], one["file"]): one for one in accounts}
    stated = {(file.snapshot, file.file): file for file in funnel.files}
    for place in sorted(certified.keys() | stated.keys()):
        one, file = certified.get(place), stated.get(place)
        if one is None or file is None:
            yield Finding(
                f"{'the funnel' if file is None else 'the certificate'} does not know it", FILE, item="/".join(place)
            )
        elif (one["read"], one["withheld"]) != (file.read, file.withheld):
            yield Finding("the certificate accounts for other lines", FILE, item="/".join(place))
