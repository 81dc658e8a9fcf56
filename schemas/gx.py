"""The Great Expectations suites of the corpus and the checkpoint that runs them. Version 1.

The one module that touches Great Expectations: it is heavy (seconds to import), so that happens inside the functions,
and its interface has changed before, so nobody else depends on it. Suites run over a columnar summary of each config
(one pandas frame, no message texts); what only a row's text can show is for `schemas.corpus_checks`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

GX_SCHEMA = "oresmith.gx-result/1"
SHA256_HEX = r"^[0-9a-f]{64}$"
CATEGORIES = ["product", "shop", "voucher", "web"]
_VOLATILE = {"batch_id"}


class Expected(NamedTuple):
    """One expectation: its class in Great Expectations, the arguments, and what it means to a reader of the report."""

    kind: str
    meaning: str
    arguments: Mapping[str, Any]


class Bounds(NamedTuple):
    """Numbers of this run that the suites hold the corpus to."""

    rows: int
    """Rows of traces that were read: no config of trajectories can hold more."""
    problems: int
    """Distinct problems that were seen, those of benchmarks included."""
    max_tokens: int | None
    """`gate.max_tokens`."""
    origins: Sequence[str]
    """`gate.origin`."""
    provenance: Sequence[str]
    """`gate.provenance`."""
    pools: Sequence[str]
    """Pools that may be published: train, dev, and those of allowed benchmarks."""
    outcomes: Sequence[str]
    """Outcomes that `gate.outcome` and `gate.outcome_missing` let pass."""


class Outcome(NamedTuple):
    """What the checkpoint found."""

    success: bool
    result: dict[str, Any]
    """Depends on the data alone: no time, no run id, no path."""
    observed: dict[str, Any]
    """Run id and times, for the side of this run's facts."""
    failures: list[str]
    """One sentence a failed expectation."""


def suites(bounds: Bounds) -> dict[str, list[Expected]]:
    """The expectations of each config, by its name."""
    return {
        "trajectories": _attempts(bounds, bounds.origins, bounds.pools),
        "subtask": _attempts(bounds, ["B"], [pool for pool in bounds.pools if pool != "dev"]),
        "sft": [*_table("row_id", bounds.rows), _unique("row_id")],
        "kto": [*_table("row_id", bounds.rows), _unique("row_id"), _never_null("label")],
        "grpo": [*_table("problem", bounds.problems), *_problem_names()],
        "heldout": [*_table("problem", bounds.problems), *_problem_names()],
        "heldout_gold": [*_table("problem", bounds.problems), *_problem_names()],
        "rejects": [*_table("reason", bounds.rows), *_rejected()],
    }


def run_checkpoint(
    summaries: Iterable[tuple[str, pd.DataFrame]], expected: Mapping[str, Sequence[Expected]]
) -> Outcome:
    """Validate the summaries in one checkpoint of an ephemeral context (nothing is written, nothing is sent).

    Args:
        summaries: configs with their summaries, one at a time; a suite whose config has no summary is not run.
        expected: config -> its expectations (`suites`).
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_pandas("corpus")
    results, observed = [], {}
    for config, frame in summaries:
        batch = source.add_dataframe_asset(config).add_batch_definition_whole_dataframe("all")
        suite = context.suites.add(
            gx.ExpectationSuite(name=config, expectations=[_built(one) for one in expected[config]])
        )
        definition = gx.ValidationDefinition(name=config, data=batch, suite=suite)
        checkpoint = gx.Checkpoint(
            name=config,
            validation_definitions=[context.validation_definitions.add(definition)],
            actions=[],
            result_format={"result_format": "SUMMARY"},
        )
        done = context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": frame})
        (found,) = (run.to_json_dict() for run in done.run_results.values())
        results.append(_stable(config, len(frame), found))
        observed[config] = {key: found["meta"][key] for key in ("run_id", "validation_time", "batch_markers")}
    success = all(one["success"] for one in results)
    result = {"schema": GX_SCHEMA, "great_expectations": gx.__version__, "success": success, "suites": results}
    return Outcome(success, result, observed, [line for one in results for line in _failures(one)])


def _built(one: Expected) -> Any:
    import great_expectations.expectations as gxe  # noqa: PLC0415

    return getattr(gxe, one.kind)(**one.arguments, meta={"meaning": one.meaning})


def _stable(config: str, rows: int, found: dict[str, Any]) -> dict[str, Any]:
    """A validation result without anything that differs between two runs on the same data."""
    entries = []
    for entry in found["results"]:
        told = entry["expectation_config"]
        kwargs = {key: value for key, value in told["kwargs"].items() if key not in _VOLATILE}
        raised = entry["exception_info"] if not entry["success"] else {}
        entries.append(
            {
                "type": told["type"],
                "kwargs": kwargs,
                "meaning": told["meta"]["meaning"],
                "success": entry["success"],
                "result": _finite(entry["result"]),
                "error": raised.get("exception_message") if isinstance(raised, dict) else None,
            }
        )
    entries.sort(key=lambda entry: (entry["type"], str(entry["kwargs"])))
    statistics = {key: found["statistics"][key] for key in ("evaluated_expectations", "successful_expectations")}
    return {"config": config, "rows": rows, "success": found["success"], "statistics": statistics, "results": entries}


def _finite(value: Any) -> Any:
    """JSON has no NaN: a share of nothing is null."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _failures(suite: dict[str, Any]) -> list[str]:
    lines = []
    for entry in suite["results"]:
        if not entry["success"]:
            result = entry["result"]
            counted = entry["error"] or result.get("unexpected_count", result.get("observed_value"))
            kwargs = entry["kwargs"]
            column = kwargs.get("column") or "+".join(kwargs.get("column_list", ["table"]))
            lines.append(f"{suite['config']}.{column}: {entry['meaning']} ({entry['type']}: {counted})")
    return lines


def _attempts(bounds: Bounds, origins: Sequence[str], pools: Sequence[str]) -> list[Expected]:
    """Expectations of a config that holds one row a trajectory."""
    tokens = {"column": "tokens", "min_value": 1, "max_value": bounds.max_tokens}
    place = {"column_list": ["snapshot", "file", "line"]}
    return [
        *_table("row_id", bounds.rows),
        _unique("row_id"),
        Expected("ExpectColumnValuesToMatchRegex", "ids are sha256 hashes", {"column": "row_id", "regex": SHA256_HEX}),
        Expected("ExpectCompoundColumnsToBeUnique", "a line of a trace file gives at most one row", place),
        *(_never_null(column) for column in ("snapshot", "file", "line", "problem", "cluster", "licence")),
        _in_set("pool", pools, "no pool but those that may be published"),
        _in_set("category", CATEGORIES, "only categories of the arena"),
        _in_set("origin", origins, "only origins that the gate lets pass"),
        _in_set("provenance_class", bounds.provenance, "only call logs that the gate lets pass"),
        _in_set("outcome", bounds.outcomes, "only outcomes that the gate lets pass"),
        _in_set("judge_status", ["judged", "missing", "failed"], "a missing score is called missing"),
        Expected("ExpectColumnValuesToBeBetween", "tokens within the gate's limit where counted", tokens),
        Expected(
            "ExpectColumnValuesToBeBetween",
            "reasoning scores are shares",
            {"column": "judge_quality", "min_value": 0, "max_value": 1},
        ),
        *(_at_least_one(column) for column in ("line", "n_steps", "n_calls")),
        Expected(
            "ExpectColumnUniqueValueCountToBeBetween",
            "no more problems than were seen",
            {"column": "problem", "min_value": 0, "max_value": bounds.problems},
        ),
    ]


def _rejected() -> list[Expected]:
    place = {"column_list": ["snapshot", "file", "line"]}
    return [
        Expected("ExpectCompoundColumnsToBeUnique", "a row is rejected once", place),
        *(_never_null(column) for column in ("stage", "reason", "snapshot", "file", "line")),
        _in_set("stage", ["normalize", "gate", "corpus"], "only stages that reject"),
        _at_least_one("line"),
    ]


def _problem_names() -> list[Expected]:
    named = {"column": "problem", "regex": SHA256_HEX}
    return [
        _unique("problem"),
        Expected("ExpectColumnValuesToMatchRegex", "problems go by the hash of their keys", named),
        *(_never_null(column) for column in ("problem", "cluster")),
        _in_set("category", CATEGORIES, "only categories of the arena"),
    ]


def _table(column: str, rows: int) -> list[Expected]:
    """What holds of any config: bounded rows, and the column that names a row."""
    bounds = {"min_value": 0, "max_value": rows}
    return [
        Expected("ExpectTableRowCountToBeBetween", "no more rows than there can be", bounds),
        Expected("ExpectColumnToExist", f"rows go by {column}", {"column": column}),
        _never_null(column),
    ]


def _unique(column: str) -> Expected:
    return Expected("ExpectColumnValuesToBeUnique", f"each {column} stands once", {"column": column})


def _never_null(column: str) -> Expected:
    return Expected("ExpectColumnValuesToNotBeNull", f"{column} is always known", {"column": column})


def _in_set(column: str, values: Sequence[str], meaning: str) -> Expected:
    return Expected("ExpectColumnValuesToBeInSet", meaning, {"column": column, "value_set": list(values)})


def _at_least_one(column: str) -> Expected:
    return Expected("ExpectColumnValuesToBeBetween", f"{column} counts from 1", {"column": column, "min_value": 1})
