"""Names under which a source may hold a miner's key: kept in the record, never written out."""

from __future__ import annotations

from typing import Any

PRIVATE = ("miner", "hotkey", "coldkey", "ss58")
"""A key whose name contains one of these, in any case, stays behind."""


def without_keys(value: Any) -> Any:
    """A JSON value without the object members whose names say that they hold a miner's key, at any depth."""
    if isinstance(value, dict):
        return {
            name: without_keys(member)
            for name, member in value.items()
            if not any(private in name.lower() for private in PRIVATE)
        }
    return [without_keys(member) for member in value] if isinstance(value, list) else value
