"""Stage `normalize`: every line of one snapshot becomes a canonical trajectory or a counted reject.

Reads data/snapshots/NAME/; chains reader -> codecs -> trajectory writer -> index writer.
Writes data/normalize/NAME/ (trajectories/, index/, rejects/, report.json) and metrics/normalize-NAME.json.
Exit codes: 0, 2 for a refusal (damaged stream, nothing readable, disk full).
Example: python -m stages.normalize demo
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import polars as pl
from datatrove.data import Document

from oresmith.blocks.accounts import Accounts, InputFile, check_accounts, shard_files
from oresmith.blocks.atomic import Staged, stage_output
from oresmith.blocks.execute import run_pipeline
from oresmith.blocks.lifeline import end_with_parent
from oresmith.blocks.reader import TraceReader
from oresmith.blocks.rejects import RejectWriter
from oresmith.blocks.steps import TraceDecoder
from oresmith.blocks.writers import ParquetTableWriter, TrajectoryWriter
from oresmith.errors import SnapshotError
from oresmith.frozen import Frozen, read_frozen
from oresmith.judgements import read_judgements
from oresmith.lines.framing import Limits
from oresmith.param_data import Normalize
from oresmith.params import Params, load_params
from oresmith.records import TRAJECTORY_SCHEMA, Source, Trajectory
from oresmith.report import StageReport, make_report, write_report
from oresmith.stage import DATA, argument, builtins, guarded, selected, workers, write_metrics
from oresmith.traces import Context
from oresmith.traces.detect import KNOWN
from oresmith.traces.final import final_ids
from schemas.check import check_table
from schemas.index import ARROW, IndexTable


def run(params: Params, name: str) -> StageReport:
    """Normalise one snapshot and publish the result whole."""
    snapshot = DATA / "snapshots" / name
    frozen = read_frozen(snapshot)
    files = [
        InputFile(path=str(snapshot / file.stored), file=file.file, snapshot=name, sha256=file.sha256, size=file.bytes)
        for file in frozen.files
    ]
    shards = shard_files(files, params.normalize.shard_bytes)
    judgements = {}
    if frozen.judgements:
        judgements = read_judgements(snapshot / frozen.judgements.stored, {file.file for file in frozen.files})
    with stage_output(
        DATA / "normalize" / name,
        f"normalize-{name}",
        schema=TRAJECTORY_SCHEMA,
        params=builtins(params.normalize),
        observed=DATA / "observed" / f"normalize-{name}.json",
    ) as staged:
        accounts = Accounts(staged.scratch / "accounts")
        rejects = RejectWriter(staged.path / "rejects", "normalize", accounts)
        pipeline = [
            read_traces(params.normalize, shards, rejects),
            TraceDecoder(contexts(frozen), judgements, rejects),
            TrajectoryWriter(
                staged.path / "trajectories", accounts, zstd_level=1 if params.normalize.compression == "zstd" else None
            ),
            ParquetTableWriter(staged.path / "index", ARROW, index_row),
        ]
        run_pipeline(
            pipeline,
            tasks=len(shards),
            executor=params.run.executor,
            workers=workers(params),
            scratch=staged.scratch / "run",
        )
        report, index = finish(staged, name, len(shards))
        used = judgements.keys() & set(index.select("file", "line").iter_rows())
        judged = {"given": len(judgements), "of_trajectories": len(used)}
    write_metrics(f"normalize-{name}", summary(report) | {"judgements": judged})
    return report


def read_traces(params: Normalize, shards: list[list[InputFile]], rejects: RejectWriter) -> TraceReader:
    """The reader under these parameters."""
    limits = Limits(
        max_line_bytes=params.max_line_bytes,
        max_stream_bytes=params.max_stream_bytes,
        max_ratio=params.max_ratio,
    )
    return TraceReader(
        shards,
        rejects,
        limits=limits,
        max_depth=params.max_depth,
        duplicate_keys=params.check_duplicate_keys,
        max_rejects=params.max_rejects,
        accept_truncated=params.accept_truncated,
    )


def contexts(frozen: Frozen) -> dict[str, Context]:
    """What is declared of each file's traces."""
    return {
        file.file: Context(
            source=Source(snapshot=frozen.name, file=file.file, file_sha256=file.sha256, line=1, offset=0, length=0),
            provenance=file.provenance,
            licence=frozen.licence,
            source_name=frozen.source,
            trust_rows=frozen.trust_rows,
        )
        for file in frozen.files
    }


def index_row(document: Document) -> dict[str, Any]:
    """The small row that later stages look trajectories up with."""
    trajectory: Trajectory = document.metadata["trajectory"]
    problem = trajectory.problem
    own = problem.reward is not None or problem.voucher is not None or problem.category is not None
    return {
        "trajectory_id": trajectory.trajectory_id,
        "identity": trajectory.identity,
        "file": trajectory.source.file,
        "line": trajectory.source.line,
        "offset": trajectory.source.offset,
        "format": trajectory.format.value,
        "status": trajectory.status,
        "problem_id": problem.problem_id,
        "query": problem.query,
        "messages": len(trajectory.messages),
        "final_ids": final_ids(trajectory),
        "own_problem": msgspec.json.encode(problem).decode() if own else None,
    }


def finish(staged: Staged, name: str, shards: int) -> tuple[StageReport, pl.DataFrame]:
    """Check that every line is accounted for and that the contract holds, then write the report."""
    report = make_report("normalize", name, check_accounts(staged.scratch / "accounts", shards))
    if report.kept == 0:
        counted = ", ".join(f"{code} {count}" for code, count in report.reasons.items())
        raise SnapshotError(
            "no line of the snapshot can be read as a trajectory",
            where=f"snapshot {name}",
            expected=f"rows of one of: {KNOWN}",
            got=counted or "no line",
            todo="look at one file with `oresmith inspect`",
        )
    index = pl.concat([pl.read_parquet(path) for path in sorted((staged.path / "index").glob("*.parquet"))])
    check_table(index, IndexTable, f"index of snapshot {name}")
    write_report(report, staged.path)
    return report, index


def summary(report: StageReport) -> dict[str, Any]:
    """What DVC shows as metrics."""
    return {"read": report.read, "kept": report.kept, "rejected": report.rejected, "reasons": report.reasons}


def main() -> None:
    """Check all parameters, then normalise the snapshot that the command line names."""
    end_with_parent()
    params = load_params()
    report = run(params, selected(params, argument(sys.argv, __doc__)).name)
    print(f"normalize {report.snapshot}: {report.read} lines, {report.kept} trajectories, {report.rejected} rejected")


if __name__ == "__main__":
    guarded(main)
