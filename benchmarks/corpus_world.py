"""A project whose stages up to `split` are done, of as many trajectories as asked for: a thousand real ones, repeated.

Each copy is of files, ids and problems of its own, so that no gate and no cap sees a repetition.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.measure import Settings, SkippedError
from benchmarks.project import NAME, inside, params
from benchmarks.tiled import tiled_evidence

SHARDS = 6
ACCEPTING: dict[str, Any] = {
    "outcome": "any",
    "format_min": 0.0,
    "origin": ("A", "B", "unknown"),
    "duplicate_calls": "pass",
    "unanimity_min_validators": 0,
}
"""Gate parameters under which nearly all rows are accepted: the most work for the corpus."""
POOLS = ("train",) * 8 + ("dev", "heldout")


def corpus_world(settings: Settings, rows: int) -> tuple[Path, Path]:
    """The project's directory, made once, and that of the snapshot behind it."""
    target, home = tiled_evidence(settings, rows)
    done = target / "data" / "split" / "assignments.parquet"
    if not done.exists():
        source = next(settings.home.glob("project-snapshot-1000-*")) / "data" / "normalize" / NAME
        with inside(target):
            try:
                from oresmith.param_data import Gate
                from stages import gate
            except ImportError as error:
                raise SkippedError(f"the stage `gate` is not there ({error})") from error
            _tile(source, Path("data/normalize") / NAME, rows)
            _distinct()
            gate.run(params(home, gate=Gate(**ACCEPTING)))
            _pools(home)
    return target, home


def _tile(source: Path, target: Path, rows: int) -> None:
    """Trajectories and index as normalize would have written them for the tiled evidence."""
    import polars as pl
    import zstandard

    lines = [line for path in sorted((source / "trajectories").glob("*.zst")) for line in _lines(path)]
    index = pl.read_parquet(sorted((source / "index").glob("*.parquet")))
    for folder in ("trajectories", "index", "rejects"):
        (target / folder).mkdir(parents=True, exist_ok=True)
    copies = -(-rows // len(lines))
    shards = min(SHARDS, copies)
    for shard in range(shards):
        numbers = range(shard * copies // shards, (shard + 1) * copies // shards)
        path = target / "trajectories" / f"{shard:05d}.jsonl.zst"
        with path.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as out:
            for number in numbers:
                out.write(b"".join(_renamed(line, number) for line in lines))
        named = [index.with_columns(pl.concat_str(pl.lit(f"{n:04d}/"), pl.col("file")).alias("file")) for n in numbers]
        pl.concat(named).write_parquet(target / "index" / f"{shard:05d}.parquet")


def _distinct() -> None:
    """Give each row an identity of its own, so that none conflicts with another."""
    import polars as pl
    import pyarrow.parquet as pq

    from schemas.evidence import ARROW

    (path,) = Path("data/evidence", NAME, "table").glob("*.parquet")
    table = pl.read_parquet(path).with_columns(pl.col("trajectory_id").alias("identity"))
    pq.write_table(table.to_arrow().cast(ARROW), path)


def _lines(path: Path) -> list[bytes]:
    import zstandard

    with path.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read().splitlines(keepends=True)


def _renamed(line: bytes, number: int) -> bytes:
    head, _, rest = line.partition(b'"file":"')
    identity = head[18 : 18 + 64].decode()
    fresh = sha256(f"{number}/{identity}".encode()).hexdigest().encode()
    return head.replace(identity.encode(), fresh, 1) + b'"file":"' + f"{number:04d}/".encode() + rest


def _pools(home: Path) -> None:
    """Clusters and pools as the stages before would have left them: each problem is a cluster of its own."""
    import polars as pl

    from oresmith.arena.problems import load_problems
    from oresmith.leakage.keys import problem_keys
    from tests.corpus.build import problem_rows, store

    evidence = pl.read_parquet(f"data/evidence/{NAME}/table/*.parquet")
    known = {problem.problem_id: problem for problem in load_problems(home / "problems.jsonl")}
    names = {key: sha256(key.encode()).hexdigest() for key in sorted(evidence["problem"].unique())}
    rows: list[Any] = []
    for place, (key, name) in enumerate(names.items()):
        problem = known[key.rpartition("/")[0]]
        row, assignment = problem_rows(problem, NAME, {"pool": POOLS[place % len(POOLS)]})
        golds = [sha256(f"{key}{gold}".encode()).hexdigest() for gold in problem_keys(problem).gold]
        renamed = {"problem": name, "cluster": name}
        rows.append((row | renamed | {"gold_keys": golds}, assignment | renamed))
    attempts = evidence.select(
        "snapshot", "file", "line", "trajectory_id", pl.col("problem").replace_strict(names).alias("problem")
    )
    store(Path(), rows, attempts.to_dicts())
