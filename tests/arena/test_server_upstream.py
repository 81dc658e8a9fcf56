"""Inference goes to an upstream that may be dead, busy, slow or talk rubbish: the server survives it and names it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from oresmith.arena.server.config import Secret, Upstream
from oresmith.arena.server.run import running
from oresmith.arena.server.scripted import completion, scripted
from oresmith.arena.server.upstream import model_of
from oresmith.errors import OresmithError
from tests.arena.serving import KEY, bearer, chat_completion, config, upstream
from tests.arena.tiny_shop import TinyShop

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "temperature": 0.5}
HELLO = chat_completion("hello back")
UPSTREAM_KEY = "sk-key-of-the-upstream"


def asked_of(home: Path, url: str, **changes: Any) -> tuple[httpx.Response, dict[str, Any]]:
    """One completion by way of a server whose upstream is at `url`, and its /health after it."""
    home.joinpath("upstream").write_text(UPSTREAM_KEY, "ascii")
    given: dict[str, Any] = {"key": Secret(file=home / "upstream"), "backoff_s": 0.0, **changes}
    with running(TinyShop(), config(home, model=Upstream(url=url, **given))) as base:
        answer = httpx.post(f"{base}/inference/chat/completions", json=CHAT, headers=bearer(KEY), timeout=60)
        assert httpx.get(f"{base}/search/find_product?q=kettle&page=1").status_code == 200
        return answer, httpx.get(f"{base}/health").json()


def test_the_request_is_passed_on_whole_with_the_upstreams_key_and_its_answer_comes_back(tmp_path: Path) -> None:
    with upstream((200, HELLO)) as fake:
        answer, health = asked_of(tmp_path, fake.url, model="their-model")
    assert (answer.status_code, answer.json()) == (200, json.loads(HELLO))
    path, headers, body = fake.asked[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert KEY not in str(headers)
    assert json.loads(body) == {**CHAT, "stream": False, "model": "their-model"}
    assert "model_fault" not in health


@pytest.mark.parametrize("first", [(429, b"slow down"), (503, b""), (500, b"<html>"), (200, b"rubbish"), (200, b"{}")])
def test_a_passing_fault_is_tried_again(tmp_path: Path, first: tuple[int, bytes]) -> None:
    with upstream(first, (200, HELLO)) as fake:
        answer, _ = asked_of(tmp_path, fake.url)
    assert (answer.status_code, len(fake.asked)) == (200, 2)


@pytest.mark.parametrize(
    ("planned", "status", "tries"),
    [
        ((429, b"slow down"), 503, 3),
        ((503, b""), 503, 3),
        ((500, b"<html>"), 502, 3),
        ((302, b""), 502, 3),
        ((401, b'{"error": {"message": "bad key sk-key-of-the-upstream"}}'), 502, 3),
        ((200, b""), 502, 3),
        ((200, b"null"), 502, 3),
        ((200, b'{"choices": []}'), 502, 3),
        ((200, b'{"choices": [{"message": "text"}]}'), 502, 3),
        ((200, b'{"choices": [{"message": {}}], "x": NaN}'), 502, 3),
        ((200, b"[" * 100_000), 502, 3),
        ((200, b'{"choices": [{"message": {"content": ' + b"[" * 600 + b"]" * 600 + b"}}]}"), 502, 3),
        ((200, b'{"choices": [{"message": {"content": "' + b"x" * 200_000 + b'"}}]}'), 502, 3),
        ((400, b'{"error": {"message": "no model for sk-key-of-the-upstream"}}'), 400, 1),
        ((404, b"[]"), 404, 1),
    ],
)
def test_a_lasting_fault_is_a_json_error_that_names_the_upstream(
    tmp_path: Path, planned: tuple[int, bytes], status: int, tries: int
) -> None:
    with upstream(planned) as fake:
        answer, health = asked_of(tmp_path, fake.url, reply_bytes=100_000)
    assert (answer.status_code, len(fake.asked)) == (status, tries)
    assert answer.json()["error"]["message"].startswith("the upstream 127.0.0.1 ")
    assert health["model_fault"] == answer.json()["error"]["message"]
    assert UPSTREAM_KEY not in answer.text


def test_a_dead_upstream_is_survived_and_named(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen; a port that is free again may be another server's by now
        answer, health = asked_of(tmp_path, f"http://127.0.0.1:{nobody.getsockname()[1]}/v1")
    assert answer.status_code == 502
    assert "the upstream 127.0.0.1 cannot be reached" in answer.json()["error"]["message"]
    assert health["status"] == "ok"


def test_an_upstream_that_never_answers_is_given_up(tmp_path: Path) -> None:
    may = threading.Event()
    with upstream((200, HELLO), wait=may) as fake:
        answer, _ = asked_of(tmp_path, fake.url, timeout_s=0.05, retries=1)
        may.set()
    assert (answer.status_code, "within 0.05 s" in answer.text) == (502, True)


@pytest.mark.parametrize(
    "url",
    [
        *("", "ftp://host/v1", "host:80", "http://", "http://user:pw@host/v1", "http://[", "http://host:99999/v1"),
        *("http://host:x/v1", "http://a b/v1", "http://host/v1\n", "http://host/v1?key=pw", "http://host/v1#pw"),
    ],
)
def test_a_url_that_is_none_is_refused_at_the_start_without_being_repeated(tmp_path: Path, url: str) -> None:
    with pytest.raises(OresmithError, match="URL cannot be used") as refused:
        model_of(Upstream(url=url, key=Secret()))
    assert "pw" not in str(refused.value)


def test_an_unknown_policy_and_an_unreadable_secret_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="no such policy"):
        model_of("gpt")
    for data in (b"", b"two\nlines", "ä".encode(), b"\xff"):
        (tmp_path / "secret").write_bytes(data)
        with pytest.raises(OresmithError, match="the secret's file"):
            Secret(file=tmp_path / "secret").read()
    with pytest.raises(OresmithError, match="the secret's file"):
        Secret(file=tmp_path / "none").read()


def test_a_secret_of_the_environment_is_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", " word ")
    assert (Secret(env="A_SECRET").read(), Secret(env="NO_SECRET").read(), Secret().read()) == ("word", None, None)
    for text in ("w\u00f6rd", "two\nlines", "w\udcffrd"):
        monkeypatch.setenv("A_SECRET", text)
        with pytest.raises(OresmithError, match="variable A_SECRET") as refused:
            Secret(env="A_SECRET").read()
        assert text not in str(refused.value)


def test_a_scripted_policy_answers_by_the_turn_of_the_conversation() -> None:
    policy = scripted(["one", "two"])
    turns = [{"messages": [{"role": "assistant"}] * spoken} for spoken in range(4)]
    assert [policy(body) for body in turns] == ["one", "two", "two", "two"]
    assert scripted([])({}) == ""


def test_a_policy_may_give_a_whole_message() -> None:
    made = completion(CHAT, {"content": None, "tool_calls": [{"id": "x"}]})
    assert made["choices"][0]["message"] == {"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]}
    assert made["usage"]["total_tokens"] == made["usage"]["prompt_tokens"] + made["usage"]["completion_tokens"]


def _failing(body: dict[str, Any]) -> str:
    raise ValueError("secret of the policy")


@pytest.mark.parametrize("policy", [_failing, lambda body: {"content": {1, 2}}])
def test_a_policy_that_fails_is_an_error_and_no_more(tmp_path: Path, policy: Callable[..., Any]) -> None:
    with running(TinyShop(), config(tmp_path, model=policy)) as base:
        answer = httpx.post(f"{base}/inference/chat/completions", json=CHAT, headers=bearer(KEY))
        assert answer.status_code in (500, 502)
        assert "secret" not in answer.text
        assert httpx.get(f"{base}/health").status_code == 200
