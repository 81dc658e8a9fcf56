"""How much data a run has: counted in the corpus where there is one, else reckoned from the parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from oresmith.doctor import rates
from oresmith.param_data import Snapshot
from oresmith.params import Params
from oresmith.stage import DATA
from oresmith.yamlfile import READ_FAULTS, read_yaml


class DataFacts(msgspec.Struct, frozen=True):
    """Sizes of the data."""

    basis: str
    """Where the numbers come from."""
    traces: int
    rows: int
    """Of config `sft`, split train."""
    kto_rows: int
    problems: int
    """Of the train pool."""
    tokens: float
    """Mean of a row, in the view of the training rows."""
    longest: int
    """The longest that is reckoned with."""


def data_facts(params: Params, data: Path = DATA, root: Path = Path()) -> DataFacts:
    """Count, or reckon.

    Args:
        params: of the run.
        data: its data directory.
        root: of the project, which the suites' paths are relative to.
    """
    tokens = min(rates.ROW_TOKENS[params.train.view], float(params.train.max_tokens))
    arena = all(entry.source == "arena" for entry in params.snapshots)
    longest = min(params.train.max_tokens, round(2 * tokens)) if arena else params.train.max_tokens
    traces = sum(_traces(entry, root) for entry in params.snapshots)
    counted = _counted(data / "corpus" / "corpus.json")
    if counted is not None:
        rows, kto, problems = counted
        return DataFacts("counted in data/corpus", traces, rows, kto, problems, tokens, longest)
    rows = round(traces * rates.TRAIN_SHARE) if arena else rates.PUBLISHED_ROWS
    problems = (
        sum(_problems(entry, root) for entry in params.snapshots) * 7 // 10 if arena else rates.PUBLISHED_PROBLEMS
    )
    return DataFacts(
        "assumed from the suites" if arena else "assumed: as in the published corpus",
        traces,
        rows,
        round(1.4 * rows),
        problems,
        tokens,
        longest,
    )


def _counted(path: Path) -> tuple[int, int, int] | None:
    try:
        configs = json.loads(path.read_bytes())["configs"]
        return tuple(int(configs[name]["train"]["rows"]) for name in ("sft", "kto", "grpo"))  # type: ignore[return-value]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _traces(entry: Snapshot, root: Path) -> int:
    """Traces of a snapshot: every agent version plays every problem of the suite on every day."""
    if entry.source != "arena":
        return rates.PUBLISHED_ROWS
    return _problems(entry, root) * sum((entry.miners or {}).values()) * (entry.days or 1)


def _problems(entry: Snapshot, root: Path) -> int:
    """Problems of a suite; 0 where its file cannot be read, which the stage will say better."""
    try:
        suite: Any = read_yaml(root / entry.path / f"{entry.suite}.yaml")
        planted = sum((suite.get("variants") or {}).values())
        return int(sum(sum(levels.values()) for levels in suite["counts"].values()) + planted)
    except (*READ_FAULTS, TypeError, AttributeError):
        return 0
