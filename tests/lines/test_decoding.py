from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oresmith.lines.decoding import BadJsonError, decode
from oresmith.reasons import Reason


def refusal(data: bytes, **rules: Any) -> BadJsonError:
    with pytest.raises(BadJsonError) as caught:
        decode(data, **rules)
    return caught.value


@pytest.mark.parametrize(
    ("data", "reason", "position"),
    [
        (b'{"a": "\xff"}', Reason.INVALID_UTF8, 7),
        (b'{"a": "\xed\xa0\x80"}', Reason.INVALID_UTF8, 7),
        (b'{"a": 1}\0\0', Reason.NUL_BYTE, 8),
        (b'{"a": "\0"}', Reason.NUL_BYTE, 7),
        (b'{"a": NaN}', Reason.INVALID_JSON, None),
        (b"[-Infinity]", Reason.INVALID_JSON, None),
        (b"[1e999]", Reason.INVALID_JSON, None),
        (b'{"\xc3\xa9": nope}', Reason.INVALID_JSON, 7),
        (b"{'a': 1}", Reason.INVALID_JSON, 1),
        (b'{"a": 1,}', Reason.INVALID_JSON, 8),
        (b'{"a": 1} {"b": 2}', Reason.INVALID_JSON, 9),
        (b'{"a": 01}', Reason.INVALID_JSON, 7),
        (b'"\xef\xbb\xbf', Reason.INVALID_JSON, 0),
        (b'["\\ud800"]', Reason.LONE_SURROGATE, None),
        (b'{"\\udc00": 1}', Reason.LONE_SURROGATE, None),
        (b"[18446744073709551616]", Reason.HUGE_INTEGER, None),
        (b"[-9223372036854775809]", Reason.HUGE_INTEGER, None),
        (b'{"a": ' + b"9" * 5000 + b"}", Reason.HUGE_INTEGER, None),
        (b"[" * 201 + b"]" * 201, Reason.NESTED_TOO_DEEP, None),
        (b"[" * 1025 + b"]" * 1025, Reason.NESTED_TOO_DEEP, 200),
        (b'{"a":' * 100_000, Reason.NESTED_TOO_DEEP, 1000),
        (b'{"a": 1, "a": 1}', Reason.DUPLICATE_KEY, None),
        (b'{"a": [{"b": {"c": 1, "d": 2, "c": 3}}]}', Reason.DUPLICATE_KEY, None),
        (b'{"a": 1, "\\u0061": 2}', Reason.DUPLICATE_KEY, None),
        (b'{"a": "\\u003a", "b" : 1, "b" : 2}', Reason.DUPLICATE_KEY, None),
        (b'{"a": 1, "a": "\\u003A"}', Reason.DUPLICATE_KEY, None),
        (b'{"a\\u003a": 1, "a:": 2}', Reason.DUPLICATE_KEY, None),
    ],
)
def test_what_parsers_read_differently_is_refused_with_its_reason(
    data: bytes, reason: Reason, position: int | None
) -> None:
    error = refusal(data)
    assert (error.reason, error.position) == (reason, position)


@pytest.mark.parametrize(
    "data",
    [
        b"[18446744073709551615, -9223372036854775808]",
        b'["123456789012345678901234567890", 0.1234567890123456789012345, 1.2e30]',
        b'{"12345678901234567890": 1}',
        b'["\\ud83d\\ude00 \\u003a \\u003c", ":::", {"a": {"a": {"a": ":"}}}, {"a": 1}]',
        b'["' + b"[{" * 500 + b'"]',
        b'[{"k\\u003a": "\\u003A\\u0022: "}]',
        b" \t[1]\r",
        b"null",
    ],
)
def test_what_only_looks_suspicious_is_read_as_the_standard_library_reads_it(data: bytes) -> None:
    assert decode(data) == json.loads(data)


@pytest.mark.parametrize("levels", [1, 7, 200, 300])
def test_nesting_is_allowed_up_to_the_limit_and_no_further(levels: int) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"k":', b"}"), (b'[":[",{"a":', b"}]")):
        depth = levels * (2 if b"{" in opening and b"[" in opening else 1)
        inner = b"1" if opening != b"[" else b""
        data = b'["[[[",' + opening * levels + inner + closing * levels + b"]"
        assert decode(data, max_depth=depth + 1) == orjson.loads(data)
        assert refusal(data, max_depth=depth).reason is Reason.NESTED_TOO_DEEP
        assert refusal(data[:-1] + b"\xc3\xa9]", max_depth=depth).reason is Reason.NESTED_TOO_DEEP


def test_brackets_and_escapes_in_strings_do_not_count_as_nesting() -> None:
    text = b'["' + b'\\"[\\\\' * 300 + b'", [nope]]'
    assert refusal(text, max_depth=3).reason is Reason.INVALID_JSON
    assert refusal(text, max_depth=1).reason is Reason.NESTED_TOO_DEEP


def test_the_check_for_duplicates_can_be_left_out() -> None:
    assert decode(b'{"a": 1, "a": 2}', duplicate_keys=False) == {"a": 2}


def test_the_order_of_keys_is_kept() -> None:
    assert list(decode(b'{"z": 1, "a": 2, "m": 3}')) == ["z", "a", "m"]


KEYS = st.sampled_from(["a", "b", ":", '"', "é", "a:"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from([":", '":'])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(st.tuples(KEYS, inner), max_size=4).map(lambda pairs: {"pairs": pairs}),
    ),
    max_leaves=12,
)


def spell(value: Any, draw: Any) -> str:
    """JSON text of a value with random spelling: blanks, escapes, repeated keys as drawn."""
    blank = draw(st.sampled_from(["", "", " ", "\t"]))
    if isinstance(value, dict):
        members = (spell(key, draw) + blank + ":" + blank + spell(inner, draw) for key, inner in value["pairs"])
        return "{" + ("," + blank).join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(blank + spell(inner, draw) for inner in value) + "]"
    if isinstance(value, str):
        return '"' + "".join(escape(char, draw(st.booleans())) for char in value) + '"'
    return json.dumps(value)


def escape(char: str, always: bool) -> str:
    plain = json.dumps(char, ensure_ascii=False)[1:-1]
    return "".join(f"\\u{ord(unit):04x}" for unit in char) if always and ord(char) < 0x10000 else plain


def verdict(value: Any, depth: int = 1) -> set[Reason]:
    """What is wrong with a value, found by looking at it."""
    found: set[Reason] = set()
    if isinstance(value, dict):
        keys = [key for key, _ in value["pairs"]]
        found |= {Reason.DUPLICATE_KEY} if len(set(keys)) < len(keys) else set()
        found = found.union(*(verdict(inner) for _, inner in value["pairs"]), *(verdict(key) for key in keys))
    elif isinstance(value, list):
        found = found.union(*(verdict(inner) for inner in value))
    elif isinstance(value, float) and not math.isfinite(value):
        found.add(Reason.INVALID_JSON)
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        found.add(Reason.HUGE_INTEGER)
    elif isinstance(value, str) and any(0xD800 <= ord(char) < 0xE000 for char in value):
        found.add(Reason.LONE_SURROGATE)
    return found


@settings(max_examples=500, deadline=None)
@given(value=VALUES, data=st.data())
def test_a_line_is_refused_exactly_when_something_is_wrong_with_its_value(value: Any, data: st.DataObject) -> None:
    text = spell(value, data.draw).encode()
    wrong = verdict(value)
    try:
        found = decode(text)
    except BadJsonError as error:
        assert error.reason in wrong
    else:
        assert not wrong
        assert json.dumps(found) == json.dumps(json.loads(text))  # as text, so that the order of keys counts


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text(alphabet='{}[]":,0123456789\\u-.eE tfn\ud800', max_size=60)))
@example('{"a":1,"a":1}')
def test_any_bytes_are_decoded_or_refused_with_a_position_inside_the_line(line: bytes | str) -> None:
    data = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
    try:
        value = decode(data)
    except BadJsonError as error:
        assert error.position is None or 0 <= error.position <= len(data)
    else:
        assert orjson.loads(data) == value
