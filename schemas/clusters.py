"""Contracts of the tables of `cluster` and `split`. Version 1."""

from __future__ import annotations

import pyarrow as pa

CLUSTERS_SCHEMA = "oresmith.clusters/1"
SPLIT_SCHEMA = "oresmith.split/1"

PROBLEMS = pa.schema(
    [
        ("problem", pa.string()),
        ("problem_id", pa.string()),
        ("query", pa.string()),
        ("category", pa.string()),
        ("difficulty", pa.string()),
        ("reward", pa.string()),
        ("voucher", pa.string()),
        ("snapshot", pa.string()),
        ("wishes", pa.list_(pa.string())),
        ("benchmarks", pa.list_(pa.string())),
        ("cluster", pa.string()),
        ("query_key", pa.string()),
        ("base_key", pa.string()),
        ("tokens_key", pa.string()),
        ("gold_keys", pa.list_(pa.string())),
        ("spec_key", pa.string()),
        ("constraints", pa.int64()),
        ("pairs", pa.int64()),
        ("flags", pa.list_(pa.string())),
    ],
    metadata={"schema": CLUSTERS_SCHEMA},
)
"""One row a distinct problem, in the order of the clustering; `reward` and `voucher` are JSON text."""

ATTEMPTS = pa.schema(
    [
        ("snapshot", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("trajectory_id", pa.string()),
        ("problem", pa.string()),
    ],
    metadata={"schema": CLUSTERS_SCHEMA},
)
"""One row a trajectory; `problem` is null where nothing is known of its problem."""

EDGES = pa.schema(
    [("a", pa.string()), ("b", pa.string()), ("kind", pa.string()), ("value", pa.string())],
    metadata={"schema": CLUSTERS_SCHEMA},
)

ASSIGNMENTS = pa.schema(
    [
        ("problem", pa.string()),
        ("cluster", pa.string()),
        ("category", pa.string()),
        ("pool", pa.string()),
        ("held_out", pa.string()),
        ("joined", pa.list_(pa.string())),
        ("new", pa.bool_()),
        ("benchmarks", pa.list_(pa.string())),
        ("vault", pa.bool_()),
        ("trainable", pa.bool_()),
        ("flagged", pa.bool_()),
    ],
    metadata={"schema": SPLIT_SCHEMA},
)
"""One row a problem; `flagged` marks what may be trained on although a benchmark holds it."""
