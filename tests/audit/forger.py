"""Somebody who edits a release and then mends the certificate, as far as they think of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

KEYS = "certificate/keys.tsv"


class Forger:
    """One release in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def certificate(self) -> dict[str, Any]:
        return json.loads((self.folder / "certificate/certificate.json").read_bytes())

    def edit_certificate(self, change: Callable[[dict[str, Any]], None]) -> None:
        edited = self.certificate
        change(edited)
        (self.folder / "certificate/certificate.json").write_text(json.dumps(edited, indent=1))

    def shard(self, config: str, split: str) -> str:
        return next(f["path"] for f in self.certificate["files"] if (f["config"], f["split"]) == (config, split))

    def table(self, shard: str, change: Callable[[pa.Table], pa.Table]) -> None:
        pq.write_table(change(pq.read_table(self.folder / shard)), self.folder / shard)

    def lines(self, name: str, change: Callable[[list[str]], list[str]]) -> None:
        lines = (self.folder / name).read_text().splitlines(keepends=True)
        (self.folder / name).write_text("".join(change(lines)))

    def move_row(self, source: str, target: str) -> str:
        """Move the first row of one file to another; its id."""
        table = pq.read_table(self.folder / source)
        self.table(target, lambda other: pa.concat_tables([other, table.slice(0, 1)]))
        self.table(source, lambda other: other.slice(1))
        return table["row_id"][0].as_py()

    def rehash(self) -> None:
        """Make every hash, size and count of rows in the certificate fit the files again."""

        def change(certificate: dict[str, Any]) -> None:
            for file in certificate["files"]:
                path = self.folder / file["path"]
                file.update(measured(path), rows=pq.read_metadata(path).num_rows)
            for name, file in certificate["beside"].items():
                file.update(measured(self.folder / name))

        self.edit_certificate(change)

    def recount(self) -> None:
        """Make the counts of rows fit as well."""

        def change(certificate: dict[str, Any]) -> None:
            for config, splits in certificate["counts"].items():
                for split, counts in splits.items():
                    files = [f for f in certificate["files"] if (f["config"], f["split"]) == (config, split)]
                    counts["rows"] = sum(file["rows"] for file in files)

        self.edit_certificate(change)


def measured(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
