"""The one schema of the four SN15 tools, and the check of a call against it."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from oresmith.errors import OresmithError

# Beside the package in a checkout and in an installation alike; `schemas` is too common a name to import it by.
_FILE = Path(__file__).resolve().parents[2] / "schemas" / "tools" / "sn15-v1.json"

_TYPES = {"string": str, "integer": int}
_LIMITS = {"pattern": "pattern", "minLength": "min_length", "minimum": "ge", "maximum": "le"}
"""Keyword of JSON Schema -> the same limit of msgspec."""


class CallCheck(NamedTuple):
    """What became of checking one call."""

    verdict: Literal["valid", "invalid", "unknown_tool"]
    reason: str = ""
    """Printable ASCII, 80 characters at most, because it can hold text of the trace; "" for a valid call."""


def check_call(name: object, arguments: object) -> CallCheck:
    """Check a call's arguments, as decoded, against the schema of the tool that it names. Never raises.

    Types are strict: page "1", 1.0 or true is no integer, and a list or number of ids is no comma string.
    """
    checker = _checkers().get(name) if isinstance(name, str) else None
    if checker is None:
        return CallCheck("unknown_tool", _brief(f"no tool {name}" if isinstance(name, str) else "no tool name"))
    try:
        msgspec.convert(arguments, checker)
    except msgspec.ValidationError as error:
        what, _, place = str(error).rpartition(" - at `$.")
        return CallCheck("invalid", _brief(f"{place[:-1]}: {what}" if what else str(error)))
    except UnicodeEncodeError:
        return CallCheck("invalid", "an argument is not valid Unicode")
    return _VALID


def check_call_json(name: object, arguments: str) -> CallCheck:
    """Check a call whose arguments are JSON text (OpenAI form). Never raises."""
    try:
        return check_call(name, msgspec.json.decode(arguments))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        checked = check_call(name, None)
        return checked if checked.verdict == "unknown_tool" else CallCheck("invalid", "the arguments are not JSON")


def tools() -> list[dict[str, Any]]:
    """Return the tools in OpenAI's nested form, `{"type": "function", "function": {..}}`; the caller's own copy."""
    return list(msgspec.json.decode(_raw())["tools"])


def schema_version() -> str:
    """Return name and version of the schema, as in "oresmith.tools.sn15/1"."""
    return str(msgspec.json.decode(_raw())["schema"])


def schema_sha256() -> str:
    """Return the sha256 of the schema file's bytes, hex."""
    return hashlib.sha256(_raw()).hexdigest()


_VALID = CallCheck("valid")


@functools.cache
def _raw() -> bytes:
    return _FILE.read_bytes()


@functools.cache
def _checkers() -> dict[str, Any]:
    functions = [tool["function"] for tool in tools()]
    return {function["name"]: _compile(function["name"], function["parameters"]) for function in functions}


def _compile(name: str, parameters: dict[str, Any]) -> Any:
    """Turn a tool's parameters into a msgspec type, which checks a call in about a microsecond."""
    required = parameters["required"]
    fields: list[Any] = []
    for key, schema in parameters["properties"].items():
        kind = _field(key, schema)
        fields.append((key, kind) if key in required else (key, kind | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=not parameters["additionalProperties"])


def _field(key: str, schema: dict[str, Any]) -> Any:
    unchecked = schema.keys() - {"type", "enum", "description", *_LIMITS}
    if unchecked:
        what = "the tool schema uses a keyword that calls are not checked against"
        raise OresmithError(what, where=key, got=", ".join(sorted(unchecked)))
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    limits = {_LIMITS[keyword]: value for keyword, value in schema.items() if keyword in _LIMITS}
    return Annotated[_TYPES[schema["type"]], msgspec.Meta(**limits)]


def _brief(text: str) -> str:
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in text[:80])
