"""Rows of every format, hypothesis strategies for them, and what the tests compare."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from oresmith.records import Provenance, Source
from oresmith.traces import Context

settings.register_profile("traces", derandomize=True, deadline=None, max_examples=200)
PROPERTY = settings.get_profile("traces")

SOURCE = Source(snapshot="s", file="a/b.jsonl", file_sha256="0" * 64, line=3, offset=10, length=20)
CTX = Context(source=SOURCE, source_name="here", licence="CC-BY-4.0")
TRUSTED = Context(source=SOURCE, source_name="here", licence="CC-BY-4.0", trust_rows=True)
DECLARED = Context(source=SOURCE, source_name="here", provenance=Provenance(agent_version="v1", run_id="r1"))

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00") | st.sampled_from('[]{}"\\/<>:,'), max_size=12)
KEYS = st.sampled_from(
    ["think", "tool_call", "result", "step", "query", "messages", "role", "content", "steps", "status", "x", "id", "ü"]
)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 3)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
OBJECTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(KEYS, JSON, max_size=3)
NAMES = st.sampled_from(["find_product", "view_product_information", "recommend_product", "terminate"])
IDS = st.sampled_from(["SWPURxgs", "E1Vhfd9v", "a"])
TIMES = st.integers(1_700_000_000_000, 1_900_000_000_000)


def some(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with all of the required and any of the optional keys."""
    return st.fixed_dictionaries(required, optional=optional)


PROXY_CALLS = some(
    {"kind": st.just("summary"), "path": st.sampled_from(["/search/find_product", "/inference/chat/completions"])},
    {
        "method": st.sampled_from(["GET", "POST"]),
        "timestamp": TIMES,
        "duration_ms": st.floats(0, 1e4),
        "status_code": st.sampled_from([200, 503, None]),
        "params": JSON,
        "json_data": OBJECTS
        | st.just({"messages": [{"role": "system", "content": "be good"}, {"role": "user", "content": "q"}]}),
        "response": JSON,
        "response_truncated": st.booleans(),
        "response_length": st.integers(0, 9000),
        "result_product_ids": JSON,
        "completion_tokens": JSON,
        "step": JSON,
        "unheard_of": JSON,
    },
)
SN15_CALLS = some(
    {"name": NAMES, "parameters": OBJECTS}, {"tool_call_id": IDS | JSON, "result": TEXT | JSON, "unheard_of": JSON}
)
SN15_MESSAGES = some(
    {},
    {
        "think": TEXT,
        "tool_call": st.lists(SN15_CALLS, max_size=3),
        "response": TEXT,
        "obs": st.lists(OBJECTS, max_size=2),
        "foo": JSON,
    },
)
SN15_INFOS = some(
    {},
    {
        "step": st.integers(0, 9) | JSON,
        "query": st.just("a red mug") | JSON,
        "timestamp": TIMES | JSON,
        "problem_id": st.just("p1") | JSON,
        "execution_time": st.just(2.5) | JSON,
        "proxy_calls": st.lists(PROXY_CALLS, max_size=3) | JSON,
        "unheard_of": JSON,
    },
)
SN15_STEPS = some(
    {
        "completion": some(
            {"message": SN15_MESSAGES}, {"reasoning_content": st.just("") | JSON, "content": TEXT, "unheard_of": JSON}
        )
    },
    {"extra_info": SN15_INFOS | st.permutations(["x"]).map(lambda _: None), "unheard_of": JSON},
)
ODD_STEPS = SN15_STEPS | JSON | st.fixed_dictionaries({"completion": JSON, "extra_info": SN15_INFOS})


def envelopes(steps: st.SearchStrategy[Any] = SN15_STEPS) -> st.SearchStrategy[dict[str, Any]]:
    """Sandbox envelopes, with fields missing, null, unknown, or of odd types where the codec does not need them."""
    return some(
        {
            "status": st.sampled_from(["SUCCESS", "FAILED", "TIMED_OUT"]),
            "dialogue": st.lists(steps, max_size=3) | st.none(),
        },
        {
            "problem_id": st.just("p1") | JSON,
            "execution_time": st.just(2.5) | JSON,
            "inference_failure_count": st.integers(0, 9) | JSON,
            "inference_total": st.integers(0, 9) | JSON,
            "error": JSON,
            "unheard_of": JSON,
        },
    )


def envelope(*steps: Any, **fields: Any) -> dict[str, Any]:
    """One envelope as the runtime writes it."""
    row = {
        "problem_id": "p1",
        "status": "SUCCESS",
        "execution_time": 2.5,
        "inference_failure_count": 0,
        "inference_total": 2,
        "error": None,
        "dialogue": list(steps),
    }
    return row | fields


def step(think: str | None = "I look.", calls: list[dict[str, Any]] | None = None, **info: Any) -> dict[str, Any]:
    """One SN15 step as the runtime writes it."""
    message: dict[str, Any] = {} if think is None else {"think": think}
    if calls is not None:
        message["tool_call"] = calls
    facts = {"step": 1, "query": "a red mug", "timestamp": 1_800_000_000_000, "problem_id": "p1"} | info
    return {"completion": {"reasoning_content": "", "content": "..", "message": message}, "extra_info": facts}


def call(name: str = "find_product", result: Any = None, **parameters: Any) -> dict[str, Any]:
    """One SN15 call with its result."""
    return {"name": name, "parameters": parameters, "tool_call_id": "SWPURxgs", "result": result}


def without_content(row: Any) -> Any:
    """A copy of an envelope or step list without what the runtime renders anew."""
    copied = copy.deepcopy(row)
    for item in (copied if isinstance(copied, list) else copied["dialogue"]) or []:
        if isinstance(item, dict) and isinstance(item.get("completion"), dict):
            item["completion"].pop("content", None)
    return copied


def as_json(value: Any) -> bytes:
    """Canonical JSON: tells 1 from true, as == does not; 1 and 1.0 are the same number."""
    return msgspec.json.encode(_whole(value), order="deterministic")


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_whole(child) for child in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here] + [path for key, child in items for path in paths(child, (*here, key))]


@st.composite
def mutated(draw: st.DrawFn, rows: list[Any]) -> Any:
    """A valid row in which a few values, anywhere, are replaced by any JSON or removed."""
    row = copy.deepcopy(draw(st.sampled_from(rows)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(paths(row)))
        if not path:
            return draw(JSON)
        parent = row
        for key in path[:-1]:
            parent = parent[key]
        if draw(st.booleans()):
            del parent[path[-1]]
        else:
            parent[path[-1]] = draw(JSON)
    return row
