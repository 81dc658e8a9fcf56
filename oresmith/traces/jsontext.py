"""JSON as text inside a record: tool arguments, tool results, embedded documents."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from oresmith.reasons import Reason
from oresmith.traces.context import CodecError

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

MAX_DEPTH = 200
"""Nesting allowed in a JSON document that is embedded in a string; the reader's own limit does not see inside."""


def dumps(value: object) -> str:
    """Compact JSON in the given key order, non-ASCII kept. Integers of any size survive."""
    return _encode(value).decode()


def loads(text: str) -> Any:
    """Parse JSON text that may be anything; raises ValueError (msgspec's or ours) where it is not JSON."""
    try:
        return _decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def loads_strict(text: str) -> Any:
    """Parse a document embedded in a string under the rules that the reader applies to a line.

    Raises:
        CodecError: duplicate keys, integers over 64 bits, NaN, lone surrogates, nesting over `MAX_DEPTH`, or no JSON.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_int=_small, parse_float=_finite, parse_constant=_refused_constant
        )
        _check_depth(value)
        _encode(value)
    except UnicodeEncodeError:
        raise CodecError(Reason.LONE_SURROGATE, "an embedded JSON text holds half of a surrogate pair") from None
    except RecursionError:
        raise CodecError(Reason.NESTED_TOO_DEEP, "an embedded JSON text is nested too deep") from None
    except ValueError:
        raise CodecError(Reason.INVALID_JSON, "an embedded JSON text is not JSON") from None
    return value


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent if isinstance(parent, list) else ())
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise RecursionError


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise CodecError(Reason.DUPLICATE_KEY, "an embedded JSON text holds the same key twice")
    return value


def _small(digits: str) -> int:
    if len(digits) <= 20 and -(2**63) <= (number := int(digits)) < 2**64:
        return number
    raise CodecError(Reason.HUGE_INTEGER, "an embedded JSON text holds an integer over 64 bits")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise CodecError(Reason.INVALID_JSON, "an embedded JSON text holds a number that no float holds")
    return number


def _refused_constant(_name: str) -> float:
    raise CodecError(Reason.INVALID_JSON, "an embedded JSON text holds NaN or Infinity")
