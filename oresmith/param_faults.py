"""Faults of the parameter file in the words of its user: the key, what it holds, and the nearest known one."""

from __future__ import annotations

import difflib
import re
import reprlib
from typing import Any

import msgspec

from oresmith.errors import ParameterError


def named(
    error: msgspec.ValidationError, raw: object, where: str, kind: type[Any], entries: dict[str, type[Any]]
) -> ParameterError:
    """Turn msgspec's `... - at `$.gate.x`` into the dotted key that a user writes after -S.

    Args:
        error: of the conversion.
        raw: what the file holds.
        where: the file.
        kind: the type that was asked for.
        entries: keys that hold lists, with the type of an entry.
    """
    text = str(error)
    match = re.search(r"(?s)^(.*?)(?: - at `\$(.*)`)?$", text)
    fault, path = (match.group(1), match.group(2) or "") if match else (text, "")
    key = path.lstrip(".")
    todo = ""
    unknown = re.search(r"unknown field `(.*)`", fault)
    if unknown:
        name = unknown.group(1)
        near = difflib.get_close_matches(name, _fields_at(kind, key, entries), n=1)
        key = f"{key}.{name}" if key else name
        fault, todo = "unknown parameter", f"did you mean {near[0]}?" if near else "see params.yaml for the known ones"
    missing = re.search(r"missing required field `(.*)`", fault)
    if missing:
        key = f"{key}.{missing.group(1)}" if key else missing.group(1)
        fault = "missing parameter"
    return ParameterError(fault, where=f"{where}: {key}" if key else where, got=_value_at(raw, key), todo=todo)


def _fields_at(kind: type[Any], key: str, entries: dict[str, type[Any]]) -> list[str]:
    """Names of the fields of the namespace at a dotted key (list indices skipped)."""
    for part in re.findall(r"[^.\[\]]+", key):
        if part in entries:
            kind = entries[part]
        elif not part.isdigit() and part != "...":
            kind = {field.name: field.type for field in msgspec.structs.fields(kind)}.get(part, kind)
    return [field.name for field in msgspec.structs.fields(kind)]


def _value_at(raw: object, key: str) -> str:
    """The value that the file holds at a dotted key, shortened, for the message."""
    value = raw
    for part in re.findall(r"[^.\[\]]+", key):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return ""
    return reprlib.repr(value)[:120]  # bounded work: a YAML alias bomb is small until it is written out
