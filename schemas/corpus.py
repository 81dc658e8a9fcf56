"""Contract of the corpus: the columns of each config, in the order on disk, and what the Parquet files say of them.

Version 1. JSON objects are `arrow.json` (what `datasets.Json` writes): a struct type would give every call the
arguments of all others as nulls. Numbers must come back exactly, and the decoder behind `datasets.Json` rounds some of
them, so rewards, vouchers, scores and evidence are JSON text in plain strings, for `json.loads`. docs/formats.md
describes each column; the checks of the values are in schemas/corpus_checks.py.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

CORPUS_SCHEMA = "oresmith.corpus/1"

_TEXT, _INT, _REAL, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_TEXTS, _INTS, _JSON = pa.list_(_TEXT), pa.list_(_INT), pa.json_()
MESSAGES = pa.list_(_JSON)
"""A dialogue: one JSON object a message, `arguments` of its calls JSON text."""

TRAJECTORIES: dict[str, pa.DataType] = {
    "row_id": _TEXT,
    # Place
    "snapshot": _TEXT,
    "file": _TEXT,
    "line": _INT,
    # Problem and pool
    "problem": _TEXT,
    "problem_id": _TEXT,
    "cluster": _TEXT,
    "pool": _TEXT,
    "category": _TEXT,
    "query": _TEXT,
    "benchmark_flag": _FLAG,
    "benchmarks": _TEXTS,
    # Dialogue
    "messages": MESSAGES,
    "tools": _JSON,
    "system_prompt": _TEXT,
    "original_call_ids": _TEXTS,
    "copied_context": _INTS,
    "no_model": _INTS,
    # Evidence
    "outcome": _TEXT,
    "outcome_source": _TEXT,
    "scorer": _TEXT,
    "score": _TEXT,
    "origin": _TEXT,
    "origin_votes": _TEXTS,
    "recommend_origin": _TEXT,
    "provenance_class": _TEXT,
    "judge_status": _TEXT,
    "judge_quality": _REAL,
    "judge_era": _TEXT,
    "tokens": _INT,
    "tokenizer": _TEXT,
    "n_steps": _INT,
    "n_calls": _INT,
    "depth": _INT,
    "reformulations": _INT,
    "verified_before_recommend": _FLAG,
    "max_repeat": _INT,
    "viewed_heldout_gold": _FLAG,
    # Provenance
    "agent_version": _TEXT,
    "run_id": _TEXT,
    "validator": _TEXT,
    "miner": _TEXT,
    "race_id": _TEXT,
    "runtime": _TEXT,
    "format": _TEXT,
    "licence": _TEXT,
    "rank": _INT,
    "schema": _TEXT,
}
SFT: dict[str, pa.DataType] = {"row_id": _TEXT, "messages": MESSAGES, "tools": _JSON}
KTO: dict[str, pa.DataType] = {
    "row_id": _TEXT,
    "prompt": MESSAGES,
    "completion": MESSAGES,
    "label": _FLAG,
    "tools": _JSON,
}
HELDOUT: dict[str, pa.DataType] = {
    "problem": _TEXT,
    "problem_id": _TEXT,
    "snapshot": _TEXT,
    "cluster": _TEXT,
    "category": _TEXT,
    "difficulty": _TEXT,
    "prompt": MESSAGES,
    "query": _TEXT,
    "benchmarks": _TEXTS,
    "held_out": _TEXT,
}
_GOLD: dict[str, pa.DataType] = {"reward": _TEXT, "voucher": _TEXT}
GRPO: dict[str, pa.DataType] = {
    **{name: kind for name, kind in HELDOUT.items() if name != "held_out"},
    "benchmark_flag": _FLAG,
    **_GOLD,
}
REJECTS: dict[str, pa.DataType] = {
    "stage": _TEXT,
    "snapshot": _TEXT,
    "file": _TEXT,
    "line": _INT,
    "offset": _INT,
    "trajectory_id": _TEXT,
    "problem_id": _TEXT,
    "reason": _TEXT,
    "reasons": _TEXTS,
    "evidence": _TEXT,
}

CONFIGS: dict[str, dict[str, pa.DataType]] = {
    "trajectories": TRAJECTORIES,
    "sft": SFT,
    "kto": KTO,
    "grpo": GRPO,
    "subtask": TRAJECTORIES,
    "heldout": HELDOUT,
    "heldout_gold": HELDOUT | _GOLD,
    "rejects": REJECTS,
}
"""Config -> columns, in the order of the dataset card. `heldout_rollouts` comes with the evaluation."""

REJECTED = "rejected"
"""The one split of `rejects`; `datasets` keeps the name "all" for itself."""


def arrow_schema(config: str) -> pa.Schema:
    """The schema of a config's files, with its version and the features that `datasets` reads."""
    columns = CONFIGS[config]
    features = {"info": {"features": {name: feature_of(kind) for name, kind in columns.items()}}}
    metadata = {"schema": CORPUS_SCHEMA, "config": config, "huggingface": json.dumps(features)}
    return pa.schema(list(columns.items()), metadata=metadata)


def feature_of(kind: pa.DataType) -> dict[str, Any]:
    """A type as `datasets.Features` writes it into the schema."""
    if kind == _JSON:
        return {"_type": "Json"}
    if pa.types.is_list(kind):
        return {"feature": feature_of(kind.value_type), "_type": "List"}
    return {"dtype": "float64" if kind == _REAL else str(kind), "_type": "Value"}
