"""A log is confirmed only if it is what the server saw: every single change of log or witness loses it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.arena.witness import Entry, Recorder
from oresmith.evidence.origin import origin_evidence
from oresmith.evidence.provenance import log_provenance
from oresmith.evidence.witnessed import CLOCK_SLACK_MS, confirmed
from oresmith.records import Format, Problem, Provenance, ProxyCall, Source, Step, Trajectory
from tests.arena.test_tools import JSON

START = 1_777_593_600_000
SOURCE = Source(snapshot="s", file="f", file_sha256="", line=1, offset=0, length=0)
Log = list[ProxyCall]
Entries = list[Entry]


class Run:
    """Calls one after the other, seen by the server and logged by the runtime."""

    def __init__(self, runtime: str = "old", seed: int = 0) -> None:
        self.rng, self.runtime, self.now = random.Random(seed), runtime, float(START)
        self.server, self.log = Recorder("run-1/problem-1"), Log()

    def find(self, q: str, hits: int) -> None:
        page = [{"product_id": str(100 + n), "title": f"{q} {n} " + "word " * 10, "price": 1.5} for n in range(hits)]
        self.call("GET", "/search/find_product", page, params={"q": quote_plus(q), "page": 1})

    def infer(self, text: str) -> None:
        body = {"model": "m", "temperature": 0.0, "messages": [{"role": "user", "content": text}], "stream": False}
        self.call("POST", "/inference/chat/completions", {"choices": [{"message": {"content": text}}]}, json_data=body)

    def call(self, method: str, path: str, response: Any, refused: int = 0, **asked: Any) -> None:
        """One call, answered after `refused` tries that were not; `response` None means that no try was answered."""
        begin = self.now
        for _ in range(refused):
            self.now += 50
            self._server(method, path, 50, 502, {"error": {"message": "busy"}}, asked)
            self.now += 1000
        if response is not None:
            self.now += self.rng.choice([3, 20, 400])
            self._server(method, path, 2, 200, response, asked)
            self.now += self.rng.choice([0, 1, 5])
        self.log.append(self._logged(method, path, begin, response, asked))
        self.now += self.rng.choice([2, 3, 60])

    def _server(self, method: str, path: str, took: float, status: int, *what: Any) -> None:
        response, asked = what
        read = dict(asked)
        if "params" in asked:
            read["params"] = {name: [str(value)] for name, value in asked["params"].items()}
        self.server.record(
            method, path, timestamp=int(self.now), duration_ms=took, status=status, response=response, **read
        )

    def _logged(self, method: str, path: str, begin: float, response: Any, asked: dict[str, Any]) -> ProxyCall:
        kept: dict[str, Any] = dict(asked)
        if "json_data" in kept and self.runtime == "old":
            kept["json_data"] = {name: value for name, value in kept["json_data"].items() if name != "messages"}
        length = len(json.dumps(response))
        full = self.runtime == "new" or length <= 2000
        if response is not None:
            kept |= {"response": response} if full else {"response_truncated": True, "response_length": length}
            if isinstance(response, list) and not (full and self.runtime == "old"):
                kept["result_product_ids"] = [one["product_id"] for one in response]
        return ProxyCall(
            step=0,
            kind="summary",
            method=method,
            path=path,
            timestamp=int(self.now),
            duration_ms=round(self.now - begin, 1),
            status_code=200 if response is not None else None,
            **kept,
        )


def played(runtime: str = "old", seed: int = 0) -> Run:
    run = Run(runtime, seed)
    for number in range(4):
        run.infer(f"I look for kettle {number}")
        run.find(f"red kettle {number}", run.rng.choice([1, 30]))
    run.find("a long page", 30)
    run.find("nothing", 0)
    return run


def trajectory(log: Any, **fields: Any) -> Trajectory:
    known: dict[str, Any] = {
        "format": Format.SN15_ENVELOPE,
        "provenance": Provenance(run_id="run-1"),
        "problem": Problem(problem_id="problem-1"),
        "steps": [Step(message=-1)],
    }
    return Trajectory(trajectory_id="t", identity="i", content="c", source=SOURCE, log=log, **(known | fields))


def verified(log: Log, entries: Entries) -> bool:
    return confirmed(trajectory(log), {"run-1/problem-1": tuple(entries)})


@pytest.mark.parametrize("runtime", ["old", "new"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_log_that_the_server_saw_is_verified(runtime: str, seed: int) -> None:
    run = played(runtime, seed)
    assert verified(run.log, run.server.entries)
    shuffled = list(run.log)
    run.rng.shuffle(shuffled)
    assert verified(shuffled, run.server.entries)


def test_a_verified_log_makes_the_class_server_verified_and_marks_still_count() -> None:
    run = played()
    witness = {"run-1/problem-1": tuple(run.server.entries)}
    assert log_provenance(trajectory(run.log), witness).kind == "server-verified"
    assert origin_evidence(trajectory(run.log), witness).provenance.kind == "server-verified"
    assert log_provenance(trajectory(run.log), {}).kind == "runtime-written"
    assert log_provenance(trajectory(run.log)).kind == "runtime-written"
    journal = [Step(message=-1, log_first=True)]
    assert log_provenance(trajectory(run.log, steps=journal), witness).kind == "agent-written"
    assert log_provenance(trajectory(run.log, format=Format.ATIF), witness).kind == "absent"


def other(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, dict):
        return {**value, "x": 1}
    return [*value, "x"] if isinstance(value, list) else value + 1


def changed(name: str, value: Callable[[Any], Any] = other) -> Callable[[Any], Any]:
    """A change of one field, None where the field is not there."""

    def change(record: Any) -> Any:
        now = getattr(record, name)
        return None if now is None else msgspec.structs.replace(record, **{name: value(now)})

    return change


FAR = CLOCK_SLACK_MS + 500
OF_A_CALL: dict[str, Callable[[Any], Any]] = {
    **{name: changed(name) for name in ("method", "path", "status_code", "response_length", "result_product_ids")},
    **{name: changed(name) for name in ("params", "json_data", "response")},
    **{
        f"no {name}": changed(name, lambda _: None) for name in ("timestamp", "duration_ms", "method", "path", "params")
    },
    **{f"no {name}": changed(name, lambda _: None) for name in ("json_data", "response", "response_truncated")},
    "no status": changed("status_code", lambda _: None),
    "later": changed("timestamp", lambda stamp: stamp + FAR),
    "earlier": changed("timestamp", lambda stamp: stamp - FAR),
    "longer": changed("duration_ms", lambda took: took + FAR),
    "negative": changed("duration_ms", lambda took: -took - 1),
    "messages dropped": lambda call: (
        None
        if call.json_data is None or "messages" not in call.json_data
        else msgspec.structs.replace(
            call, json_data={name: value for name, value in call.json_data.items() if name != "messages"}
        )
    ),
    "text dropped": lambda call: (
        None
        if call.response is None
        else msgspec.structs.replace(
            call, response=None, response_truncated=True, response_length=len(json.dumps(call.response))
        )
    ),
}
OF_AN_ENTRY: dict[str, Callable[[Any], Any]] = {
    **{name: changed(name) for name in ("number", "method", "path", "status", "request_sha256", "response_sha256")},
    "length": lambda entry: (
        None if entry.response_length <= 2000 else msgspec.structs.replace(entry, response_length=2001)
    ),
    "later": changed("timestamp", lambda stamp: stamp + FAR),
    "earlier": changed("timestamp", lambda stamp: stamp - FAR),
    "longer": changed("duration_ms", lambda took: took + FAR),
    "refused": changed("status", lambda _: 502),
}


@pytest.mark.parametrize("runtime", ["old", "new"])
@pytest.mark.parametrize("change", OF_A_CALL)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 50), st.integers(0, 20))
def test_any_change_of_one_call_of_the_log_loses_it(runtime: str, change: str, seed: int, place: int) -> None:
    run = played(runtime, seed)
    place %= len(run.log)
    new = OF_A_CALL[change](run.log[place])
    if new is None:
        return
    run.log[place] = new
    assert not verified(run.log, run.server.entries)


@pytest.mark.parametrize("change", OF_AN_ENTRY)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 50), st.integers(0, 20))
def test_any_change_of_one_entry_of_the_witness_loses_it(change: str, seed: int, place: int) -> None:
    run = played("old", seed)
    entries = list(run.server.entries)
    place %= len(entries)
    new = OF_AN_ENTRY[change](entries[place])
    # The older runtime logs the hash's own text of a short answer, and only length and ids of a long one.
    if new is None or (change == "response_sha256" and run.log[place].response is None):
        return
    entries[place] = new
    assert not verified(run.log, entries)


@pytest.mark.parametrize("runtime", ["old", "new"])
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 50), st.integers(0, 20), st.integers(0, 20))
def test_a_missing_extra_or_reordered_call_loses_it(runtime: str, seed: int, one: int, two: int) -> None:
    run = played(runtime, seed)
    log, entries = run.log, run.server.entries
    one, two = one % len(log), two % len(log)
    assert not verified(log[:one] + log[one + 1 :], entries)
    assert not verified([*log, log[one]], entries)
    assert not verified(log, entries[:one] + entries[one + 1 :])
    assert not verified(log, renumbered(entries[:one] + entries[one + 1 :]))
    assert not verified(log, renumbered([*entries, entries[one]]))
    assert not verified(log, renumbered(entries[: one + 1] + entries[one:]))
    if one != two:
        swapped = list(log)
        swapped[one] = msgspec.structs.replace(log[one], timestamp=log[two].timestamp, duration_ms=log[two].duration_ms)
        swapped[two] = msgspec.structs.replace(log[two], timestamp=log[one].timestamp, duration_ms=log[one].duration_ms)
        assert not verified(swapped, entries)


def renumbered(entries: Entries) -> Entries:
    return [msgspec.structs.replace(entry, number=number) for number, entry in enumerate(entries)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 50), st.integers(0, 20))
def test_the_messages_that_the_newer_runtime_logs_must_be_those_that_were_sent(seed: int, place: int) -> None:
    run = played("new", seed)
    call = run.log[place % len(run.log)]
    if call.json_data is None:
        return
    forged = {**call.json_data, "messages": [{"role": "user", "content": "another prompt"}]}
    run.log[run.log.index(call)] = msgspec.structs.replace(call, json_data=forged)
    assert not verified(run.log, run.server.entries)


def test_tries_that_were_refused_are_one_call_of_the_log() -> None:
    run = Run()
    run.call("POST", "/inference/chat/completions", {"choices": []}, refused=2, json_data={"model": "m"})
    run.call("POST", "/inference/chat/completions", None, refused=3, json_data={"model": "m"})
    run.call("GET", "/search/find_product", [], refused=1, params={"q": "x"})
    assert len(run.server.entries) == 8
    assert verified(run.log, run.server.entries)
    for place in range(8):
        assert not verified(run.log, renumbered(run.server.entries[:place] + run.server.entries[place + 1 :])) or (
            run.server.entries[place].status == 502
        )
    for place in range(3):
        assert not verified(run.log[:place] + run.log[place + 1 :], run.server.entries)


def test_an_answer_cannot_pass_for_a_failure_nor_a_failure_for_an_answer() -> None:
    run = Run()
    run.call("GET", "/search/find_product", [], params={"q": "x"})
    run.call("GET", "/search/find_product", None, refused=1, params={"q": "y"})
    answered, failed = run.log
    assert verified([answered, failed], run.server.entries)
    nothing = msgspec.structs.replace(answered, status_code=None, response=None)
    invented = msgspec.structs.replace(failed, status_code=200, response=[])
    assert not verified([nothing, failed], run.server.entries)
    assert not verified([answered, invented], run.server.entries)
    assert verified(
        [answered, msgspec.structs.replace(failed, status_code=502, response={"error": {"message": "busy"}})],
        run.server.entries,
    )
    assert not verified([answered, msgspec.structs.replace(failed, status_code=503)], run.server.entries)


def test_calls_at_the_same_time_may_end_in_another_order_for_the_client() -> None:
    server = Recorder("run-1/problem-1")
    seen = {"method": "GET", "path": "/search/find_product"}
    for number, (end, took) in enumerate([(100, 90.0), (105, 2.0), (300, 5.0)]):
        told = {"status": 200, "params": {"q": number}, "response": []}
        server.record(**seen, timestamp=START + end, duration_ms=took, **told)

    def call(q: int, begin: int, end: int) -> ProxyCall:
        span = {"timestamp": START + end, "duration_ms": float(end - begin)}
        return ProxyCall(kind="summary", **seen, **span, status_code=200, params={"q": q}, response=[])

    assert verified([call(0, 9, 120), call(1, 12, 110), call(2, 290, 305)], server.entries)
    assert not verified([call(0, 9, 120), call(2, 12, 110), call(1, 290, 305)], server.entries)
    assert not verified([call(1, 9, 120), call(0, 108, 115), call(2, 290, 305)], server.entries)


@pytest.mark.parametrize("run_id", [None, "run-2", "run-1/problem-1"])
def test_another_run_or_none_is_not_verified(run_id: str | None) -> None:
    run = played()
    witness = {"run-1/problem-1": tuple(run.server.entries)}
    assert not confirmed(trajectory(run.log, provenance=Provenance(run_id=run_id)), witness)
    assert not confirmed(trajectory(run.log, problem=Problem()), witness)
    assert not confirmed(trajectory(run.log, log_malformed=True), witness)
    assert not confirmed(trajectory([]), {"run-1/problem-1": ()})
    assert not confirmed(trajectory(None), witness)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(ProxyCall.__struct_fields__), JSON), max_size=4))
def test_a_log_of_any_json_neither_raises_nor_is_verified(calls: list[dict[str, Any]]) -> None:
    run = played()
    assert not verified([ProxyCall(**call) for call in calls], run.server.entries)
