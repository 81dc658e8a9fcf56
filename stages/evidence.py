"""Stage `evidence`: what is known of each trajectory of one snapshot; facts, no thresholds.

Reads data/normalize/NAME/ and problems, catalogue and witness of data/snapshots/NAME/; chains reader -> signals ->
table.
Writes data/evidence/NAME/ (table/, report.json) and metrics/evidence-NAME.json.
Exit codes: 0, 2 for a refusal (a catalogue that lacks gold products, a damaged input, disk full).
Example: python -m stages.evidence demo
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from oresmith.arena.titles import titling
from oresmith.arena.witness import Witness, load_witness
from oresmith.blocks.accounts import Accounts, check_accounts
from oresmith.blocks.atomic import Staged, stage_output
from oresmith.blocks.execute import run_pipeline
from oresmith.blocks.lifeline import end_with_parent
from oresmith.blocks.steps import facts_of, signal_steps
from oresmith.blocks.writers import ParquetTableWriter, TrajectoryReader
from oresmith.evidence.outcome import Wanted, World, load_world, reward_titles
from oresmith.evidence.signals import build_signals
from oresmith.frozen import read_frozen
from oresmith.param_data import Evidence
from oresmith.params import Params, load_params
from oresmith.records import Problem
from oresmith.report import StageReport, check_chain, make_report, read_report, write_report
from oresmith.stage import DATA, argument, builtins, guarded, selected, workers, write_metrics
from schemas.check import check_table
from schemas.evidence import ARROW, EVIDENCE_SCHEMA, EvidenceTable


def run(params: Params, name: str) -> StageReport:
    """Compute the evidence of one snapshot and publish it whole."""
    normalized = DATA / "normalize" / name
    world = world_of(name, normalized, params.evidence)
    with stage_output(
        DATA / "evidence" / name,
        f"evidence-{name}",
        schema=EVIDENCE_SCHEMA,
        params=builtins(params.evidence),
        observed=DATA / "observed" / f"evidence-{name}.json",
    ) as staged:
        accounts = Accounts(staged.scratch / "accounts")
        reader = TrajectoryReader(normalized / "trajectories", accounts)
        pipeline = [
            reader,
            *signal_steps(build_signals(params.evidence, world, witness=witness_of(name))),
            ParquetTableWriter(staged.path / "table", ARROW, facts_of, accounts=accounts),
        ]
        run_pipeline(
            pipeline,
            tasks=reader.shards,
            executor=params.run.executor,
            workers=workers(params),
            scratch=staged.scratch / "run",
        )
        report, table = finish(staged, name, reader.shards, read_report(normalized))
    write_metrics(f"evidence-{name}", summary(table))
    return report


def world_of(name: str, normalized: Path, asked: Evidence | None = None) -> World:
    """The problems and the products that this snapshot's trajectories are scored with."""
    snapshot = DATA / "snapshots" / name
    frozen = read_frozen(snapshot)
    index = pl.read_parquet(sorted((normalized / "index").glob("*.parquet")))
    wanted = Wanted()
    wanted.attempts = set(zip(index["problem_id"].to_list(), index["query"].to_list(), strict=True))
    wanted.ids = set(index["final_ids"].explode().drop_nulls().to_list())
    problems, catalogue = (
        snapshot / stored.stored if stored else None for stored in (frozen.problems, frozen.catalogue)
    )
    titles = titling(asked.title_model, asked.title_min, "evidence.title_model") if asked else None
    for own in index["own_problem"].drop_nulls().unique().to_list() if titles else []:
        wanted.titles.update(reward_titles(msgspec.json.decode(own, type=Problem)))
    return load_world(problems, catalogue, wanted, titles)


def witness_of(name: str) -> Witness | None:
    """The arena server's own request log, where the snapshot carries one."""
    stored = read_frozen(DATA / "snapshots" / name).witness
    return load_witness(DATA / "snapshots" / name / stored.stored) if stored else None


def finish(staged: Staged, name: str, shards: int, earlier: StageReport) -> tuple[StageReport, pl.DataFrame]:
    """Check the accounts against the stage before and the table against its contract, then write the report."""
    report = make_report("evidence", name, check_accounts(staged.scratch / "accounts", shards))
    check_chain([earlier], report)
    paths = sorted((staged.path / "table").glob("*.parquet"))
    table = pl.concat([check_table(pl.read_parquet(path), EvidenceTable, path.name) for path in paths])
    write_report(report, staged.path)
    return report, table


def summary(table: pl.DataFrame) -> dict[str, Any]:
    """What DVC shows as metrics: how the rows spread over the labels that gates ask for."""
    labels = ("outcome", "outcome_source", "origin", "provenance_class", "judge_status", "judge_era", "format")
    counted = {label: dict(sorted(Counter(table[label].to_list()).items())) for label in labels}
    median = table["tokens"].median()
    return {
        "rows": table.height,
        **counted,
        "full_text": int(table["full_text"].fill_null(False).sum()),
        "tokens_median": median if isinstance(median, float) else None,
        "tokens_counted": int(table["tokens"].count()),
        "with_secrets": int((table["secret_types"].list.len() > 0).sum()),
        "with_personal_data": int((table["personal_types"].list.len() > 0).sum()),
        "with_judge_injection": int((table["injection_types"].list.len() > 0).sum()),
    }


def main() -> None:
    """Check all parameters, then compute the evidence of the snapshot that the command line names."""
    end_with_parent()
    params = load_params()
    report = run(params, selected(params, argument(sys.argv, __doc__)).name)
    print(f"evidence {report.snapshot}: {report.kept} trajectories")


if __name__ == "__main__":
    guarded(main)
