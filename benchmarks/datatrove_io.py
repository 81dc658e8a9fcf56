"""datatrove's own reader and writer on the same files, for comparison: they account for nothing that they drop."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from benchmarks.measure import SkippedError


def read(home: Path) -> int:
    """`JsonlReader` alone, in this process; returns the number of documents."""
    return sum(1 for _ in _reader(home).run())


def copy(home: Path, out: Path) -> int:
    """`JsonlReader` -> `JsonlWriter`, uncompressed, in this process; returns the number of documents."""
    from datatrove.pipeline.writers import JsonlWriter

    shutil.rmtree(out, ignore_errors=True)
    writer = JsonlWriter(str(out), output_filename="${rank}.jsonl", compression=None)
    return sum(1 for _ in writer.run(_reader(home).run()))


def _reader(home: Path) -> Any:
    try:
        from datatrove.pipeline.readers import JsonlReader
        from loguru import logger
    except ImportError as error:
        raise SkippedError(f"datatrove is not installed ({error.name}): install the extra `data`") from error
    logger.disable("datatrove")
    return JsonlReader(str(home / "traces"), compression=None, adapter=_adapt)


def _adapt(self: Any, data: dict[str, Any], path: str, id_in_file: int | str) -> dict[str, Any]:
    """A document needs a text; the row itself travels as metadata."""
    return {"text": data["problem_id"], "id": f"{path}/{id_in_file}", "metadata": data}
