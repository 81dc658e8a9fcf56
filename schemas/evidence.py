"""Contract of the evidence table: one row a trajectory, facts only, no thresholds. Version 1.

The Arrow schema fixes types on disk; the pandera model states what must be true of the values. Null means "not known"
everywhere; no fact is guessed. docs/formats.md describes each column.
"""

from __future__ import annotations

from typing import Annotated

import pandera.polars as pap
import polars as pl
import pyarrow as pa

from schemas.check import holds

EVIDENCE_SCHEMA = "oresmith.evidence/1"

_TEXT, _INT, _REAL, _FLAG, _TEXTS = pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.list_(pa.string())

COLUMNS: dict[str, pa.DataType] = {
    # Place and identity
    "snapshot": _TEXT,
    "file": _TEXT,
    "file_sha256": _TEXT,
    "line": _INT,
    "offset": _INT,
    "length": _INT,
    "trajectory_id": _TEXT,
    "identity": _TEXT,
    "content": _TEXT,
    "format": _TEXT,
    "status": _TEXT,
    "error_type": _TEXT,
    # Declared provenance
    "agent_version": _TEXT,
    "run_id": _TEXT,
    "validator": _TEXT,
    "miner": _TEXT,
    "race_id": _TEXT,
    "runtime": _TEXT,
    "licence": _TEXT,
    # Problem
    "problem_id": _TEXT,
    "problem": _TEXT,
    "category": _TEXT,
    # Outcome
    "outcome": _TEXT,
    "outcome_source": _TEXT,
    "scorer": _TEXT,
    "score": _TEXT,
    "score_rule": _REAL,
    "score_gt": _REAL,
    "score_format": _REAL,
    "score_error": _TEXT,
    # Origin and provenance class
    "origin": _TEXT,
    "origin_votes": _TEXTS,
    "origin_signals": _TEXT,
    "step_origins": _TEXTS,
    "recommend_origin": _TEXT,
    "full_text": _FLAG,
    "inference_calls": _INT,
    "provenance_class": _TEXT,
    # Reasoning judge
    "judge_status": _TEXT,
    "judge_quality": _REAL,
    "judge_era": _TEXT,
    "judge_model": _TEXT,
    # Structure
    "n_messages": _INT,
    "n_steps": _INT,
    "n_calls": _INT,
    "malformed_steps": _INT,
    "unpaired_calls": _INT,
    "orphan_results": _INT,
    "recommend_calls": _INT,
    "recommend_parses": _FLAG,
    "recommended_ids": _TEXTS,
    "recommend_unresolved": _INT,
    "terminated": _FLAG,
    "depth": _INT,
    "reformulations": _INT,
    "verified_before_recommend": _FLAG,
    "max_repeat": _INT,
    "templated_thinking": _REAL,
    "call_sequence": _TEXT,
    "calls_unknown_tool": _INT,
    "calls_invalid": _INT,
    "call_faults": _TEXTS,
    # Length
    "tokens": _INT,
    "tokenizer": _TEXT,
    # Text findings: types and places, never the text
    "secret_types": _TEXTS,
    "personal_types": _TEXTS,
    "path_types": _TEXTS,
    "injection_types": _TEXTS,
    "findings": _TEXT,
}
"""Column name -> Arrow type, in the order on disk. `score`, `origin_signals` and `findings` are JSON text."""

ARROW = pa.schema(list(COLUMNS.items()), metadata={"schema": EVIDENCE_SCHEMA})

Texts = Annotated[pl.List, pl.String()]


class EvidenceTable(pap.DataFrameModel):
    """What must hold of every evidence table before a gate reads it."""

    snapshot: str
    file: str
    line: int = pap.Field(ge=1)
    offset: int = pap.Field(ge=0)
    length: int = pap.Field(ge=0)
    trajectory_id: str = pap.Field(str_matches=r"^[0-9a-f]{64}$")
    identity: str = pap.Field(str_matches=r"^[0-9a-f]{64}$")
    content: str = pap.Field(str_matches=r"^[0-9a-f]{64}$")
    format: str
    status: str = pap.Field(nullable=True)
    problem: str = pap.Field(nullable=True)
    category: str = pap.Field(nullable=True, isin=["product", "shop", "voucher", "web"])
    outcome: str = pap.Field(isin=["success", "failure", "unknown"])
    outcome_source: str = pap.Field(isin=["rescored", "source", "none"])
    score_rule: float = pap.Field(nullable=True, ge=0, le=1)
    score_gt: float = pap.Field(nullable=True, ge=0, le=1)
    score_format: float = pap.Field(nullable=True, ge=0, le=1)
    origin: str = pap.Field(isin=["A", "B", "unknown"])
    recommend_origin: str = pap.Field(nullable=True, isin=["model_emitted", "not_found", "unknown"])
    provenance_class: str = pap.Field(isin=["server-verified", "runtime-written", "agent-written", "absent"])
    judge_status: str = pap.Field(isin=["judged", "missing", "failed"])
    judge_quality: float = pap.Field(nullable=True, ge=0, le=1)
    judge_era: str = pap.Field(isin=["none", "unbinned", "binned", "unknown"])
    n_steps: int = pap.Field(ge=0)
    n_calls: int = pap.Field(ge=0)
    malformed_steps: int = pap.Field(ge=0)
    unpaired_calls: int = pap.Field(ge=0)
    orphan_results: int = pap.Field(ge=0)
    recommend_calls: int = pap.Field(ge=0)
    recommend_unresolved: int = pap.Field(nullable=True, ge=0)
    tokens: int = pap.Field(nullable=True, ge=0)
    secret_types: Texts
    personal_types: Texts
    injection_types: Texts

    class Config:
        """Other columns are allowed here (Arrow fixes them); values are never coerced."""

        strict = False
        coerce = False

    @pap.dataframe_check
    @classmethod
    def one_row_a_place(cls, data: pap.PolarsData) -> pl.LazyFrame:
        """A place (snapshot, file, line) holds one trajectory: a second row would be an invented one."""
        return holds(data, pl.struct("snapshot", "file", "line").is_unique())

    @pap.dataframe_check
    @classmethod
    def calls_are_parts(cls, data: pap.PolarsData) -> pl.LazyFrame:
        """Unpaired, invalid and unknown calls are calls."""
        return holds(
            data,
            (pl.col("unpaired_calls") <= pl.col("n_calls"))
            & (pl.col("calls_invalid") + pl.col("calls_unknown_tool") <= pl.col("n_calls")),
        )
