"""Tool definitions in the one shape that chat templates and OpenAI clients read: nested under `function`."""

from __future__ import annotations

from typing import Any

_OUTER = ("type", "function")


def nested_tools(value: object) -> list[Any] | None:
    """Definitions nested under `function`, whether the source has them nested or flat.

    Args:
        value: a list of `{"type": "function", "function": {..}}` or of `{"type", "name", "description", "parameters"}`.

    Returns:
        The nested list, or None where the value is no list of objects that name a tool.
    """
    if not isinstance(value, list):
        return None
    nested = [_nested(tool) for tool in value]
    return None if any(tool is None for tool in nested) else nested


def _nested(tool: object) -> dict[str, Any] | None:
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    if isinstance(function, dict):
        return tool if isinstance(function.get("name"), str) else None
    if not isinstance(tool.get("name"), str):
        return None
    return {"type": "function", "function": {key: tool[key] for key in tool if key not in _OUTER}}
