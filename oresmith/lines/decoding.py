"""One line of bytes to one Python value, strictly: what two parsers could read differently is refused with a reason.

orjson does the parsing. What it accepts silently (integers beyond 64 bits, duplicate keys, deep nesting) is looked for
with checks that are cheap and never miss; only a line they suspect is parsed again, exactly, with the standard library.
Measured on envelopes of 16 KB (microseconds): `orjson.loads` 40, integers 9, depth 4 to 18, duplicate keys 27.
"""

from __future__ import annotations

import gc
import json
import re
from typing import Any

import numpy as np
import orjson

from oresmith.reasons import Reason

MAX_DEPTH = 200
"""Default of the deepest nesting: the standard library's parser is safe to about 900."""

_LONG_RUN = b"\x01" * 19
"""The shortest integer outside 64 bits, -9223372036854775809, has 19 digits."""
_BRACKETS_AND_STRINGS = re.compile(rb'[\\"\[\]{}]')


class BadJsonError(Exception):
    """A line that is refused.

    Args:
        reason: the code that a reject carries.
        detail: what is wrong, without any text of the line.
        position: index of the byte in the line where it is, None where the check cannot tell.
    """

    def __init__(self, reason: Reason, detail: str, position: int | None = None) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.position = reason, detail, position


def decode(data: bytes, *, max_depth: int = MAX_DEPTH, duplicate_keys: bool = True) -> Any:
    """Parse one JSON document; the order of keys is kept.

    Args:
        data: the bytes of a line, white space around the document allowed.
        max_depth: most levels of lists and objects.
        duplicate_keys: look for keys that an object holds twice.

    Raises:
        BadJsonError: INVALID_UTF8, NUL_BYTE, INVALID_JSON, LONE_SURROGATE, HUGE_INTEGER, NESTED_TOO_DEEP or
            DUPLICATE_KEY.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _refusal(data, max_depth, error.msg) from None
    codes = np.frombuffer(data, dtype=np.uint8)
    # `[` and `{` differ in one bit; there are no more levels than opening brackets, those in strings included.
    if np.count_nonzero((codes | 32) == ord("{")) > max_depth and _deeper(value, max_depth):
        raise BadJsonError(Reason.NESTED_TOO_DEEP, f"more than {max_depth} levels")
    suspect = _LONG_RUN in ((codes - ord("0")) < 10).tobytes()
    if suspect or (duplicate_keys and _may_repeat_a_key(data, codes, value)):
        _check_exactly(data, duplicate_keys)
    return value


def _deeper(value: Any, max_depth: int) -> bool:
    """Whether containers nest deeper. `get_referents` gives the members of a whole level in one call into C."""
    level = [value]
    for _ in range(max_depth):
        level = gc.get_referents(*level)
        if not level:
            return False
    return any(isinstance(member, dict | list) for member in level)


def _may_repeat_a_key(data: bytes, codes: np.ndarray[Any, Any], value: Any) -> bool:
    r"""False only if no object of the line holds a key twice.

    Every key costs one colon. The colons of the line are those of the value written out again, plus those of the keys
    and values that were dropped as duplicates; only colons escaped as \u003a are missing on the line's side.
    """
    try:
        again = orjson.dumps(value)
    except orjson.JSONEncodeError:  # it nests deeper than the encoder's own limit of 254
        return True
    if np.count_nonzero(codes == ord(":")) != np.count_nonzero(np.frombuffer(again, dtype=np.uint8) == ord(":")):
        return True
    return b"\\u003" in data and (b"\\u003a" in data or b"\\u003A" in data)


def _check_exactly(data: bytes, duplicate_keys: bool) -> None:
    try:
        json.JSONDecoder(object_pairs_hook=_unique if duplicate_keys else None, parse_int=_fits).decode(data.decode())
    except RecursionError:
        raise BadJsonError(Reason.NESTED_TOO_DEEP, "more levels than the exact parser bears") from None


def _unique(pairs: list[tuple[str, Any]]) -> None:
    repeated = len(pairs) - len({key for key, _ in pairs})
    if repeated:
        raise BadJsonError(Reason.DUPLICATE_KEY, f"{repeated} of an object's {len(pairs)} keys are repeated")


def _fits(digits: str) -> int:
    # Longer ones are not converted: Python refuses to beyond 4,300 digits, and the work would grow quadratically.
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise BadJsonError(Reason.HUGE_INTEGER, f"an integer of {len(digits.lstrip('-'))} digits")
    return 0


def _refusal(data: bytes, max_depth: int, message: str) -> BadJsonError:
    """Why orjson refused a line. Nesting is judged first, since the exact parser is only safe below the limit."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return BadJsonError(Reason.INVALID_UTF8, error.reason, error.start)
    if (place := data.find(b"\0")) >= 0:
        return BadJsonError(Reason.NUL_BYTE, "a NUL byte", place)
    if (place := _too_deep_at(data, max_depth)) >= 0:
        return BadJsonError(Reason.NESTED_TOO_DEEP, f"more than {max_depth} levels", place)
    return _grammar(text) or BadJsonError(Reason.INVALID_JSON, message)


def _grammar(text: str) -> BadJsonError | None:
    """What the standard library says of a text; None where it sees no fault (a float beyond all floats)."""
    try:
        value = json.JSONDecoder(parse_constant=_no_constant, parse_int=float).decode(text)
        json.dumps(value, ensure_ascii=False).encode()
        json.JSONDecoder(parse_int=_fits).decode(text)
    except json.JSONDecodeError as error:
        return BadJsonError(Reason.INVALID_JSON, error.msg, len(text[: error.pos].encode()))
    except UnicodeEncodeError:
        return BadJsonError(Reason.LONE_SURROGATE, "an escape is half of a surrogate pair")
    except RecursionError:
        return BadJsonError(Reason.NESTED_TOO_DEEP, "more levels than the exact parser bears")
    except BadJsonError as error:
        return error
    return None


def _no_constant(name: str) -> None:
    raise BadJsonError(Reason.INVALID_JSON, f"{name} is not JSON")


def _too_deep_at(data: bytes, max_depth: int) -> int:
    """Index of the bracket that opens one level too many, -1 if none does; the text need not be valid JSON."""
    if data.count(b"[") + data.count(b"{") <= max_depth:
        return -1
    depth, in_string, escaped = 0, False, -1
    for match in _BRACKETS_AND_STRINGS.finditer(data):
        place = match.start()
        code = data[place]
        if in_string:
            if place == escaped:
                continue
            if code == ord("\\"):
                escaped = place + 1
            in_string = code != ord('"')
        elif code == ord('"'):
            in_string = True
        elif code in b"[{":
            depth += 1
            if depth > max_depth:
                return place
        else:
            depth -= 1
    return -1
