"""Contract of the table of rollouts: one row a sample, in the style of the corpus' `trajectories`. Version 1.

Messages and tools are `arrow.json`, as in schemas/corpus.py. The raw results of the tools are in rollouts.jsonl.zst.
"""

from __future__ import annotations

import json

import pyarrow as pa

from oresmith.evaluation.records import ROLLOUT_SCHEMA
from schemas.corpus import MESSAGES, feature_of

_TEXT, _INT, _JSON = pa.string(), pa.int64(), pa.json_()

COLUMNS: dict[str, pa.DataType] = {
    "row_id": _TEXT,
    "model": _TEXT,
    # Problem
    "problem": _TEXT,
    "problem_id": _TEXT,
    "snapshot": _TEXT,
    "category": _TEXT,
    "difficulty": _TEXT,
    "query": _TEXT,
    # Sample
    "sample": _INT,
    "seed": _INT,
    "finish": _TEXT,
    "turns": _INT,
    "malformed": _INT,
    "prompt_tokens": _INT,
    "completion_tokens": _INT,
    # Dialogue
    "messages": MESSAGES,
    "tools": _JSON,
    "system_prompt": _TEXT,
    "schema": _TEXT,
}
"""Column name -> Arrow type, in the order on disk. Null: not known."""

ARROW = pa.schema(
    list(COLUMNS.items()),
    metadata={
        "schema": ROLLOUT_SCHEMA,
        "huggingface": json.dumps({"info": {"features": {name: feature_of(kind) for name, kind in COLUMNS.items()}}}),
    },
)
