"""Rows per second of reading and normalising, beside bare loops and datatrove on the same files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks import baseline, data, datatrove_io, reading
from benchmarks.measure import Section, Settings, SkippedError, rounds, verdict
from benchmarks.normalising import normalise
from benchmarks.project import project

READER_TARGET = 0.6
"""Of a bare `orjson.loads` loop's rows/s, the duplicate-key check off."""
NORMALISE_TARGET = 0.3
"""Of a bare loads-dumps-write loop's rows/s, writing included."""

LOADS, COPY = "bare orjson.loads", "bare loads, dumps, write"


def bench(settings: Settings) -> Section:
    """All contenders in turn over the same files; each is compared with the bare loop that does the same part."""
    where, home = project(settings, settings.rows)
    out = settings.home / "out"
    size = sum(path.stat().st_size for path in data.trace_files(home))
    wanted: dict[str, tuple[Callable[[], object], str, float | None]] = {
        LOADS: (lambda: baseline.bare_loads(home), LOADS, None),
        "our reader, no duplicate check": (lambda: reading.read(home, duplicates=False), LOADS, READER_TARGET),
        "our reader, duplicate check": (lambda: reading.read(home, duplicates=True), LOADS, None),
        "datatrove JsonlReader": (lambda: datatrove_io.read(home), LOADS, None),
        COPY: (lambda: baseline.bare_copy(home, out / "bare"), COPY, None),
        "stage normalize, like for like": (lambda: normalise(where, home, False, "none"), COPY, NORMALISE_TARGET),
        "stage normalize, defaults": (lambda: normalise(where, home, True, "zstd"), COPY, None),
        "datatrove JsonlReader, JsonlWriter": (lambda: datatrove_io.copy(home, out / "datatrove"), COPY, None),
    }
    section = Section(
        f"Throughput: {settings.rows:,} envelopes, {size / settings.rows / 1000:.1f} KB each, one core",
        ("contender", "rows/s", "MB/s", "us/row", "of its bare loop", "target"),
        notes=["datatrove's writer copies the row's nested dicts before it encodes them; most of its time goes there."],
    )
    ready = {name: entry[0] for name, entry in wanted.items() if _works(name, entry[0], settings, home, section)}
    spent = rounds(ready, settings.repeats)
    for name, seconds in spent.items():
        against, target = wanted[name][1:]
        ratio = spent[against] / seconds
        rate, volume = settings.rows / seconds, size / seconds / 1e6
        section.rows.append(
            (
                name,
                f"{rate:,.0f}",
                f"{volume:,.0f}",
                f"{1e6 / rate:,.1f}",
                f"{ratio:.2f}",
                "" if target is None else verdict(ratio, target),
            )
        )
        section.numbers[name] = {"rows_per_second": rate, "mb_per_second": volume, "against": against, "ratio": ratio}
    return section


def _works(name: str, work: Callable[[], object], settings: Settings, home: Path, section: Section) -> bool:
    """Run once, uncounted, so that imports and the page cache are warm; every row must come through."""
    try:
        rows = work()
    except SkippedError as skip:
        section.notes.append(f"skipped {name}: {skip}")
        return False
    if rows != settings.rows:
        raise RuntimeError(f"{name}: {rows} rows came through, of {settings.rows} in {home}")
    return True
