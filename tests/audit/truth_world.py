"""A pipeline's tables, small and made by hand, beside a truth about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.arena.problems import load_problems
from oresmith.leakage.keys import problem_keys
from schemas import clusters, decisions, evidence

HASH = "0" * 64
LISTS = ("secret_types", "personal_types", "path_types", "injection_types")


def truth(line: int, **changes: Any) -> dict[str, Any]:
    """A truth line: an honest agentic success, unless changed."""
    fields: dict[str, Any] = {
        "kind": "trajectory",
        "file": "a.jsonl",
        "line": line,
        "run_id": "r",
        "problem_id": "p1",
        "agent_version": "v",
        "family": "expert",
        "origin": "A",
        "full_text": True,
        "forged": False,
        "secrets": [],
        "injection": False,
        "success": True,
    }
    return fields | changes


def problem(problem_id: str, cluster: str | None = None, variant: str = "base", **changes: Any) -> dict[str, Any]:
    """A truth line about a problem."""
    fields = {"kind": "problem", "problem_id": problem_id, "cluster": cluster or problem_id, "variant": variant}
    return fields | {"level": "L1", "suite": "s", "pool": None} | changes


def found(line: int, **changes: Any) -> dict[str, Any]:
    """What the evidence says of the same: all of it right, unless changed. `accepted` goes to the gate."""
    fields: dict[str, Any] = {
        "file": "a.jsonl",
        "line": line,
        "problem_id": "p1",
        "origin": "A",
        "full_text": True,
        "provenance_class": "runtime-written",
        "outcome": "success",
        "accepted": True,
        **{name: [] for name in LISTS},
    }
    return fields | changes


class Tables:
    """The directory `data/` of a run."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.decided: list[dict[str, Any]] = []
        self.problems: list[dict[str, Any]] = []
        self.pools: list[dict[str, Any]] = []
        self.write()

    def add(
        self,
        name: str,
        truths: Iterable[Mapping[str, Any]] | bytes | None,
        rows: Iterable[Mapping[str, Any]] = (),
        problems: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        """A snapshot.

        Args:
            name: of it.
            truths: lines of its truth, raw bytes, or None where it carries none.
            rows: of its evidence.
            problems: of its problem file: id -> (cluster that the pipeline found, pool). An id is its own query.
        """
        folder = self.data / "snapshots" / name
        folder.mkdir(parents=True)
        stored: dict[str, Any] = {"problems": None, "truth": None}
        if truths is not None:
            raw = truths if isinstance(truths, bytes) else b"".join(map(line_of, truths))
            stored["truth"] = _store(folder, "truth.jsonl", raw)
        if problems is not None:
            lines = [{"problem_id": one, "query": query_of(one), "category": "Product"} for one in problems]
            for line in lines:
                line["reward"] = {"product_id": f"gold {query_of(line['problem_id'])}"}  # type: ignore[assignment]
            stored["problems"] = _store(folder, "problems.jsonl", b"".join(map(line_of, lines)))
            self._know(folder / "problems.jsonl", name, problems)
        frozen = {"schema": "oresmith.snapshot/1", "name": name, "source": "test", "licence": "MIT", "versions": {}}
        frozen |= {"time_range": {"from": "2026-05-01T00:00:00Z", "to": "2026-05-02T00:00:00Z"}, "files": []}
        frozen |= {"catalogue": None, "judgements": None, "pool": None, "tree_sha256": HASH, **stored}
        (folder / "snapshot.json").write_bytes(msgspec.json.encode(frozen))
        table = [{"snapshot": name, **row} for row in rows]
        self.decided += [{key: row[key] for key in ("snapshot", "file", "line", "accepted")} for row in table]
        path = self.data / "evidence" / name / "table" / "00000.parquet"
        path.parent.mkdir(parents=True)
        columns = [{key: value for key, value in row.items() if key != "accepted"} for row in table]
        pq.write_table(pa.Table.from_pylist(columns, schema=evidence.ARROW), path)
        self.write()

    def _know(self, path: Path, snapshot: str, problems: Mapping[str, tuple[str, str]]) -> None:
        known = {row["problem"] for row in self.problems}
        for one in load_problems(path):
            name = problem_keys(one).problem
            cluster, pool = problems[str(one.problem_id)]
            if name not in known:
                row = {"problem": name, "problem_id": one.problem_id, "snapshot": snapshot, "cluster": cluster}
                self.problems.append(row)
                self.pools.append({"problem": name, "pool": pool, "vault": False, "trainable": pool == "train"})

    def write(self) -> None:
        """The tables of all snapshots together."""
        tables = [
            ("gate/decisions.parquet", decisions.ARROW, self.decided),
            ("cluster/problems.parquet", clusters.PROBLEMS, self.problems),
            ("split/assignments.parquet", clusters.ASSIGNMENTS, self.pools),
        ]
        for name, schema, rows in tables:
            path = self.data / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def query_of(problem_id: str) -> str:
    """The query of a problem: two ids before a colon are one problem."""
    return f"find {problem_id.partition(':')[2] or problem_id}"


def line_of(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def joined(truths: list[dict[str, Any]], rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Truth and findings of one snapshot joined, as the figures take them."""
    from oresmith.audit.truth_file import FRAME
    from oresmith.audit.truth_rows import FOUND, join

    names = ("file", "line", "family", "origin", "full_text", "forged", "secrets", "injection", "success", "problem_id")
    planted = pl.DataFrame([[one[name] for name in names] for one in truths], schema=FRAME, orient="row")
    evidence_rows = pa.Table.from_pylist(
        [{"snapshot": "s", **{key: value for key, value in row.items() if key != "accepted"}} for row in rows],
        schema=evidence.ARROW,
    )
    table = pl.DataFrame(pl.from_arrow(evidence_rows)).select(FOUND)
    schema = {"snapshot": pl.String, "file": pl.String, "line": pl.Int64, "accepted": pl.Boolean}
    accepted = pl.DataFrame([["s", row["file"], row["line"], row["accepted"]] for row in rows], schema, orient="row")
    return join("s", planted, table, accepted)[0]


def _store(folder: Path, name: str, content: bytes) -> dict[str, Any]:
    (folder / name).write_bytes(content)
    return {"file": name, "stored": name, "bytes": len(content), "sha256": HASH}
