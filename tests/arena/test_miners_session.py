"""A session leaves the shapes that the two runtimes leave, in the order in which they leave them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from oresmith.arena.miners.session import PIPE_BYTES, TIME_LIMIT_S, Pace, RunEnded, Session
from oresmith.arena.tools import Toolbox, tool_call_id
from oresmith.arena.witness import Recorder, digest
from tests.arena.miners_world import START, envelope, played, world
from tests.arena.real import rows
from tests.shared import SN15, needs_shared

SURE = Pace(failure_rate=0.0)
SHORT, LONG = "<think>short</think>", "<think>" + "long " * 500 + "</think>"
PROMPT = [{"role": "system", "content": "s" * 400}, {"role": "user", "content": "a request"}]


def session(runtime: Any = "old", **more: Any) -> Session:
    tools = Toolbox(world().shop)
    given: dict[str, Any] = {"pace": SURE, "witness": Recorder("r/p"), "start_ms": START} | more
    return Session(tools=tools, problem_id="p", query="a request", rng=random.Random(3), runtime=runtime, **given)


def one_step(box: Session, reply: str = SHORT, **parameters: Any) -> dict[str, Any]:
    box.infer(reply, PROMPT)
    title = world().documents[0].title
    calls = [box.call("find_product", {"q": title} | parameters)]
    box.step("I think.", calls)
    return box.envelope(dialogue=box.steps)


def entries(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for step in row["dialogue"] for entry in step["extra_info"].get("proxy_calls", [])]


def test_the_old_runtime_keeps_no_prompt_and_only_short_responses() -> None:
    kept, dropped = (entries(one_step(session(), reply))[0] for reply in (SHORT, LONG))
    assert "messages" not in kept["json_data"]
    assert kept["response"]["choices"][0]["message"]["content"] == SHORT
    assert "response" not in dropped and dropped["response_truncated"] is True
    assert dropped["response_length"] > 2000
    found = entries(one_step(session()))[1]
    assert ("result_product_ids" in found) == ("response" not in found)


def test_the_new_runtime_keeps_prompts_and_responses_whole() -> None:
    inference, search = entries(one_step(session("new"), LONG))
    assert inference["json_data"]["messages"] == PROMPT
    assert inference["response"]["choices"][0]["message"]["content"] == LONG
    assert search["result_product_ids"] == [hit["product_id"] for hit in search["response"]]


def test_calls_stand_one_step_early_and_at_their_end() -> None:
    box = session()
    one_step(box)
    box.infer(SHORT, PROMPT)
    box.step("I think again.", [box.call("terminate", {"status": "success"})])
    row = box.envelope(dialogue=box.steps)
    first, second = (step["extra_info"] for step in row["dialogue"][-2:])
    early = [entry for entry in first["proxy_calls"] if entry["timestamp"] > first["timestamp"]]
    assert [entry["path"] for entry in early] == ["/inference/chat/completions"]
    assert first["timestamp"] < early[0]["timestamp"] <= second["timestamp"]
    assert "proxy_calls" not in second
    assert early[0]["duration_ms"] <= early[0]["timestamp"] - first["timestamp"] + 1


def test_the_runtime_adds_the_problem_before_the_log_and_quotes_the_query() -> None:
    row = one_step(session(), q="red  kettle & co", price="5-", sort="default")
    info = row["dialogue"][0]["extra_info"]
    assert list(info) == ["step", "query", "timestamp", "problem_id", "execution_time", "proxy_calls"]
    assert info["execution_time"] == row["execution_time"]
    assert entries(row)[1]["params"] == {"q": "red++kettle+%26+co", "page": 1, "price": "5-"}


def test_ids_of_calls_are_the_runtimes_hash_and_failed_tools_make_no_request() -> None:
    box = session()
    called = box.call("find_product", {"q": "x", "category": "y"})
    assert called["result"] == "Error: find_product() got an unexpected keyword argument 'category'"
    assert called["tool_call_id"] == tool_call_id("find_product", {"q": "x", "category": "y"})
    assert box.log == []


def test_an_unanswered_inference_is_logged_without_a_status_and_made_again() -> None:
    box = session(pace=Pace(failure_rate=0.5))
    for _ in range(20):
        box.infer(SHORT, PROMPT)
    failed = [entry for entry in box.log if entry["status_code"] is None]
    assert failed and all("response" not in entry for entry in failed)
    assert box.failures == len(failed)
    assert len(box.log) - len(failed) == 20
    assert box.counted == len(box.log)


def test_the_witness_saw_what_the_log_tells() -> None:
    box = session("new")
    row = one_step(box)
    assert box.witness is not None
    for entry, seen in zip(entries(row), box.witness.entries, strict=True):
        assert (seen.path, seen.timestamp) == (entry["path"], entry["timestamp"])
        assert seen.response_sha256 == digest(entry["response"])
        assert seen.response_length == len(json.dumps(entry["response"]))


def test_a_dialogue_that_outgrows_the_pipe_and_a_run_that_takes_too_long_are_late() -> None:
    box = session()
    one_step(box)
    early = box.late
    while len(json.dumps([step["completion"] for step in box.steps])) < PIPE_BYTES:
        box.step("a thought " * 400, [])
    assert (early, box.late) == (False, True)
    slow = session()
    slow.now = TIME_LIMIT_S * 1000 + 1
    assert slow.late


def test_a_run_that_dies_raises_inside_its_next_call() -> None:
    box = session(dies_after=1)
    box.infer(SHORT, PROMPT)
    with pytest.raises(RunEnded):
        box.infer(SHORT, PROMPT)


def keys(row: dict[str, Any]) -> set[tuple[str, ...]]:
    """The orders of keys that occur, by the kind of object."""
    found: set[tuple[str, ...]] = {("envelope", *row)}
    for step in row["dialogue"] or []:
        found |= {("step", *step), ("completion", *step["completion"]), ("message", *step["completion"]["message"])}
        found.add(("info", *step["extra_info"]))
        for entry in step["extra_info"].get("proxy_calls", []):
            found |= {("entry", *entry)}
            response = entry.get("response")
            if isinstance(response, dict):
                message = response["choices"][0]["message"]
                found |= {("response", *response), ("reply", *message), ("usage", *response["usage"])}
        for call in step["completion"]["message"].get("tool_call", []):
            found.add(("call", *call))
            if isinstance(call["result"], list) and call["name"] != "check_product_match":
                found |= {("result", *product) for product in call["result"] if isinstance(product, dict)}
    return found


@needs_shared
@pytest.mark.parametrize(
    ("names", "runtime"), [(("reference", "reference_long", "miner_b"), "old"), (("reference_newruntime",), "new")]
)
def test_every_object_has_the_keys_of_real_envelopes_in_their_order(names: tuple[str, ...], runtime: str) -> None:
    real = set().union(*(keys(row) for name in names for row in rows(SN15 / f"traces_{name}.jsonl.gz")))
    ours = set().union(*(keys(envelope(one)) for one in played("careful", (0,), runtime)))
    unanswered = "kind method path timestamp duration_ms status_code json_data".split()
    seldom = {("info", "step", "query", "timestamp", "problem_id", "execution_time"), ("entry", *unanswered)}
    assert ours - real - seldom == set()
    assert real & ours
