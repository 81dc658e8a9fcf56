"""Stage `gate`: thresholds over the stored evidence of all snapshots, in their order; no trace is read again.

Reads data/evidence/*/table/. Writes data/gate/ (decisions.parquet, rejects.jsonl, report.json), metrics/gate.json,
plots/funnel.csv and plots/reasons.csv.
Exit codes: 0, 2 for a refusal.
Example: python -m stages.gate
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.blocks.accounts import FileAccount
from oresmith.blocks.atomic import stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.errors import OresmithError
from oresmith.funnel import make_funnel
from oresmith.gates import decide
from oresmith.gates.decide import DECISION, rejects
from oresmith.params import Params, load_params
from oresmith.report import StageReport, check_chain, make_report, read_report, write_report
from oresmith.stage import DATA, builtins, guarded, write_metrics, write_plot
from schemas.check import check_table
from schemas.decisions import ARROW, DECISIONS_SCHEMA, DecisionTable
from schemas.evidence import COLUMNS, EvidenceTable

UNREAD = frozenset({"origin_signals", "step_origins", "findings", "score", "recommended_ids"})
"""Columns that no gate asks for; they are most of the table's bytes."""


def run(params: Params) -> StageReport:
    """Decide every row and publish the decisions whole."""
    names = [entry.name for entry in params.snapshots]
    with stage_output(
        DATA / "gate",
        "gate",
        schema=DECISIONS_SCHEMA,
        params=builtins(params.gate),
        observed=DATA / "observed" / "gate.json",
    ) as staged:
        decided = decide(map(read_evidence, names), params.gate)
        decisions = check_table(decided.select(DECISION), DecisionTable, "decisions")
        pq.write_table(arrow(decisions), staged.path / "decisions.parquet", compression="zstd")
        encode = msgspec.json.Encoder().encode
        with (staged.path / "rejects.jsonl").open("wb") as writer:
            writer.writelines(encode(reject) + b"\n" for reject in rejects(decided, params.gate))
        report = make_report("gate", None, accounts(decided))
        check_chain([read_report(DATA / "evidence" / name) for name in names], report)
        write_report(report, staged.path)
    publish(params, report, decided)
    return report


def read_evidence(name: str) -> pl.DataFrame:
    """The evidence of one snapshot, checked against its contract."""
    paths = sorted((DATA / "evidence" / name / "table").glob("*.parquet"))
    where = f"evidence of snapshot {name}"
    if not paths:
        where = str(DATA / "evidence" / name)
        raise OresmithError("there is no evidence of this snapshot", where=where, todo="run `dvc repro`")
    columns = [column for column in COLUMNS if column not in UNREAD]
    # Shard by shard: checking makes copies of what it checks.
    return pl.concat([check_table(pl.read_parquet(path, columns=columns), EvidenceTable, where) for path in paths])


def arrow(decisions: pl.DataFrame) -> pa.Table:
    """The decisions with the types of their contract."""
    return decisions.to_arrow().cast(ARROW).replace_schema_metadata(ARROW.metadata)


def accounts(decided: pl.DataFrame) -> list[FileAccount]:
    """What became of each input file's rows, by the deciding reason."""
    found: dict[tuple[str, str], FileAccount] = {}
    for snapshot, file, reasons in decided.select("snapshot", "file", "reasons").iter_rows():
        account = found.setdefault((snapshot, file), FileAccount(snapshot=snapshot, file=file))
        account.read += 1
        account.forwarded += 1
        if reasons:
            account.rejected[reasons[0]] = account.rejected.get(reasons[0], 0) + 1
        else:
            account.kept += 1
    return list(found.values())


def publish(params: Params, report: StageReport, decided: pl.DataFrame) -> None:
    """Metrics and plots of the run so far."""
    names = [entry.name for entry in params.snapshots]
    stages = [read_report(Path(DATA / stage / name)) for stage in ("normalize", "evidence") for name in names]
    funnel = make_funnel([*stages, report])
    write_metrics("gate", summary(report, decided))
    readable = sum(stage.kept for stage in stages if stage.stage == "normalize")
    steps = [("1 lines read", funnel.read), ("2 trajectories", readable), ("3 accepted", funnel.accepted)]
    write_plot("funnel", ["stage", "rows"], list(steps))
    write_plot("reasons", ["reason", "rows"], list(funnel.reasons.items()))


def summary(report: StageReport, decided: pl.DataFrame) -> dict[str, Any]:
    """What DVC shows as metrics: the account, every reason a row has, and the spread of what was accepted."""
    accepted = decided.filter(pl.col("accepted"))
    every = Counter(code for codes in decided["reasons"].to_list() for code in codes)
    return {
        "read": report.read,
        "accepted": report.kept,
        "rejected": report.rejected,
        "deciding_reasons": report.reasons,
        "all_reasons": {code: every[code] for code in sorted(every)},
        "accepted_problems": accepted["problem"].n_unique(),
        "accepted_agents": accepted["agent_version"].drop_nulls().n_unique(),
        "accepted_categories": dict(sorted(Counter(accepted["category"].fill_null("unknown").to_list()).items())),
        "accepted_without_judge": int((accepted["judge_status"] != "judged").sum()),
        "accepted_without_tokens": int(accepted["tokens"].null_count()),
    }


def main() -> None:
    """Check all parameters, then decide."""
    end_with_parent()
    report = run(load_params())
    print(f"gate: {report.read} rows, {report.kept} accepted, {report.rejected} rejected")


if __name__ == "__main__":
    guarded(main)
