"""A finished corpus of the demo snapshot with all that stage validate reads, and ways to break a copy of it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.leakage.keys import ProblemKeys, problem_keys
from oresmith.records import Problem
from schemas.clusters import EDGES, PROBLEMS
from tests.corpus.build import build_tables
from tests.pipeline.project import Project

KEYS = ["row_id", "config", "shard", "row_sha256", "problem", "cluster", "pool"]
POOLS = ["train", "train", "dev", "heldout", "train", "quarantine"]


def pool_of(problem: Problem) -> dict[str, Any]:
    """A pool for each problem, by its name alone."""
    return {"pool": POOLS[int(problem_keys(problem).problem[:4], 16) % len(POOLS)]}


def finished(root: Path, names: tuple[str, ...] = ("demo",), pools: Callable[[Problem], Any] = pool_of) -> Project:
    """A project whose stages up to `corpus` have run, with tables of clusters and pools and a certificate."""
    project = Project(root)
    for name in names:
        project.add_snapshot(name)
    project.write_params()
    project.run()
    complete(root, build_tables(root, list(names), pools))
    done = project.stage("corpus")
    assert done.returncode == 0, done.stderr
    certify(root)
    return project


def complete(root: Path, problems: dict[str, Problem]) -> None:
    """Bring data/cluster/ to its whole schema."""
    path = root / "data/cluster/problems.parquet"
    table = pl.read_parquet(path)
    found: list[ProblemKeys] = [problem_keys(problems[name]) for name in table["problem"]]
    kinds = ("query", "base", "tokens", "spec")
    texts = {f"{kind}_key": pl.Series([getattr(keys, kind) for keys in found], dtype=pl.String) for kind in kinds}
    numbers = {
        name: pl.Series([getattr(keys, name) for keys in found], dtype=pl.Int64) for name in ("constraints", "pairs")
    }
    lists = {"flags": [list(keys.flags) for keys in found], "wishes": [[] for _ in found]}
    whole = table.with_columns(
        **texts, **numbers, **{name: pl.Series(rows, dtype=pl.List(pl.String)) for name, rows in lists.items()}
    )
    pq.write_table(whole.select(PROBLEMS.names).to_arrow().cast(PROBLEMS), path)
    pq.write_table(EDGES.empty_table(), path.with_name("edges.parquet"))


def certify(root: Path, release: str = "0.1.0") -> None:
    """A certificate of the corpus as it stands."""
    corpus, folder = root / "data/corpus", root / "data/audit/certificate"
    folder.mkdir(parents=True, exist_ok=True)
    files, lines = [], ["\t".join(KEYS)]
    for path in sorted(corpus.rglob("*.parquet")):
        name = path.relative_to(corpus).as_posix()
        files.append({"path": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
        for row in pq.read_table(path).to_pylist():
            row_id = row.get("row_id") or row.get("problem") or f"{row['snapshot']}/{row['file']}:{row['line']}"
            told = [row_id, name.split("/")[0], name, hashlib.sha256(repr(row).encode()).hexdigest()]
            lines.append("\t".join([*told, row.get("problem") or "", "", row.get("pool") or ""]))
    (folder / "certificate.json").write_text(json.dumps({"release": release, "files": files}))
    (folder / "keys.tsv").write_text("\n".join(lines) + "\n")


def resign(root: Path) -> None:
    """A manifest of the corpus as it stands, so that only the check at hand can tell."""
    corpus = root / "data/corpus"
    manifest = json.loads((corpus / "manifest.json").read_bytes())
    paths = [path for path in sorted(corpus.rglob("*")) if path.is_file() and path.name != "manifest.json"]
    manifest["files"] = [{"path": path.relative_to(corpus).as_posix(), "bytes": path.stat().st_size} for path in paths]
    (corpus / "manifest.json").write_text(json.dumps(manifest))


def copied(project: Project, root: Path) -> Project:
    """A copy of a project to break."""
    shutil.copytree(project.root, root, dirs_exist_ok=True)
    other = Project(root)
    other.params = project.params
    return other


def edit_rows(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Rewrite a Parquet file with other rows and the same schema."""
    table = pq.read_table(path)
    rows = change(table.to_pylist())
    schema = table.schema
    plain = pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])
    new = (
        pa.Table.from_pylist(rows, schema=plain).cast(schema.remove_metadata()).replace_schema_metadata(schema.metadata)
    )
    pq.write_table(new, path, compression="zstd")


def only_file(project: Project, config: str, split: str) -> Path:
    """The one file of a small config's split."""
    (path,) = (project.root / "data/corpus" / config).glob(f"{split}-*.parquet")
    return path


def _plain(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.JsonType):
        return kind.storage_type
    return pa.list_(_plain(kind.value_type)) if pa.types.is_list(kind) else kind
