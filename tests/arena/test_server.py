"""The server offers SN15's proxy surface, keeps strangers out, and logs what really happened."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from oresmith.arena.server.config import Limits, Secret
from oresmith.arena.server.run import running
from oresmith.arena.server.scripted import scripted
from oresmith.arena.tools import Toolbox
from oresmith.arena.witness import load_witness
from oresmith.evidence.witnessed import confirmed
from oresmith.records import Problem, Provenance
from tests.arena.serving import ADMIN, KEY, Agent, bearer, config, open_session
from tests.arena.tiny_shop import TinyShop
from tests.evidence.test_witnessed import trajectory

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with running(TinyShop(), config(tmp_path)) as base:
        yield base


def test_search_and_view_over_http_are_those_of_the_toolbox(url: str) -> None:
    toolbox, agent = Toolbox(TinyShop()), Agent(url)
    for parameters in ({"q": "red kettle"}, {"q": "kettle", "page": 3}, {"q": "red+kettle"}, {"q": "nothing"}):
        assert agent.find(**parameters) == toolbox.call("find_product", parameters)
    ids = {"product_ids": "1003,1001,none"}
    assert agent.get("/search/view_product_information", ids) == toolbox.call("view_product_information", ids)
    assert len(agent.find("kettle")) == 10


def test_a_query_is_the_same_whether_quoted_once_or_twice(tmp_path: Path) -> None:
    shop = TinyShop()
    with running(shop, config(tmp_path)) as url:
        agent = Agent(url)
        agent.find("men's kettle & 50% off")
        agent.get("/search/find_product", {"q": "men's kettle & 50% off", "page": 1, "price": "1-2", "service": "COD"})
    assert [asked["q"] for asked in shop.asked] == ["men's kettle & 50% off"] * 2
    assert shop.asked[1] | {"q": ""} == {"q": "", "page": 1, "price": "1-2", "service": "COD"}


@pytest.mark.parametrize(
    "query", ["", "?q=kettle", "?q=&page=1", "?page=1", "?q=kettle&page=9", "?q=kettle&page=x", "?q=%ff%00&page=1"]
)
def test_a_search_without_query_or_page_finds_nothing(url: str, query: str) -> None:
    answer = httpx.get(f"{url}/search/find_product{query}")
    assert (answer.status_code, answer.json()) == (200, [])


def test_every_tool_answers_by_its_name_and_errors_are_results(url: str) -> None:
    def call(name: str, parameters: Any) -> Any:
        return httpx.post(f"{url}/tools/{name}", json=parameters).json()["result"]

    assert call("terminate", {"status": "success"}) == "The interaction has been completed with status: success"
    assert call("recommend_product", {"product_ids": "1"}).startswith("Having recommended")
    assert call("find_product", [1]).startswith("Error: ")
    assert call("nope", {}).startswith("Error: Tool 'nope' is not registered.")


def test_a_run_played_through_a_session_is_server_verified_and_a_changed_one_is_not(tmp_path: Path) -> None:
    model = scripted(["I search.", "I look."])
    with running(TinyShop(), config(tmp_path, model=model)) as url:
        session = open_session(url)
        agent = Agent(session["base_url"], session["inference_key"])
        assert agent.chat("find a kettle")["choices"][0]["message"]["content"] == "I search."
        agent.find("red kettle", price="0-500")
        agent.find("kettle")
        agent.get("/search/view_product_information", {"product_ids": "1000,1001"})
        agent.post("/tools/recommend_product", {"product_ids": "1000"})
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(agent.find, ["red", "blue", "green", "number"]))
        Agent(url).find("a stranger's search")
    witness = load_witness(tmp_path / "log" / "witness.jsonl")
    assert set(witness) == {"run-1/problem-1", "serve"}
    assert confirmed(trajectory(agent.log), witness)
    assert not confirmed(trajectory(agent.log[1:]), witness)
    assert not confirmed(trajectory(agent.log, problem=Problem(problem_id="problem-2")), witness)


def test_the_log_holds_neither_messages_nor_keys_unless_messages_are_asked_for(tmp_path: Path) -> None:
    held = {}
    for keep in (False, True):
        home = tmp_path / str(keep)
        home.mkdir()
        with running(TinyShop(), config(home, log_messages=keep)) as url:
            session = open_session(url)
            Agent(session["base_url"], session["inference_key"]).chat("my secret prompt")
        path = home / "log" / "witness.jsonl"
        held[keep] = path.read_text("utf-8")
        assert path.stat().st_mode & 0o077 == 0
        for secret in (ADMIN, KEY, session["inference_key"], session["base_url"].rsplit("/", 1)[1]):
            assert secret not in held[keep]
        assert len(load_witness(path)["run-1/problem-1"]) == 1
    assert ["my secret prompt" in held[keep] for keep in (False, True)] == [False, True]


@pytest.mark.parametrize(
    "headers", [{}, bearer("wrong"), {"authorization": "Bearer"}, {"authorization": ADMIN}, bearer("ä")]
)
def test_only_the_admin_token_opens_and_closes_sessions(url: str, headers: dict[str, str]) -> None:
    raw = {key: value.encode() for key, value in headers.items()}
    body = {"run_id": "r", "problem_id": "p"}
    assert httpx.post(f"{url}/sessions", json=body, headers=raw).status_code == 401
    base = open_session(url)["base_url"]
    assert httpx.delete(base, headers=raw).status_code == 401
    assert httpx.delete(base, headers=bearer(ADMIN)).json() == {"session": "run-1/problem-1", "requests": 0}
    assert httpx.get(f"{base}/search/find_product").status_code == 404


def test_without_an_admin_token_nobody_opens_sessions(tmp_path: Path) -> None:
    with running(TinyShop(), config(tmp_path, admin_token=Secret(), inference_key=Secret())) as url:
        body = {"run_id": "r", "problem_id": "p"}
        assert httpx.post(f"{url}/sessions", json=body, headers=bearer(ADMIN)).status_code == 403
        assert httpx.post(f"{url}/inference/chat/completions", json=CHAT, headers=bearer(KEY)).status_code == 401


def test_a_session_is_opened_once_even_over_a_restart(tmp_path: Path) -> None:
    for again in (False, True):
        with running(TinyShop(), config(tmp_path)) as url:
            if not again:
                Agent(open_session(url)["base_url"]).find("kettle")
            answer = httpx.post(
                f"{url}/sessions", json={"run_id": "run-1", "problem_id": "problem-1"}, headers=bearer(ADMIN)
            )
            assert answer.status_code == 409
    assert len(load_witness(tmp_path / "log" / "witness.jsonl")["run-1/problem-1"]) == 1


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"run_id": 1, "problem_id": "p"}', b'{"run_id": "a/b", "problem_id": "p"}', b"\xff"]
)
def test_a_session_without_proper_ids_is_refused(url: str, body: bytes) -> None:
    assert httpx.post(f"{url}/sessions", content=body, headers=bearer(ADMIN)).status_code == 400


def test_inference_needs_the_key_of_its_own_session(url: str) -> None:
    one, two = open_session(url, "r1"), open_session(url, "r2")

    def status(base: str, key: str | None) -> int:
        headers = bearer(key) if key else {}
        return httpx.post(f"{base}/inference/chat/completions", json=CHAT, headers=headers).status_code

    assert [status(one["base_url"], key) for key in (one["inference_key"], two["inference_key"], KEY, None)] == [
        200,
        401,
        401,
        401,
    ]
    assert [status(url, key) for key in (KEY, one["inference_key"], ADMIN)] == [200, 401, 401]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"nonsense", 400),
        (b"[1]", 400),
        (b'{"messages": "x"}', 400),
        (b'{"messages": [], "stream": true}', 400),
        (b'{"messages": [1, null, {"role": 5}]}', 200),
        (b'{"messages": []}', 200),
        (b"[" * 5000, 400),
        (b'{"messages": [' + b"[" * 300 + b"]" * 300 + b"]}", 200),
        (b'{"messages": [], "pad": "' + b"x" * 3_000_000 + b'"}', 413),
    ],
)
def test_inference_bodies_of_any_kind_are_answered_in_json(url: str, body: bytes, status: int) -> None:
    answer = httpx.post(f"{url}/inference/chat/completions", content=body, headers=bearer(KEY))
    assert answer.status_code == status
    assert ("error" in answer.json()) == (status != 200)
    assert httpx.get(f"{url}/health").status_code == 200


def test_a_session_has_a_limit_of_requests_and_what_is_beyond_is_not_logged(tmp_path: Path) -> None:
    with running(TinyShop(), config(tmp_path, limits=Limits(requests=3))) as url:
        agent = Agent(open_session(url)["base_url"], tries=1)
        assert [agent.find("red") is not None for _ in range(5)] == [True, True, True, False, False]
        assert Agent(url).find("red")
    assert len(load_witness(tmp_path / "log" / "witness.jsonl")["run-1/problem-1"]) == 3


class SlowShop(TinyShop):
    """Searches only once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may, self.waiting = threading.Event(), threading.Semaphore(0)

    def find_product(self, q: str, *, page: int = 1, **filters: str | None) -> list[dict[str, Any]]:
        self.waiting.release()
        self.may.wait(30)
        return super().find_product(q, page=page, **filters)


def test_a_slow_search_holds_nobody_else_up_and_a_session_has_a_limit_at_once(tmp_path: Path) -> None:
    shop = SlowShop()
    with running(shop, config(tmp_path, limits=Limits(at_once=2))) as url, ThreadPoolExecutor(3) as pool:
        base = open_session(url)["base_url"]
        slow = [pool.submit(Agent(base).find, "red") for _ in range(2)]
        for _ in slow:
            assert shop.waiting.acquire(timeout=30)
        assert httpx.get(f"{url}/health").json()["status"] == "ok"
        assert httpx.get(f"{base}/search/find_product?q=x&page=1").status_code == 429
        assert len(httpx.get(f"{url}/search/view_product_information?product_ids=1001").json()) == 1
        shop.may.set()
        assert all(one.result() for one in slow)


class _Broken(TinyShop):
    def find_product(self, q: str, *, page: int = 1, **filters: str | None) -> list[dict[str, Any]]:
        raise RuntimeError("/a/path/of/this/machine")


def test_a_broken_search_is_a_logged_500_that_tells_no_path(tmp_path: Path) -> None:
    with running(_Broken(), config(tmp_path)) as url:
        answer = httpx.get(f"{url}/search/find_product?q=x&page=1")
        assert (answer.status_code, "/a/path" in answer.text) == (500, False)
        assert httpx.get(f"{url}/health").status_code == 200
    assert [entry.status for entry in load_witness(tmp_path / "log" / "witness.jsonl")["serve"]] == [500]


def test_the_server_answers_to_local_names_only(url: str) -> None:
    assert httpx.get(f"{url}/health", headers={"host": "shop.example"}).status_code == 400
    assert url.startswith("http://127.0.0.1:")


def test_health_names_the_model(url: str) -> None:
    assert httpx.get(f"{url}/health").json() == {"status": "ok", "model": "echo", "sessions": 0}


def test_unknown_paths_and_methods_are_refused(url: str) -> None:
    assert httpx.get(f"{url}/s/guess/search/find_product?q=x&page=1").status_code == 404
    assert httpx.get(f"{url}/inference/chat/completions").status_code == 405
    assert httpx.post(f"{url}/inference/embeddings", json={}).status_code == 404


def test_requests_of_many_clients_are_all_logged_in_order(tmp_path: Path) -> None:
    def play(number: int) -> None:
        agent = Agent(open_session(url, f"run-{number}")["base_url"])
        for _ in range(10):
            assert agent.find("red kettle")
        logs[number] = agent.log

    logs: dict[int, Any] = {}
    with running(TinyShop(), config(tmp_path)) as url, ThreadPoolExecutor(8) as pool:
        list(pool.map(play, range(8)))
    path = tmp_path / "log" / "witness.jsonl"
    witness = load_witness(path)
    stamps = [json.loads(line)["timestamp"] for line in path.read_text("utf-8").splitlines()[1:]]
    assert stamps == sorted(stamps)
    assert len(stamps) == 80
    for number, log in logs.items():
        assert confirmed(trajectory(log, provenance=Provenance(run_id=f"run-{number}")), witness)


@pytest.mark.parametrize("begun", [b"", b"GET /health HTTP/1.1\r\nHost: local", b"whole"])
def test_a_connection_that_brings_no_whole_request_is_closed_and_one_under_answer_is_not(
    tmp_path: Path, begun: bytes
) -> None:
    may = threading.Event()

    def patient(body: dict[str, Any]) -> str:
        return str(may.wait(30))

    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        running(TinyShop(), config(tmp_path, model=patient, limits=Limits(read_s=0.1))) as url,
        ThreadPoolExecutor(1) as pool,
        socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=30) as idle,
    ):
        answer = pool.submit(Agent(url, KEY, tries=1).chat, "hello")
        idle.sendall(whole + b"GET" if begun == b"whole" else begun)
        try:
            while idle.recv(65536):
                pass
        finally:
            may.set()
        assert answer.result()["choices"][0]["message"]["content"] == "True"


def test_a_path_that_there_is_not_is_refused_in_json_too(url: str) -> None:
    answer = httpx.get(f"{url}/nothing")
    assert answer.status_code == 404
    assert "find_product" in answer.json()["error"]["message"]
