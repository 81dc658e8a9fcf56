"""The request log survives a kill up to its last line, belongs to one server, and a port in use is a clear refusal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oresmith.arena.server.log import RequestLog
from oresmith.arena.server.run import running, serve
from oresmith.arena.witness import HEAD, load_witness
from oresmith.errors import EXIT_REFUSED, OresmithError
from tests.arena.serving import Agent, config
from tests.arena.tiny_shop import TinyShop
from tests.code_deps import ROOT

WHAT: dict[str, Any] = {"timestamp": 1, "duration_ms": 1.0, "status": 200}
KILLED = """
import os, signal, sys
from pathlib import Path
from oresmith.arena.server.log import RequestLog
log = RequestLog(Path(sys.argv[1]))
for number in range(50):
    log.record("r/p", "GET", "/x", timestamp=number, duration_ms=1.0, status=200)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_every_line_survives_a_kill_and_the_next_server_goes_on_from_there(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(load_witness(path)["r/p"]) == 50
    log = RequestLog(path)
    assert (log.known("r/p"), log.known("r/q")) == (True, False)
    assert log.record("r/p", "GET", "/x", **WHAT).number == 50
    log.close()
    assert [entry.number for entry in load_witness(path)["r/p"]] == list(range(51))


@pytest.mark.parametrize("torn", [b"{", b'{"session":"r/p","numb', b"x" * 200_000])
def test_a_torn_last_line_is_taken_off_before_the_log_goes_on(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "w.jsonl"
    for _ in range(2):
        log = RequestLog(path)
        log.record("r/p", "GET", "/x", **WHAT)
        log.close()
        with path.open("ab") as file:
            file.write(torn)
    assert [entry.number for entry in load_witness(path)["r/p"]] == [0, 1]


def test_a_head_torn_by_a_kill_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_bytes(HEAD[:10])
    log = RequestLog(path)
    log.record("r/p", "GET", "/x", **WHAT)
    log.close()
    assert len(load_witness(path)["r/p"]) == 1


def test_a_log_of_a_running_server_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    log = RequestLog(path)
    with pytest.raises(OresmithError, match="belongs to a running server"):
        RequestLog(path)
    log.close()
    other = tmp_path / "other.jsonl"
    other.write_text('{"not": "a witness"}\n', "utf-8")
    with pytest.raises(OresmithError, match="the witness cannot be read"):
        RequestLog(other)
    assert other.read_text("utf-8") == '{"not": "a witness"}\n'
    with pytest.raises(OresmithError, match="cannot be written"):
        RequestLog(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for odd in (pipe, Path(os.devnull)):
        with pytest.raises(OresmithError, match="no regular file"):
            RequestLog(odd)


FULL = """
import resource, signal, sys
from pathlib import Path
import httpx
from oresmith.arena.server.run import running
from tests.arena.serving import config
from tests.arena.tiny_shop import TinyShop
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
with running(TinyShop(), config(Path(sys.argv[1]))) as url, httpx.Client(trust_env=False) as client:
    for number in range(12):
        if number == 10:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        answer = client.get(url + "/search/find_product?q=kettle&page=1")
        print(answer.status_code, "error" in answer.json())
"""


def test_what_a_full_disk_keeps_from_the_log_is_not_answered_and_the_log_stays_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    said = done.stdout.split("\n")[:-1]
    kept = said.count("200 False")
    assert said == ["200 False"] * (kept - 2) + ["500 True"] * (12 - kept) + ["200 False"] * 2
    assert 2 < kept < 12
    assert "Traceback" not in done.stderr
    assert [entry.number for entry in load_witness(tmp_path / "log" / "witness.jsonl")["serve"]] == list(range(kept))


SERVED = """
import signal, sys
from pathlib import Path
from oresmith.arena.server.config import ServeConfig
from oresmith.arena.server.run import serve
from tests.arena.tiny_shop import TinyShop
serve(TinyShop(), ServeConfig(log=Path(sys.argv[1]), port=0), ready=lambda url: print(url, flush=True))
print("ended")
"""


@pytest.mark.parametrize(
    ("ending", "code", "said"), [(signal.SIGINT, 0, "ended\n"), (signal.SIGTERM, -signal.SIGTERM, "")]
)
def test_a_signal_ends_the_server_quietly_and_the_log_is_whole(
    tmp_path: Path, ending: int, code: int, said: str
) -> None:
    command = [sys.executable, "-c", SERVED, str(tmp_path / "w.jsonl")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as server:  # type: ignore[call-overload]
        assert Agent(server.stdout.readline().strip()).find("red kettle")
        server.send_signal(ending)
        assert server.communicate(timeout=60) == (said, "")
    assert server.returncode == code
    assert len(load_witness(tmp_path / "w.jsonl")["serve"]) == 1


def test_a_port_in_use_is_refused_with_exit_code_2(tmp_path: Path) -> None:
    with running(TinyShop(), config(tmp_path)) as url:
        port = int(url.rsplit(":", 1)[1])
        with pytest.raises(OresmithError, match=rf"127\.0\.0\.1:{port}: the port cannot be used") as refused:
            serve(TinyShop(), config(tmp_path, port=port, log=tmp_path / "other.jsonl"))
        assert refused.value.exit_code == EXIT_REFUSED
        assert Agent(url).find("red kettle")


@pytest.mark.parametrize("port", [-1, 65536, 10**9])
def test_a_port_that_is_none_is_refused(tmp_path: Path, port: int) -> None:
    with pytest.raises(OresmithError, match="the port cannot be used"):
        serve(TinyShop(), config(tmp_path, port=port))
