"""Tools are nested, require something, and every call fits the definition beside it; no prompt was put in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec

from oresmith.evidence.structure import RECOMMEND
from oresmith.release.layout import ROLLOUTS
from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.rowsof import WHOLE, DataFile, data_files, rows

CONFIGS = (*WHOLE, "sft", "kto", ROLLOUTS)
CALLS = '"tool_calls"'
"""What a message with calls holds."""
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    function: _Function


class _Message(msgspec.Struct):
    role: str
    tool_calls: list[_Call] | None = None


_message = msgspec.json.Decoder(_Message).decode
Definitions = dict[str, dict[str, Any]]
"""Tool -> its parameters."""


def check(opened: Opened) -> Findings:
    """See the module."""
    calls = count = 0
    faults: set[tuple[str, str]] = set()
    for file in data_files(opened.dataset, CONFIGS):
        for number, row in rows(file, _columns(file), CALLS):
            count += 1
            found = definitions(row["tools"] or "")
            item = str(row["row_id"])
            if isinstance(found, str):
                if (file.name, found) not in faults:  # one text stands beside thousands of rows
                    yield Finding(found, file.name, number, item)
                faults.add((file.name, found))
                continue
            try:
                messages = [_message(text) for text in row.get("messages") or row["prompt"] + row["completion"]]
            except (msgspec.MsgspecError, TypeError, RecursionError, UnicodeError):
                yield Finding("a message is none", file.name, number, item)
                continue
            if file.config in WHOLE:
                logged = bool(messages) and messages[0].role in ("system", "developer")
                if logged != (row["system_prompt"] == "logged"):
                    said = f"states a system prompt that is {row['system_prompt']}"
                    yield Finding(f"{said}, and its messages say otherwise", file.name, number, item)
            # A rollout is what a model did, faults included; its definitions alone must be sound.
            made = (
                [] if file.config == ROLLOUTS else [call.function for one in messages for call in one.tool_calls or ()]
            )
            calls += len(made)
            for fault in _misfits(made, found):
                yield Finding(fault, file.name, number, item)
    return f"{calls:,} calls in {count:,} rows"


def _columns(file: DataFile) -> list[str]:
    messages = ["prompt", "completion"] if file.config == "kto" else ["messages"]
    return ["row_id", "tools", *messages, *(["system_prompt"] if file.config in WHOLE else [])]


@lru_cache(maxsize=512)
def definitions(text: str) -> Definitions | str:
    """The tools of a row by name, or what is wrong with them."""
    try:
        tools = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return "the tools are no JSON"
    found: Definitions = {}
    for tool in tools if isinstance(tools, list) else [tools]:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            return "the tools are flat: a definition must stand under `function`"
        parameters = function.get("parameters", {})
        properties = parameters.get("properties", {}) if isinstance(parameters, dict) else None
        if not isinstance(function.get("name"), str) or not isinstance(properties, dict):
            return "a tool has no name, or parameters that are no schema"
        found[function["name"]] = parameters
    wanting = [name for name, one in found.items() if one.get("properties")]
    if wanting and not any(one.get("required") for one in found.values()):
        return f"no tool requires anything, though {', '.join(wanting[:5])} take arguments"
    return found


def recommendations(messages: Iterable[str | None]) -> Iterator[dict[str, Any]]:
    """The arguments of each call of `recommend_product`; what cannot be read is none."""
    for text in messages:
        if text is None or RECOMMEND not in text:
            continue
        with suppress(msgspec.MsgspecError, RecursionError, UnicodeError):
            for call in _message(text).tool_calls or ():
                arguments = msgspec.json.decode(call.function.arguments) if call.function.name == RECOMMEND else None
                if isinstance(arguments, dict):
                    yield arguments


def _misfits(calls: list[_Function], found: Definitions) -> Iterator[str]:
    for call in calls:
        if call.name not in found:
            yield f"calls {call.name[:80]}, which its tools do not define"
            continue
        try:
            arguments = msgspec.json.decode(call.arguments)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            yield f"the arguments of {call.name[:80]} are no object"
        else:
            yield from _against(call.name[:80], arguments, found[call.name])


def _against(name: str, arguments: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    properties = schema.get("properties", {})
    for key in schema.get("required") or ():
        if key not in arguments:
            yield f"{name} requires {str(key)[:80]}, and the call has none"
    for key, value in arguments.items():
        if key not in properties:
            yield f"{name} is called with {key[:80]}, which its definition does not know"
            continue
        stated = properties[key].get("type") if isinstance(properties[key], dict) else None
        kinds = _TYPES.get(stated) if isinstance(stated, str) else None
        if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and stated != "boolean")):
            yield f"{name} is called with {key[:80]} as {type(value).__name__}, its definition says {stated}"
