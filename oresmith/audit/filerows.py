"""Rows of anybody's files: traces of any known format and problem files, each row known by its own shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from oresmith.anyfile import trace_files
from oresmith.audit.parquetrows import is_parquet, parquet_rows
from oresmith.audit.products import Touched, touched
from oresmith.lines.decoding import BadJsonError, decode
from oresmith.lines.framing import BadLine, read_lines
from oresmith.records import Problem, Source, Trajectory
from oresmith.traces import CodecError, Context
from oresmith.traces import decode as decode_trace

_TRACE_KEYS = frozenset({"messages", "trajectory", "dialogue", "steps", "atif_json"})
_UNTOUCHED = Touched(frozenset(), frozenset())


class FileRow(NamedTuple):
    """A row of a file: its id, the problem that it is about, and the products that it touches."""

    row_id: str
    """As the row declares it (the source's trajectory id, else the problem id), else `file:line`."""
    problem: Problem
    products: Touched = _UNTOUCHED


def file_rows(paths: Iterable[Path], unreadable: Counter[str]) -> Iterator[FileRow]:
    """The rows of files, or of all files below directories, in their order.

    Args:
        paths: what the user named.
        unreadable: takes reason -> lines for the lines that are no row.

    Raises:
        OresmithError: a path that is not there or cannot be opened.
    """
    for file, name in (found for path in paths for found in trace_files(path)):
        if is_parquet(file):
            yield from _of_parquet(file, name, unreadable)
            continue
        for line in read_lines(file):
            if isinstance(line, BadLine):
                unreadable[line.reason.value] += 1
                continue
            source = Source(
                snapshot="", file=name, file_sha256="", line=line.number, offset=line.offset, length=len(line.data)
            )
            try:
                yield from _rows(line.data, source)
            except (BadJsonError, CodecError) as error:
                unreadable[error.reason.value] += 1


def _of_parquet(path: Path, name: str, unreadable: Counter[str]) -> Iterator[FileRow]:
    for number, row_id, row in parquet_rows(path):
        place = row_id or f"{name}:{number}"
        if _is_problem(row):
            yield _problem_row(row, place)._replace(row_id=place)
            continue
        source = Source(snapshot="", file=name, file_sha256="", line=number, offset=0, length=0)
        try:
            found = decode_trace(row, Context(source=source, source_name=name, trust_rows=True), source)
        except CodecError as error:
            unreadable[error.reason.value] += 1
            continue
        yield _trace_row(found, place)._replace(row_id=place)


def _rows(data: bytes, source: Source) -> Iterator[FileRow]:
    """The row of a line, or the problems of a JSON list."""
    value = decode(data)
    place = f"{source.file}:{source.line}"
    if _is_problem(value):
        yield _problem_row(value, place)
    elif isinstance(value, list) and value and all(map(_is_problem, value)):
        places = [f"{source.file}:{line}" for line in _element_lines(data, source.line)]
        if len(set(places)) < len(places):
            places = [f"{place}[{number}]" for number in range(len(value))]
        for row, where in zip(value, places, strict=True):
            yield _problem_row(row, where)
    else:
        context = Context(source=source, source_name=source.file, trust_rows=True)
        yield _trace_row(decode_trace(value, context, source), place)


def _element_lines(data: bytes, line: int) -> Iterator[int]:
    """The line on which each element of a JSON list begins, in a document that begins on `line`."""
    place = 0
    for element in map(bytes, msgspec.json.decode(data, type=list[msgspec.Raw])):
        start = data.index(element, place)
        line += data.count(b"\n", place, start)
        yield line
        line += element.count(b"\n")
        place = start + len(element)


def _is_problem(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("query"), str) and _TRACE_KEYS.isdisjoint(value)


def _problem_row(row: dict[str, Any], place: str) -> FileRow:
    declared, category = row.get("problem_id"), row.get("category")
    if isinstance(declared, int) and not isinstance(declared, bool):
        declared = str(declared)
    row_id = declared if isinstance(declared, str) and declared else None
    problem = Problem(
        problem_id=row_id,
        query=row["query"],
        category=category.lower() if isinstance(category, str) else None,
        reward=row.get("reward"),
        voucher=row.get("voucher"),
    )
    return FileRow(row_id or place, problem)


def _trace_row(trajectory: Trajectory, place: str) -> FileRow:
    attempt = trajectory.extra.get("attempt")
    declared = attempt if isinstance(attempt, str) and attempt else trajectory.problem.problem_id
    calls = ((call.name, call.arguments) for message in trajectory.messages for call in message.tool_calls)
    return FileRow(declared or place, trajectory.problem, touched(calls))
