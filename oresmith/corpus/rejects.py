"""Rows of the config `rejects`: every row of every stage that is not passed on, with evidence but no text of a trace.

A stage's own reject file may quote a trace in a few words (a key's name, a fault, an exception's class): it stays in
the project. Published are numbers, flags, and texts of our own closed vocabularies.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from oresmith.blocks.rejects import read_rejects
from oresmith.errors import OresmithError
from oresmith.evidence.secrets import find_secrets_in
from oresmith.param_data import Corpus
from oresmith.reasons import Reason
from oresmith.records import Reject

OUR_WORDS = {
    "expected",
    "detail",
    "identity",
    "outcome",
    "outcome_source",
    "tokenizer",
    "origin",
    "origin_votes",
    "provenance_class",
    "judge_status",
    "judge_era",
    "secret_types",
    "personal_types",
    "injection_types",
    "golds",
}
"""Evidence whose texts are our own words, whatever the trace says."""
LONGEST_ID = 256
"""Characters of a problem id that is published; a longer one is text of somebody's, not an id."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def reject_rows(
    data: Path, names: list[str], plan: pl.DataFrame, params: Corpus
) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """The rejects of all stages: each snapshot's name, and its rows in (file, line) order, to be read before the next.

    Args:
        data: the pipeline's data directory.
        names: of the snapshots, in order.
        plan: `plan.decide`; it says which rejects of the gate are published as `subtask`, and what is added to others.
        params: for the evidence of caps and limits.

    Raises:
        OresmithError: a stage's reject file is damaged, or is not of the rows that the plan knows.
    """
    by_snapshot = groupby(read_rejects(data / "gate"), key=lambda reject: reject.source.snapshot)
    group = next(by_snapshot, None)
    for name in names:
        gate: Iterator[Reject] = iter(())
        if group is not None and group[0] == name:
            gate = group[1]
        yield name, _of_snapshot(data, name, gate, plan.filter(pl.col("snapshot") == name), params)
        if group is not None and group[0] == name:
            group = next(by_snapshot, None)
    if group is not None:
        raise OresmithError(
            "the gate rejected rows of a snapshot that the parameters do not list, or not in their order",
            where=str(data / "gate"),
            got=group[0],
            todo="run `dvc repro`",
        )


def _of_snapshot(
    data: Path, name: str, gate: Iterator[Reject], plan: pl.DataFrame, params: Corpus
) -> Iterator[dict[str, Any]]:
    unreadable = (_row(reject) for reject in read_rejects(data / "normalize" / name / "rejects"))
    own = (_own_row(row, params) for row in plan.filter(pl.col("stage") == "corpus").iter_rows(named=True))
    last = ("", 0)
    for row in merge(unreadable, _gate_rows(name, gate, plan.filter(pl.col("stage") == "gate")), own, key=_place):
        if (place := _place(row)) <= last:
            raise OresmithError("rejects are not in the order of their rows", where=f"{name}/{place[0]}:{place[1]}")
        last = place
        yield row


def _place(row: dict[str, Any]) -> tuple[str, int]:
    return row["file"], row["line"]


def _gate_rows(name: str, gate: Iterator[Reject], kept: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Rejects of the gate that stay rejects, with the reasons that they have by now."""
    decided = kept.select("file", "line", "reasons").iter_rows()
    following = next(decided, None)
    for reject in gate:
        if following is not None and following[:2] == (reject.source.file, reject.source.line):
            yield _row(reject, following[2])
            following = next(decided, None)
    if following is not None:
        where = f"{name}/{following[0]}:{following[1]}"
        raise OresmithError("a row that the gate rejected is not in its rejects", where=where, todo="run `dvc repro`")


def _row(reject: Reject, reasons: list[str] | None = None) -> dict[str, Any]:
    source = reject.source
    codes = reasons or reject.reasons
    return {
        "stage": reject.stage,
        "snapshot": source.snapshot,
        "file": source.file,
        "line": source.line,
        "offset": source.offset,
        "trajectory_id": reject.trajectory_id,
        "problem_id": safe_id(reject.problem_id),
        "reason": codes[0],
        "reasons": codes,
        "evidence": _encode(safe_evidence(reject.evidence)).decode(),
    }


def _own_row(row: dict[str, Any], params: Corpus) -> dict[str, Any]:
    """A reject of this stage, with what its reasons rest on."""
    facts: dict[str, dict[str, Any]] = {
        Reason.HELDOUT_GOLD.value: {"golds": row["recommends"], "viewed": row["views_since"] is not None},
        Reason.ROW_TOO_LARGE.value: {"row_bytes": row["row_bytes"], "limit": params.max_row_bytes},
        Reason.OVER_PROBLEM_CAP.value: {"rank": row["rank"], "cap": params.cap_per_problem},
        Reason.OVER_CLUSTER_CAP.value: {"cluster_rank": row["cluster_rank"], "cap": params.cap_per_cluster},
    }
    evidence = {name: value for code in row["reasons"] for name, value in facts[code].items()}
    return {
        "stage": "corpus",
        **{name: row[name] for name in ("snapshot", "file", "line", "offset", "trajectory_id", "reasons")},
        "problem_id": safe_id(row["problem_id"]),
        "reason": row["reasons"][0],
        "evidence": _encode(evidence).decode(),
    }


def safe_evidence(evidence: dict[str, Any]) -> dict[str, Any]:
    """The part of a reject's evidence that holds nothing which a trace wrote."""
    return {name: value for name, value in evidence.items() if name in OUR_WORDS or _is_number(value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def safe_id(problem_id: str | None) -> str | None:
    """A problem id as it may be published: None for one that is too long, or that carries a secret."""
    if problem_id is None or len(problem_id) > LONGEST_ID or _carries_secret(problem_id):
        return None
    return problem_id


@lru_cache(maxsize=1 << 14)
def _carries_secret(problem_id: str) -> bool:
    return bool(find_secrets_in("problem_id", problem_id))
