"""Small evidence tables for the gate tests: a row that every default gate accepts, and changes to it."""

from __future__ import annotations

import hashlib
from typing import Any

import polars as pl
import pyarrow as pa

from schemas.check import check_table
from schemas.evidence import ARROW, COLUMNS, EvidenceTable


def sha(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def good(line: int = 1, **changes: Any) -> dict[str, Any]:
    """A row that passes all default gates."""
    place = f"{changes.get('snapshot', 's1')}:{changes.get('file', 'a.jsonl')}:{line}"
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {
        "snapshot": "s1",
        "file": "a.jsonl",
        "file_sha256": sha("file"),
        "line": line,
        "offset": line * 100,
        "length": 99,
        "trajectory_id": sha(place),
        "identity": sha("identity" + place),
        "content": sha("content" + place),
        "format": "sn15-envelope",
        "status": "SUCCESS",
        "problem_id": f"p{line}",
        "problem": f"p{line}",
        "category": "product",
        "outcome": "success",
        "outcome_source": "rescored",
        "scorer": "oresmith-strict/1",
        "score_rule": 1.0,
        "score_gt": 1.0,
        "score_format": 1.0,
        "origin": "A",
        "origin_votes": ["echo:A"],
        "recommend_origin": "model_emitted",
        "full_text": True,
        "provenance_class": "runtime-written",
        "judge_status": "judged",
        "judge_quality": 0.9,
        "judge_era": "binned",
        "n_messages": 8,
        "n_steps": 3,
        "n_calls": 3,
        "malformed_steps": 0,
        "unpaired_calls": 0,
        "orphan_results": 0,
        "recommend_calls": 1,
        "recommend_parses": True,
        "recommend_unresolved": 0,
        "terminated": True,
        "call_sequence": sha("calls" + place),
        "calls_unknown_tool": 0,
        "calls_invalid": 0,
        "tokens": 3000,
        "tokenizer": "smollm2",
        "secret_types": [],
        "personal_types": [],
        "path_types": [],
        "injection_types": [],
    }
    return row | changes


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    """Rows as a checked evidence table."""
    frame = pl.from_arrow(pa.Table.from_pylist(list(rows), schema=ARROW))
    assert isinstance(frame, pl.DataFrame)
    return check_table(frame, EvidenceTable, "test")
