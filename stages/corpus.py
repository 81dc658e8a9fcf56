"""Stage `corpus`: the configs of the dataset in Parquet: ranked, capped, split by pool, every reject beside them.

Reads data/normalize/*/, data/evidence/*/table/, data/gate/, data/cluster/ and data/split/. Decides every row from the
small tables, then streams the trajectories twice: to measure the rows that come into question, and to write.
Writes data/corpus/ (a folder a config, README.md, corpus.json, report.json) and metrics/corpus.json.
Exit codes: 0, also for a corpus without train rows (it says why), 2 for a refusal.
Example: python -m stages.corpus
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from oresmith.blocks.atomic import Staged, stage_output
from oresmith.blocks.execute import run_pipeline
from oresmith.blocks.lifeline import end_with_parent
from oresmith.corpus.account import CorpusReport, make_corpus_report, make_counts, make_fates, sentences
from oresmith.corpus.plan import candidates, decide, load_rows
from oresmith.corpus.problems import grpo_rows, guarded_golds, heldout_rows, read_problems
from oresmith.corpus.readme import front_matter
from oresmith.corpus.rejects import reject_rows
from oresmith.corpus.shards import File, Layout, SplitFiles, corpus_files, place_parts
from oresmith.corpus.steps import Measurer, RowWriter, Shard, WantedReader, input_shards, read_measures, write_plans
from oresmith.params import Params, load_params
from oresmith.report import check_chain, read_report, write_report
from oresmith.stage import DATA, builtins, guarded, workers, write_metrics
from schemas.corpus import CONFIGS, CORPUS_SCHEMA, REJECTED


def run(params: Params) -> CorpusReport:
    """Build the corpus and publish it whole."""
    names = [entry.name for entry in params.snapshots]
    with stage_output(
        DATA / "corpus",
        "corpus",
        schema=CORPUS_SCHEMA,
        params=builtins(params.corpus),
        observed=DATA / "observed" / "corpus.json",
    ) as staged:
        problems = read_problems(DATA)
        shards = input_shards(DATA, names)
        rows = load_rows(DATA, names, problems)
        golds = guarded_golds(problems, names)
        measured = measure(params, staged.scratch / "measure", candidates(rows), shards, golds)
        plan = decide(rows, measured, params.corpus)
        del rows, measured
        write_trajectories(params, staged.scratch, plan, shards)
        write_problems(params, staged.scratch / "parts", problems, names)
        write_rejects(params, staged.scratch / "parts", plan, names)
        report, counts = finish(staged, plan, problems, names)
    write_metrics("corpus", {"report": summary(report), **counts})
    return report


def measure(
    params: Params, scratch: Path, chosen: pl.DataFrame, shards: list[Shard], golds: dict[str, int]
) -> pl.DataFrame:
    """Read the rows that come into question once, for what only their dialogues can say."""
    plans = scratch / "plans"
    wanted = write_plans(chosen, shards, DATA, plans)
    known = scratch / "golds.json"
    known.write_bytes(msgspec.json.encode(golds))
    if wanted:
        steps = [WantedReader(wanted, plans), Measurer(scratch / "measures", known)]
        stream(params, steps, len(wanted), scratch)
    return chosen.join(read_measures(scratch / "measures"), on="n", how="inner", validate="1:1", maintain_order="left")


def write_trajectories(params: Params, scratch: Path, plan: pl.DataFrame, shards: list[Shard]) -> None:
    """Stream the published rows into `trajectories`, `subtask`, `sft` and `kto`."""
    plans = scratch / "plans"
    wanted = write_plans(plan.filter(pl.col("place").is_not_null()), shards, DATA, plans)
    if wanted:
        steps = [WantedReader(wanted, plans), RowWriter(wanted, scratch / "parts", layout(params))]
        stream(params, steps, len(wanted), scratch)


def stream(params: Params, steps: list[Any], tasks: int, scratch: Path) -> None:
    """Run steps over shards; workers change time, never bytes."""
    run_pipeline(steps, tasks=tasks, executor=params.run.executor, workers=workers(params), scratch=scratch / "run")


def layout(params: Params) -> Layout:
    """Bounds of row groups and files."""
    return Layout(params.corpus.row_group_bytes, params.corpus.shard_bytes)


def write_problems(params: Params, parts: Path, problems: pl.DataFrame, names: list[str]) -> None:
    """Write `grpo`, `heldout` and `heldout_gold`: what each snapshot adds, in files of its own."""
    for order, name in enumerate(names):
        stem = f"{order:03d}-{name}-00000"
        with SplitFiles(parts / "grpo", "grpo", f"train-{stem}", layout(params)) as files:
            for row in grpo_rows(problems, name):
                files.add(row)
        for config in ("heldout", "heldout_gold"):
            split_rows: dict[str, list[dict[str, Any]]] = {}
            for split, open_row, gold_row in heldout_rows(problems, name):
                split_rows.setdefault(split, []).append(gold_row if config == "heldout_gold" else open_row)
            for split, rows in split_rows.items():
                with SplitFiles(parts / config, config, f"{split}-{stem}", layout(params)) as files:
                    for row in rows:
                        files.add(row)


def write_rejects(params: Params, parts: Path, plan: pl.DataFrame, names: list[str]) -> None:
    """Write `rejects`, a snapshot after the other."""
    for order, (name, rows) in enumerate(reject_rows(DATA, names, plan, params.corpus)):
        with SplitFiles(parts / "rejects", "rejects", f"{REJECTED}-{order:03d}-{name}-00000", layout(params)) as files:
            for row in rows:
                files.add(row)


def finish(
    staged: Staged, plan: pl.DataFrame, problems: pl.DataFrame, names: list[str]
) -> tuple[CorpusReport, dict[str, Any]]:
    """Put the files in their places, check that every line stands in one of them, and describe them."""
    if (staged.scratch / "parts").exists():
        place_parts(staged.scratch / "parts", staged.path)
    files: list[File] = corpus_files(staged.path, CONFIGS)
    normalize = [read_report(DATA / "normalize" / name) for name in names]
    fates = make_fates([account for report in normalize for account in report.files], plan, files)
    report = make_corpus_report(plan, fates)
    check_chain([read_report(DATA / "gate")], report)
    counts = make_counts(plan, problems, files)
    staged.rows = {file.path.relative_to(staged.path).as_posix(): file.rows for file in files}
    write_report(report, staged.path)
    (staged.path / "corpus.json").write_bytes(msgspec.json.format(msgspec.json.encode(counts), indent=1) + b"\n")
    (staged.path / "README.md").write_text(front_matter(files), "utf-8")
    return report, counts


def summary(report: CorpusReport) -> dict[str, Any]:
    """What DVC shows as metrics."""
    names = ("read", "trajectories", "trained", "subtask", "withheld", "rejected", "reasons")
    return {name: getattr(report, name) for name in names}


def main() -> None:
    """Check all parameters, then build the corpus."""
    end_with_parent()
    print("\n".join(sentences(run(load_params()))))


if __name__ == "__main__":
    guarded(main)
