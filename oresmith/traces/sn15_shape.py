"""What an SN15 envelope and its steps hold by default, and how a record remembers where its source differed.

Decoding compares what the source holds with what the encoder would write from the record's own fields, and keeps the
difference; encoding writes the fields and applies the difference. So a trace that follows the runtime's form costs no
`extra` at all, and any other comes back as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from oresmith.records import Problem, ProxyCall, Step, Trajectory

LOG_FIELDS = tuple(field for field in ProxyCall.__struct_fields__ if field != "step")
LOG_KEYS = frozenset(LOG_FIELDS)
"""The keys of a log entry that have a field."""
CALL_KEYS = frozenset(("name", "parameters", "tool_call_id", "result"))
MAX_INT = 2**53
"""Integers at and above it do not fit a field of the record; they stay raw in `extra`."""


def infos(steps: Iterable[object]) -> Iterator[dict[str, Any]]:
    """The `extra_info` of each step that has one."""
    for step in steps:
        info = step.get("extra_info") if isinstance(step, dict) else None
        if isinstance(info, dict):
            yield info


def envelope_of(t: Trajectory) -> dict[str, Any]:
    """The envelope that the record's own fields give, `dialogue` null."""
    return {
        "problem_id": t.problem.problem_id,
        "status": t.status,
        "execution_time": t.execution_time,
        "inference_failure_count": t.inference_failures,
        "inference_total": t.inference_total,
        "error": t.error,
        "dialogue": None,
    }


def info_of(problem: Problem, execution_time: float | None, step: Step, index: int) -> dict[str, Any]:
    """The `extra_info` that the record's own fields give for step `index`, without its `proxy_calls`."""
    values = {
        "step": step.number,
        "query": problem.query,
        "timestamp": step.timestamp,
        "problem_id": problem.problem_id,
        "execution_time": execution_time if index == 0 else None,
    }
    return {key: value for key, value in values.items() if value is not None}


def log_entry_of(entry: ProxyCall) -> dict[str, Any]:
    """The `proxy_calls` entry that the fields of a log entry give, keys in the runtime's order."""
    values = ((name, getattr(entry, name)) for name in LOG_FIELDS)
    return {name: value for name, value in values if value is not None}


def note_difference(extra: dict[str, Any], name: str, emitted: dict[str, Any], raw: dict[str, Any]) -> None:
    """Keep in `extra` what turns `emitted` into `raw`: `extra[name]` for keys to set, `extra["absent"]` to remove."""
    changed = {key: value for key, value in raw.items() if not (key in emitted and same(emitted[key], value))}
    absent = [f"{name}.{key}" for key in emitted if key not in raw]
    if changed:
        extra[name] = changed
    if absent:
        extra.setdefault("absent", []).extend(absent)


def apply_difference(extra: dict[str, Any], name: str, emitted: dict[str, Any]) -> dict[str, Any]:
    """Undo `note_difference`: set and remove keys of `emitted`, in place."""
    changed = extra.get(name)
    if changed:
        emitted.update(changed)
    for path in extra.get("absent", ()):
        owner, _, key = path.partition(".")
        if owner == name:
            emitted.pop(key, None)
    return emitted


def same(one: object, other: object) -> bool:
    """Equal in value and in JSON kind: 1, 1.0 and true are three things."""
    return one is other or (type(one) is type(other) and bool(one == other))


def small_int(value: object) -> int | None:
    """An integer that fits the record, else None."""
    return value if type(value) is int and -MAX_INT < value < MAX_INT else None


def small_float(value: object) -> float | None:
    """A number that fits the record, else None."""
    if type(value) is float or (type(value) is int and -MAX_INT < value < MAX_INT):
        return float(value)
    return None
