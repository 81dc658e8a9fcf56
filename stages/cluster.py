"""Stage `cluster`: which problems are one problem, over all snapshots and the guarded benchmarks.

Reads data/snapshots/*/ (problems) and data/normalize/*/index/; the benchmark files that cluster.benchmarks pins.
Writes data/cluster/ (problems.parquet, attempts.parquet, edges.parquet, clusters.json) and metrics/cluster.json.
Exit codes: 0, 2 for a refusal (a benchmark file whose hash changed, a cluster over the bound, no embedding model).
Example: python -m stages.cluster
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.blocks.atomic import stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.leakage.clusters import ClusterParams, ClusterReport, Clusters, GivenPair, cluster, extend
from oresmith.leakage.embeddings import EmbeddedPairs, embedding_pairs
from oresmith.leakage.neardup import NearParams
from oresmith.leakage.universe import Known, Universe
from oresmith.minilm import load_encoder
from oresmith.param_data import Cluster
from oresmith.params import Params, load_params
from oresmith.records import Problem
from oresmith.stage import DATA, builtins, guarded, write_metrics
from schemas.clusters import ATTEMPTS, CLUSTERS_SCHEMA, EDGES, PROBLEMS


def run(params: Params) -> ClusterReport:
    """Cluster all problems and publish the tables whole."""
    with stage_output(
        DATA / "cluster",
        "cluster",
        schema=CLUSTERS_SCHEMA,
        params=builtins(params.cluster),
        observed=DATA / "observed" / "cluster.json",
    ) as staged:
        universe = Universe()
        attempts = pl.concat([universe.add_snapshot(entry.name, DATA) for entry in params.snapshots])
        universe.add_benchmarks(params.cluster.benchmarks)
        embedded = embed(universe.batches, params.cluster)
        given = embedded.pairs if embedded else []
        clusters = cluster_batches(universe.batches, cluster_params(params.cluster), given)
        write(problem_rows(clusters, universe), PROBLEMS, staged.path / "problems.parquet")
        pq.write_table(attempts.to_arrow().cast(ATTEMPTS), staged.path / "attempts.parquet", compression="zstd")
        edges = [{"a": edge.a, "b": edge.b, "kind": edge.kind.value, "value": edge.value} for edge in clusters.edges()]
        write(edges, EDGES, staged.path / "edges.parquet")
        figures = {
            "report": clusters.report,
            "aliases": dict(sorted(clusters.aliases.items())),
            "params": clusters.params,
        }
        text = msgspec.json.format(msgspec.json.encode(figures), indent=1)
        (staged.path / "clusters.json").write_bytes(text + b"\n")
    write_metrics("cluster", summary(clusters.report, attempts, universe) | embedding_summary(embedded))
    return clusters.report


def cluster_params(params: Cluster) -> ClusterParams:
    """The library's parameters."""
    return ClusterParams(
        min_constraints=params.min_constraints,
        min_pairs=params.min_pairs,
        near=NearParams(threshold=params.wording_min),
        largest_share=params.largest_share,
        largest_floor=params.largest_floor,
    )


def embed(batches: list[list[Problem]], params: Cluster) -> EmbeddedPairs | None:
    """What the embedding model joins; None where none is asked for.

    Raises:
        OresmithError: the extra `embed` is not installed, or its model is not the known one.
    """
    if params.embedding == "none":
        return None
    return embedding_pairs(batches, load_encoder("cluster.embedding"), params.embedding_min)


def embedding_summary(embedded: EmbeddedPairs | None) -> dict[str, int]:
    """What the metrics say of the embeddings; nothing where none were asked for."""
    if embedded is None:
        return {}
    return {
        "embedding_pairs": len(embedded.pairs),
        "embedding_unexamined": embedded.unexamined,
        "embedding_too_long": embedded.too_long,
    }


def cluster_batches(batches: list[list[Problem]], params: ClusterParams, given: Sequence[GivenPair] = ()) -> Clusters:
    """Cluster batch after batch, so that a cluster keeps the id that its first batch gave it."""
    first, *others = batches
    clusters = cluster(first, params, given)
    for batch in others:
        clusters = extend(clusters, batch, given)
    return clusters


def problem_rows(clusters: Clusters, universe: Universe) -> list[dict[str, Any]]:
    """One row a problem: what is known of it, its keys and its cluster."""
    rows = []
    for (name, cluster_id), keys in zip(clusters.assignments(), clusters.table.rows(), strict=True):
        known: Known = universe.known[name]
        problem = known.problem
        rows.append(
            {
                "problem": name,
                "problem_id": problem.problem_id,
                "query": problem.query,
                "category": problem.category,
                "difficulty": problem.difficulty,
                "reward": json_text(problem.reward),
                "voucher": json_text(problem.voucher),
                "snapshot": known.snapshot,
                "wishes": sorted(known.wishes),
                "benchmarks": sorted(known.benchmarks),
                "cluster": cluster_id,
                "query_key": keys.query,
                "base_key": keys.base,
                "tokens_key": keys.tokens,
                "gold_keys": list(keys.gold),
                "spec_key": keys.spec,
                "constraints": keys.constraints,
                "pairs": keys.pairs,
                "flags": list(keys.flags),
            }
        )
    return rows


def json_text(value: object) -> str | None:
    """JSON text of a value, null for none."""
    return None if value is None else msgspec.json.encode(value).decode()


def write(rows: list[dict[str, Any]], schema: pa.Schema, path: Any) -> None:
    """Write rows under their contract."""
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd")


def summary(report: ClusterReport, attempts: pl.DataFrame, universe: Universe) -> dict[str, Any]:
    """What DVC shows as metrics."""
    known = universe.known.values()
    return {
        "problems": report.problems,
        "clusters": report.clusters,
        "largest": report.largest,
        "largest_share": round(report.largest_share, 6),
        "edges": {str(kind): count for kind, count in sorted(report.edges.items())},
        "one_value_pairs": report.one_value_pairs,
        "unexamined_pairs": report.unexamined_pairs,
        "benchmark_problems": sum(bool(one.benchmarks) for one in known),
        "benchmark_problems_in_snapshots": sum(bool(one.benchmarks) and one.snapshot is not None for one in known),
        "attempts": attempts.height,
        "attempts_without_problem": int(attempts["problem"].null_count()),
    }


def main() -> None:
    """Check all parameters, then cluster."""
    end_with_parent()
    report = run(load_params())
    print(f"cluster: {report.problems} problems, {report.clusters} clusters, largest {report.largest}")


if __name__ == "__main__":
    guarded(main)
