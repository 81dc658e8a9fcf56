"""The engine that asks a server: whatever it does, each request gets a reply of its own, and the key stays hidden."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oresmith.arena.server.config import Secret
from oresmith.errors import OresmithError
from oresmith.evaluation.engines import open_engine
from oresmith.evaluation.engines.remote import OpenAIEngine
from oresmith.evaluation.episode import read_reply, storable
from oresmith.evaluation.records import ChatReply, ChatRequest, Sampling
from oresmith.param_models import Rollout
from tests.evaluation.engines_build import QUERIES, asked, followed
from tests.evaluation.fake_openai import FakeOpenAI, Write, completion, serving

SAMPLING = Sampling(temperature=0.7, top_p=0.9, max_new_tokens=32)
FIRST = [asked(query, seed=2**47 + place) for place, query in enumerate(QUERIES)]
KEY = "sk-a-key-that-nobody-may-see"
CALL = {"id": "x", "type": "function", "function": {"name": "find_product", "arguments": '{"q": "mouse"}'}}


@contextmanager
def engine_of(write: Write, models: object = None, **changes: Any) -> Iterator[tuple[OpenAIEngine, FakeOpenAI]]:
    with serving(write, models) as fake:
        given: dict[str, Any] = {"key": Secret(), "retries": 2, "backoff_s": 0.0} | changes
        with closing(OpenAIEngine(fake.url, "m", **given)) as engine:
            yield engine, fake


def one(write: Write, **changes: Any) -> ChatReply:
    with engine_of(write, **changes) as (engine, _):
        return engine.chat(FIRST[:1], SAMPLING)[0]


def test_a_request_says_everything_and_its_answer_comes_back() -> None:
    with engine_of(lambda body: completion()) as (engine, fake):
        second = followed(FIRST[0], "I search.", "[]", seed=5)
        reply = engine.chat([second], SAMPLING)[0]
        body = fake.bodies[0]
    assert (reply.key, reply.text, reply.finish) == (second.key, "hello", "stop")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.tool_calls, reply.error) == (7, 3, None, None)
    assert reply.seconds is not None
    assert {key: body[key] for key in ("model", "max_tokens", "temperature", "top_p", "seed", "stream")} == {
        "model": "m",
        "max_tokens": 32,
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 5,
        "stream": False,
    }
    assert body["tools"] == second.tools
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    call = {"name": "find_product", "arguments": '{"q": "x"}'}
    assert body["messages"][2]["tool_calls"] == [{"id": "call_0", "type": "function", "function": call}]
    assert body["messages"][3]["tool_call_id"] == "call_0"


def test_native_calls_are_kept_as_they_came() -> None:
    reply = one(lambda body: completion("I look.", "tool_calls", tool_calls=[CALL]))
    assert (reply.text, reply.tool_calls, reply.finish) == ("I look.", [CALL], "stop")
    read = read_reply(reply)
    assert (read.content, [call.name for call in read.calls]) == ("I look.", ["find_product"])


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_thinking_that_a_server_has_parted_is_part_of_the_text(key: str) -> None:
    reply = one(lambda body: completion("So be it.", **{key: "Is it?"}))
    read = read_reply(reply)
    assert (read.think, read.content) == ("Is it?", "So be it.")
    called = read_reply(one(lambda body: completion(None, "tool_calls", tool_calls=[CALL], **{key: "Is it?"})))
    assert (called.think, called.content, len(called.calls)) == ("Is it?", "", 1)


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls", None])
def test_the_end_of_a_reply_is_told(reason: str | None) -> None:
    assert one(lambda body: completion("x", reason)).finish == ("length" if reason == "length" else "stop")


@pytest.mark.parametrize("calls", ["text", [1], [None], [{"function": 7}], [[CALL]], {"a": 1}, [{"function": CALL}]])
def test_odd_calls_are_kept_and_count_as_malformed(calls: Any) -> None:
    reply = one(lambda body: completion("x", tool_calls=calls))
    assert reply.finish == "stop"
    assert read_reply(reply).malformed is not None
    kept = storable(reply)
    assert msgspec.json.decode(msgspec.json.encode(kept), type=ChatReply) == kept


@pytest.mark.parametrize(
    "first",
    [
        (429, b"slow down", {"retry-after": "0"}),
        (500, b"<html>"),
        (503, b""),
        (200, b"rubbish"),
        (200, b"{}"),
        (200, b'{"choices": []}'),
        (200, b'{"choices": [{"message": "text"}]}'),
        (200, b""),
    ],
)
def test_a_passing_fault_is_tried_again(first: Any) -> None:
    answers = [first, completion()]
    with engine_of(lambda body: answers.pop(0)) as (engine, fake):
        assert (engine.chat(FIRST[:1], SAMPLING)[0].text, len(fake.bodies)) == ("hello", 2)


@pytest.mark.parametrize(
    ("answer", "tries", "says"),
    [
        ((429, b""), 3, "busy"),
        ((500, KEY.encode()), 3, "answered 500"),
        ((200, b"<html>"), 3, "no chat completion"),
        ((400, json.dumps({"error": {"message": f"no such tool, {KEY}"}}).encode()), 1, "no such tool, [key]"),
        ((404, b'{"error": {"message": "no such model"}}'), 1, "no such model"),
        ({"choices": [{"message": {"content": ["parts"]}}]}, 1, "no text but list"),
        (completion("half a", "content_filter"), 1, "in another way: content_filter"),
        ({"choices": [{"message": {"content": "x"}, "finish_reason": ["stop"]}]}, 1, "in another way"),
    ],
)
def test_a_lasting_fault_is_an_error_of_its_request_and_the_others_go_on(
    answer: Any, tries: int, says: str, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(KEY)

    def write(body: dict[str, Any]) -> Any:
        return answer if body["messages"][1]["content"] == QUERIES[2] else completion(body["messages"][1]["content"])

    with engine_of(write, key=Secret(file=tmp_path / "key")) as (engine, fake):
        found = engine.chat(FIRST, SAMPLING)
        again = [body for body in fake.bodies if body["messages"][1]["content"] == QUERIES[2]]
    assert [reply.key for reply in found] == [request.key for request in FIRST]
    assert [reply.text for place, reply in enumerate(found) if place != 2] == [*QUERIES[:2], *QUERIES[3:]]
    assert (found[2].finish, found[2].text, len(again)) == ("error", "", tries)
    assert says in (found[2].error or "")
    assert KEY not in str(found)


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 4100 tokens",
        "the request exceeds the available context size",
        "prompt is too long",
    ],
)
def test_a_prompt_that_does_not_fit_is_no_fault_of_the_server(said: str) -> None:
    reply = one(lambda body: (400, json.dumps({"error": {"message": said}}).encode()))
    assert (reply.finish, reply.error) == ("context", None)


def test_usage_that_is_none_is_not_counted() -> None:
    for usage in (None, [], {"prompt_tokens": -1, "completion_tokens": True}, {"prompt_tokens": "7"}):
        reply = one(lambda body, usage=usage: completion() | {"usage": usage})  # type: ignore[misc]
        assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("hello", None, None)


def test_as_many_are_asked_at_once_as_the_batch_holds_and_no_more() -> None:
    together, most, lock = threading.Barrier(2), [0, 0], threading.Lock()

    def write(body: dict[str, Any]) -> Any:
        with lock:
            most[0] += 1
            most[1] = max(most)
        together.wait(30)  # only two at once get past it
        with lock:
            most[0] -= 1
        return completion()

    with engine_of(write, batch=2) as (engine, _):
        found = engine.chat([*FIRST, asked("sixth")], SAMPLING)
    assert ([reply.text for reply in found], most[1]) == (["hello"] * 6, 2)


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", KEY)
    with engine_of(lambda body: completion(), key=Secret(env="A_KEY")) as (engine, fake):
        found = engine.chat(FIRST[:1], SAMPLING)
        assert {headers.get("authorization") for headers in fake.headers} == {f"Bearer {KEY}"}
        assert KEY not in f"{engine.identity()} {found} {vars(engine)}"


def test_loopback_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert one(lambda body: completion()).text == "hello"


@pytest.mark.parametrize(
    ("models", "given", "reads"),
    [
        ({"data": [{"id": "m", "max_model_len": 4096}]}, None, 4096),
        ({"data": [{"id": "m", "max_model_len": 4096}]}, 1000, 1000),
        ({"data": [{"id": "x", "context_length": 1}, {"id": "m", "context_length": 512}]}, 1000, 512),
        ({"data": [{"id": "m", "max_model_len": "many"}]}, 1000, 1000),
        ((404, b""), 1000, 1000),
        ((200, b"<html>"), 1000, 1000),
        ([1], 1000, 1000),
        ({"data": [7, None]}, 1000, 1000),
    ],
)
def test_the_context_is_the_servers_or_the_parameters(models: Any, given: int | None, reads: int) -> None:
    with engine_of(lambda body: completion(), models, max_context=given) as (engine, _):
        assert engine.context == reads


def test_a_server_that_cannot_be_used_is_refused_at_the_start() -> None:
    with pytest.raises(OresmithError, match="how many tokens"), engine_of(lambda body: completion(), (404, b"")):
        pass
    with pytest.raises(OresmithError, match="refuses the key"), engine_of(lambda body: completion(), (401, b"")):
        pass
    with pytest.raises(OresmithError, match="does not answer") as refused, engine_of(lambda body: 0, (500, b"")):
        pass
    assert "got: 500" in str(refused.value)
    with serving(lambda body: completion()) as fake:
        pass
    with pytest.raises(OresmithError, match="does not answer") as refused:
        OpenAIEngine(fake.url, "m", key=Secret(), retries=1, backoff_s=0.0)
    assert refused.value.exit_code == 2
    with pytest.raises(OresmithError, match="URL cannot be used"):
        OpenAIEngine("http://user:pw@host/v1", "m", key=Secret())


def test_a_server_that_dies_between_turns_is_an_error_and_no_more() -> None:
    with serving(lambda body: completion()) as fake:
        engine = OpenAIEngine(fake.url, "m", key=Secret(), retries=1, backoff_s=0.0)
        assert engine.chat(FIRST[:1], SAMPLING)[0].finish == "stop"
    found = engine.chat([followed(request, "x") for request in FIRST], SAMPLING)
    engine.close()
    assert {reply.finish for reply in found} == {"error"}
    assert all("cannot be reached" in (reply.error or "") for reply in found)


def test_parameters_reach_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    models = {"data": [{"id": name, "max_model_len": 4096} for name in ("mine", "theirs")]}
    (tmp_path / "key").write_text(KEY)
    with serving(lambda body: completion(), models) as fake:
        settings = {"engine": "openai", "url": fake.url, "batch": 3}
        for more, served in (({}, "mine"), ({"served_model": "theirs", "key_file": str(tmp_path / "key")}, "theirs")):
            with closing(open_engine(Rollout(**settings, **more), "mine", None)) as engine:  # type: ignore[arg-type]
                assert engine.chat(FIRST[:1], SAMPLING)[0].text == "hello"
                assert engine.identity() == {"engine": "openai", "served_model": served}
        assert [body["model"] for body in fake.bodies] == ["mine", "theirs"]
        assert fake.headers[-1]["authorization"] == f"Bearer {KEY}"
        monkeypatch.delenv("NO_SUCH_KEY", raising=False)
        with pytest.raises(OresmithError, match="not set"):
            open_engine(Rollout(**settings, key_env="NO_SUCH_KEY"), "mine", None)  # type: ignore[arg-type]


def test_no_request_is_a_reply_to_nothing() -> None:
    with engine_of(lambda body: completion()) as (engine, fake):
        assert engine.chat([], SAMPLING) == []
        assert fake.bodies == []


def test_a_conversation_without_tools_asks_for_none() -> None:
    with engine_of(lambda body: completion()) as (engine, fake):
        engine.chat([ChatRequest(key="p/0/0", messages=FIRST[0].messages, tools=[], seed=1)], SAMPLING)
        assert "tools" not in fake.bodies[0]
