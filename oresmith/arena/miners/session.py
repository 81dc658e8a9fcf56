"""One run of one agent on one problem: a simulated clock, the proxy's log, and the envelope that the runtime writes.

Shapes are those of real envelopes (traces.md): `proxy_calls` one step early, the old runtime's short form of responses
or the new one's full form, quoted parameters, ids that collide. Nothing waits: time is drawn from the run's own stream.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote_plus

from oresmith.arena.tools import Toolbox, tool_call_id
from oresmith.arena.witness import Recorder

Runtime = Literal["old", "new"]
KEPT_CHARACTERS = 2_000
"""The old runtime drops a response whose JSON is longer."""
PIPE_BYTES = 65_536
"""A dialogue that outgrows the pipe between agent and sandbox blocks its agent until the time is up."""
_STEP_CHARACTERS = 330
"""What a step's JSON holds beside its texts and results, about."""
TIME_LIMIT_S = 300.0
DEFAULT_MODEL = "open-model/shopper-32b"
INFERENCE = "/inference/chat/completions"
SEARCHES = ("find_product", "view_product_information")
_LOGGED = ("q", "page", "shop_id", "price", "sort", "service")
"""The parameters of a search, in the order in which the runtime's client sends them."""


class RunEnded(Exception):  # noqa: N818 - it ends a run as its plan says, and is no fault of the program
    """The agent dies here: raised inside its next call, caught by whoever plays the run."""


@dataclass(frozen=True)
class Pace:
    """How long things take, in ms."""

    think_ms: float = 900.0
    """Of an inference call, beside its tokens; also the spread."""
    token_ms: float = 6.0
    search_ms: tuple[float, float] = (3.0, 60.0)
    failure_rate: float = 0.006
    """Share of the inference calls that get no answer and are made again."""


@dataclass
class Session:
    """One run. The agent calls `infer`, `fetch`, `call` and `step`; `envelope` ends it."""

    tools: Toolbox
    problem_id: str
    query: str
    rng: random.Random
    witness: Recorder | None = None
    imagined: bool = False
    """Inference never happens: the log tells of it, the server does not."""
    runtime: Runtime = "old"
    start_ms: int = 0
    pace: Pace = Pace()
    quoted: bool = True
    """The client quotes its parameters, as the runtime's own does."""
    own_clients: bool = False
    """Some inference passes by the runtime's counter."""
    dies_after: int | None = None
    """Inference calls after which the agent dies."""
    now: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    counted: int = 0
    failures: int = 0
    replies: int = 0
    dropped: int = 0
    """Replies whose text the log does not hold."""
    written: int = 0
    """Characters of the dialogue so far, about."""

    def infer(
        self,
        reply: str | None,
        messages: list[dict[str, Any]],
        *,
        model: str = DEFAULT_MODEL,
        options: dict[str, Any] | None = None,
        tool_calls: list[dict[str, Any]] | None = None,
        reasoning: str | None = None,
    ) -> None:
        """One chat completion that answers `reply`, after retries where the upstream fails.

        Args:
            reply: the content; None beside native `tool_calls`.
            messages: the prompt; logged by the new runtime alone.
            model: as the agent names it.
            options: further parameters of the request.
            tool_calls: native calls of the reply.
            reasoning: `reasoning_content` of the reply.

        Raises:
            RunEnded: the run ends here.
        """
        if self.dies_after is not None and self.replies >= self.dies_after:
            raise RunEnded
        body: dict[str, Any] = {"model": model, "temperature": 0.0}
        if self.runtime == "new":
            body["messages"] = [*messages]
        body |= {"stream": False} | (options or {})
        while self.rng.random() < self.pace.failure_rate:
            self.failures += 1
            self.counted += 1
            self._note(INFERENCE, self._pass(self.rng.uniform(80, 4_000)), {"json_data": body}, None, None)
        prompt = sum(len(message["content"] or "") for message in messages) // 4 + 4 * len(messages)
        spoken = len(reply or "") + len(reasoning or "") + (len(json.dumps(tool_calls)) if tool_calls else 0)
        tokens = spoken // 4 + 1
        duration = self._pass(self.pace.think_ms * self.rng.uniform(0.4, 1.9) + self.pace.token_ms * tokens)
        message = {"role": "assistant", "content": reply, "reasoning_content": reasoning, "tool_calls": tool_calls}
        finish = "tool_calls" if tool_calls else "stop"
        response = {
            "id": f"chatcmpl-{self.rng.getrandbits(128):032x}",
            "object": "chat.completion",
            "created": self._stamp() // 1000,
            "model": model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": prompt,
                "total_tokens": prompt + tokens,
                "completion_tokens": tokens,
                "prompt_tokens_details": None,
            },
        }
        self.replies += 1
        self.counted += not (self.own_clients and self.rng.random() < 0.4)
        kept = self._note(INFERENCE, duration, {"json_data": body}, response, None)
        self.dropped += not kept

    def fetch(self, name: str, parameters: dict[str, Any]) -> Any:
        """One search or view over HTTP; returns what the server answers, or the tool's "Error: .." without any HTTP."""
        result = self.tools.call(name, parameters)
        if isinstance(result, str):
            return result
        self._exchange(name, parameters, result)
        return result

    def call(self, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Execute a tool call and pair it with its result, as the runtime's helper does."""
        result = self.fetch(name, parameters) if name in SEARCHES else self.tools.call(name, parameters)
        return shown(name, parameters, result)

    def step(self, think: Any, calls: list[dict[str, Any]], response: str | None = None) -> None:
        """Close a step now. Keys of the message stand only where used."""
        self._pass(self.rng.uniform(0.6, 3.0))
        message: dict[str, Any] = {"think": think} if think else {}
        message |= {"tool_call": calls} if calls else {}
        message |= {"response": response} if response else {}
        content = render(think, calls, response)
        extra = {
            "step": len(self.steps) + 1,
            "query": self.query,
            "timestamp": self._stamp(),
            "problem_id": self.problem_id,
        }
        self.steps.append(
            {"completion": {"reasoning_content": "", "content": content, "message": message}, "extra_info": extra}
        )
        self.written += 2 * len(json.dumps(content)) + len(self.query) + _STEP_CHARACTERS
        self._pass(1.0)

    def envelope(
        self, status: str = "SUCCESS", error: dict[str, str] | None = None, dialogue: list[Any] | None = None
    ) -> dict[str, Any]:
        """The finished run with `dialogue`: the steps that were made, None where they are lost, [] where none came."""
        seconds = self.now / 1000 + 0.05 + self.rng.random() / 2
        if status == "TIMED_OUT":
            seconds = TIME_LIMIT_S + self.rng.random() / 5
        if dialogue:
            info = dialogue[0].get("extra_info") if isinstance(dialogue[0], dict) else None
            if isinstance(info, dict):
                info["execution_time"] = seconds
            self._assign_log()
        return {
            "problem_id": self.problem_id,
            "status": status,
            "execution_time": seconds,
            "inference_failure_count": self.failures,
            "inference_total": self.counted,
            "error": error,
            "dialogue": dialogue,
        }

    @property
    def late(self) -> bool:
        """Whether the run took longer than it may, or its dialogue outgrew the pipe."""
        return self.written > PIPE_BYTES or self.now > TIME_LIMIT_S * 1000

    def _exchange(self, name: str, parameters: dict[str, Any], result: list[dict[str, Any]]) -> None:
        params = dict(parameters)
        if name == "find_product":
            given = {"page": 1} | parameters
            params = {key: given[key] for key in _LOGGED if given.get(key) is not None}
            if self.quoted:
                params["q"] = quote_plus(params["q"])
            if params.get("sort") == "default":
                del params["sort"]
        ids = [hit["product_id"] for hit in result] if name == "find_product" else None
        duration = self._pass(self.rng.uniform(*self.pace.search_ms))
        self._note(f"/search/{name}", duration, {"params": params}, result, ids)

    def _note(self, path: str, duration: float, request: dict[str, Any], response: Any, ids: list[str] | None) -> bool:
        """Log one exchange as the runtime does; returns whether the response stands in the log."""
        stamp, method = self._stamp(), "POST" if "json_data" in request else "GET"
        failed = response is None
        entry: dict[str, Any] = {"kind": "summary", "method": method, "path": path, "timestamp": stamp}
        entry |= {"duration_ms": duration, "status_code": None if failed else 200} | request
        length = 0 if failed else self._witnessed(method, path, duration, request, response)
        kept = self.runtime == "new" or length <= KEPT_CHARACTERS
        if failed:
            self._witnessed(method, path, duration, request, None)
        else:
            entry |= {"response": response} if kept else {"response_truncated": True, "response_length": length}
            if ids is not None and (self.runtime == "new" or not kept):
                entry["result_product_ids"] = ids
        self.log.append(entry)
        if path != INFERENCE:
            self.written += length
        return kept

    def _witnessed(self, method: str, path: str, duration: float, request: dict[str, Any], response: Any) -> int:
        """Let the server note an exchange; returns the characters of the response."""
        if self.witness is None or (self.imagined and path == INFERENCE):
            return len(json.dumps(response))
        status, stamp = 502 if response is None else 200, self._stamp()
        return self.witness.record(
            method, path, timestamp=stamp, duration_ms=duration, status=status, response=response, **request
        ).response_length

    def _assign_log(self) -> None:
        """Store each call in the last step whose time stamp is not after the call's end: mostly one step early."""
        infos = [step["extra_info"] for step in self.steps]
        stamps = [info["timestamp"] for info in infos]
        for entry in self.log:
            info = infos[max(0, bisect_right(stamps, entry["timestamp"]) - 1)]
            info.setdefault("proxy_calls", []).append(entry)

    def _pass(self, milliseconds: float) -> float:
        """Let time go by; returns the milliseconds, rounded as the log rounds them."""
        duration = round(milliseconds, 1)
        self.now += duration
        return duration

    def _stamp(self) -> int:
        return self.start_ms + int(self.now)


def shown(name: str, parameters: dict[str, Any], result: Any) -> dict[str, Any]:
    """A tool call as a step shows it."""
    identity = tool_call_id(name, parameters)
    return {"name": name, "parameters": parameters, "tool_call_id": identity, "result": result}


def render(think: Any, calls: list[dict[str, Any]], response: str | None) -> str:
    """A step's content as the runtime renders it from the message, not as the model wrote it."""
    commands = [{"name": call.get("name"), "parameters": call.get("parameters")} for call in calls]
    parts = [f"<think>{think}</think>"] if think else []
    parts += [f"<tool_call>{json.dumps(commands)}</tool_call>"] if calls else []
    parts += [f"<response>{response}</response>"] if response else []
    return "\n".join(parts)
