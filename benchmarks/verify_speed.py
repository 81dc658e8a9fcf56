"""How long `oresmith verify` takes for a release of a given size.

    python -m benchmarks.verify_speed BUNDLE --megabytes 1000 --work DIR

Makes a larger release of a sound one: every trajectory and reject stands in it many times, each time as another line of
its source, with everything certified anew. Then verifies it in this process and prints seconds by check.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.audit.certificate import CERTIFICATE_FILE, Corpus, Given, write_certificate
from oresmith.audit.keys_table import KEYS_FILE, write_keys
from oresmith.audit.ledgers import BEFORE_FILE, NEXT_FILE, load_ledgers
from oresmith.corpus.account import Fate
from oresmith.leakage import ClusterParams
from oresmith.param_release import Release as ReleaseParams
from oresmith.params import Params
from oresmith.release.bundle import write_manifests
from oresmith.release.manifest import list_files, read_release
from oresmith.release.verify.checks import verify
from oresmith.release.verify.found import Result
from oresmith.release.verify.rowsof import data_files
from oresmith.release.verify.source import open_source

REPEATED = ("trajectories", "subtask", "sft", "kto", "rejects")
IDS = ("row_id", "trajectory_id")


def enlarged(bundle: Path, out: Path, megabytes: int) -> int:
    """Write a release of about this size; returns how often each row stands in it."""
    shutil.copytree(bundle, out)
    stored = {kind: sum(file.bytes for file in list_files(out / kind)) for kind in ("dataset", "model")}
    rows = sum(file.path.stat().st_size for file in data_files(out / "dataset", REPEATED))
    times = max(1, (megabytes * 10**6 - sum(stored.values())) // rows + 1)
    for file in data_files(out / "dataset", REPEATED):
        table = pq.read_table(file.path)
        with pq.ParquetWriter(file.path, table.schema, compression="zstd") as writer:
            for place in range(times):
                writer.write_table(_again(table, place))
    _certify(out / "dataset", times)
    funnel = msgspec.json.decode((out / "dataset/funnel.json").read_bytes())
    (out / "dataset/funnel.json").write_text(json.dumps(_multiplied(funnel, times)))
    version = read_release(bundle).version
    parts = {kind: list_files(out / kind) for kind in stored}
    parts = {kind: tuple(file for file in files if file.path != "release.json") for kind, files in parts.items()}
    params = Params(snapshots=[], release=ReleaseParams(version=version))
    write_manifests(out, params, dataset=parts["dataset"], model=parts["model"], gates=(), previous=None)
    return times


def _again(table: pa.Table, place: int) -> pa.Table:
    """The rows with ids and lines of their own."""
    if place == 0:
        return table
    for name in IDS:
        if name in table.column_names:
            ids = [None if one is None else _id(one, place) for one in table[name].to_pylist()]
            at = table.column_names.index(name)
            table = table.set_column(at, table.schema.field(name), pa.array(ids, pa.string()))
    if "line" in table.column_names:
        lines = [line + place * 10**7 for line in table["line"].to_pylist()]
        at = table.column_names.index("line")
        table = table.set_column(at, table.schema.field("line"), pa.array(lines, pa.int64()))
    return table


def _id(one: str, place: int) -> str:
    return hashlib.sha256(f"{place} {one}".encode()).hexdigest()


def _certify(dataset: Path, times: int) -> None:
    old: Any = msgspec.json.decode((dataset / CERTIFICATE_FILE).read_bytes())
    ledgers = load_ledgers(dataset / BEFORE_FILE, dataset / NEXT_FILE, old["release"])
    params = ClusterParams(min_constraints=old["keys"]["min_constraints"], min_pairs=old["keys"]["min_pairs"])
    problems: dict[str, str] = {}
    for line in (dataset / KEYS_FILE).read_text().splitlines()[1:]:
        cells = line.split("\t")
        if cells[1] == "kto":
            problems |= {cells[0] if place == 0 else _id(cells[0], place): cells[4] for place in range(times)}
    fates = [msgspec.convert(_multiplied(account, times), Fate) for account in old["accounts"]]
    allowed = tuple(name for name, stated in old["benchmarks"].items() if stated["allowed"])
    given = Given(dataset, ledgers, params, allowed, problems.get, fates)
    corpus = Corpus(given)
    write_keys(corpus.rows(), dataset / KEYS_FILE)
    stated = {name: old[name] for name in ("inputs", "parameters", "contamination", "misfiled")}
    write_certificate(given, dataset, stated, corpus)


def _multiplied(value: Any, times: int) -> Any:
    if isinstance(value, dict):
        return {name: _multiplied(part, times) for name, part in value.items()}
    if isinstance(value, list):
        return [_multiplied(part, times) for part in value]
    return value * times if type(value) is int else value


def main() -> None:
    """Make, verify, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--work", type=Path, required=True, help="takes the larger release; must not exist")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    if not given.work.exists():
        print(f"each row stands {enlarged(given.bundle, given.work, given.megabytes)} times")
    size = sum(path.stat().st_size for path in given.work.rglob("*") if path.is_file())
    clock = [time.perf_counter(), time.process_time()]
    start = clock.copy()

    def tell(result: Result) -> None:
        now = [time.perf_counter(), time.process_time()]
        print(f"{result.name:12} {result.state:13} {now[0] - clock[0]:7.1f} s, {now[1] - clock[1]:7.1f} s of one core")
        clock[:] = now
        for finding in result.findings[:3]:
            print(f"    {finding.sentence()[:200]}")

    with open_source(str(given.work)) as opened:
        verify(opened, tell, given.workers)
    print(f"{size / 1e6:,.0f} MB: {clock[0] - start[0]:.1f} s, {clock[1] - start[1]:.1f} s of one core")


if __name__ == "__main__":
    main()
