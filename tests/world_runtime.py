"""The sandbox: a simulated clock, the proxy's log, and the envelope that the runtime writes.

A `Sandbox` is driven by an agent family (`world_agents`); it keeps what passes through the proxy and lays it out as
the runtime does: `proxy_calls` one step early, in the old runtime's short form or in the new one's full form.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

from tests.world_shop import Problem, World

OLD, NEW = "old", "new"
KEPT_CHARACTERS = 2000
"""The old runtime drops a response whose JSON is longer than this many characters."""

MODEL = "open-model/shopper-32b"
DAY = 1_777_593_600_000
"""2026-05-01T00:00:00Z in milliseconds: all worlds play in May 2026, inside one judge era."""

SYSTEM_PROMPT = """You are a shopping agent. Find what the user asks for and recommend it.
Think between <think> and </think>, then call tools between <tool_call> and </tool_call> as a JSON list of objects with
the keys name and parameters. Tools:
- find_product(q, page, shop_id, price, sort, service): search the catalogue, ten products a page.
- view_product_information(product_ids): details of the products, ids separated by commas.
- recommend_product(product_ids): the final recommendation, ids separated by commas, in the order of the request.
- terminate(status): end the dialogue with success or failure."""


@dataclass(frozen=True)
class Truth:
    """What a reader must find out about a case, known because the case was made so."""

    family: str
    success: bool | None = None
    """Strict outcome; None where nothing can be scored."""
    origins: tuple[str, ...] = ()
    """The verdicts on origin that are right; empty where any is."""
    reasons: tuple[str, ...] = ()
    """Reject codes that the row gates must give; others may stand beside them."""
    one_of: tuple[str, ...] = ()
    """Reject codes of which at least one must be given."""


@dataclass
class Case:
    """An envelope and the truth about it."""

    envelope: dict[str, Any]
    truth: Truth

    @property
    def line(self) -> bytes:
        """The envelope as the sandbox writes it: one line of JSON, without the line end."""
        return envelope_line(self.envelope)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps of the dialogue; [] where there are none."""
        return self.envelope["dialogue"] or []


def envelope_line(envelope: Any) -> bytes:
    """JSON as Python's own `json` writes it by default: ASCII, with blanks after separators."""
    return json.dumps(envelope).encode()


def bare_steps(case: Case) -> bytes:
    """A per-problem download: the gzipped bare list of steps, with no time stamp in the gzip header."""
    return gzip.compress(json.dumps(case.steps).encode(), mtime=0)


def tool_call_id(name: str, parameters: Any) -> str:
    """The runtime's id of a call: a short hash of name and parameters, so that equal calls collide."""
    digest = hashlib.md5(f"{name}\n{parameters}".encode(), usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")[:8]


def render(think: str | None, calls: list[dict[str, Any]], response: str | None) -> str:
    """The step's content as the runtime renders it from the message, not as the model wrote it."""
    commands = [{"name": c.get("name"), "parameters": c.get("parameters")} for c in calls]
    parts = [f"<think>{think}</think>"] if think else []
    parts += [f"<tool_call>{json.dumps(commands)}</tool_call>"] if calls else []
    parts += [f"<response>{response}</response>"] if response else []
    return "\n".join(parts)


@dataclass
class Sandbox:
    """One run of one agent on one problem. The agent calls `infer`, `call` and `step`; `envelope` ends the run."""

    world: World
    problem: Problem
    rng: random.Random
    runtime: str = OLD
    start: int = DAY
    now: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    inferences: int = 0

    def infer(
        self,
        reply: str,
        messages: list[dict[str, str]],
        *,
        model: str = MODEL,
        options: dict[str, Any] | None = None,
        reasoning: str | None = None,
        prompt_tokens: int | None = None,
    ) -> str:
        """One chat completion that answers `reply`; prompt tokens are a quarter of the prompt's characters."""
        self.inferences += 1
        duration = self._pass(self.rng.uniform(120, 700))
        if prompt_tokens is None:
            prompt_tokens = sum(len(m["content"]) for m in messages) // 4 + 4 * len(messages)
        completion = len(reply + (reasoning or "")) // 4 + 1
        response = {
            "id": f"chatcmpl-{self.rng.getrandbits(128):032x}",
            "object": "chat.completion",
            "created": self._stamp() // 1000,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": reply,
                        "reasoning_content": reasoning,
                        "tool_calls": None,
                    },
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "total_tokens": prompt_tokens + completion,
                "completion_tokens": completion,
                "prompt_tokens_details": None,
            },
        }
        body: dict[str, Any] = {"model": model, "temperature": 0.0}
        if self.runtime == NEW:
            body["messages"] = [dict(m) for m in messages]
        body |= {"stream": False} | (options or {})
        self._log("/inference/chat/completions", duration, {"json_data": body}, response, None)
        return reply

    def fetch(self, name: str, parameters: dict[str, Any]) -> Any:
        """One search or view through the proxy; returns the result."""
        duration = self._pass(self.rng.uniform(4, 60))
        result: list[dict[str, Any]]
        if name == "find_product":
            result, logged = self.world.find(parameters), {"q": parameters["q"], "page": 1} | parameters
        else:
            result, logged = self.world.view(parameters["product_ids"].split(",")), dict(parameters)
        logged = {k: quote_plus(v, safe=",") if isinstance(v, str) else v for k, v in logged.items()}
        ids = [p["product_id"] for p in result] if name == "find_product" else None
        self._log(f"/search/{name}", duration, {"params": logged}, result, ids)
        return result

    def call(self, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Execute a tool call and pair it with its result, as the runtime's own helper does."""
        result: Any
        if name in ("find_product", "view_product_information"):
            result = self.fetch(name, parameters)
        elif name == "recommend_product":
            result = f"Having recommended the products to the user: {parameters.get('product_ids')}."
        elif name == "terminate":
            result = f"The interaction has been completed with status: {parameters.get('status')}"
        else:
            result = f"Error: Tool {name} not found"
        identity = tool_call_id(name, parameters)
        return {"name": name, "parameters": parameters, "tool_call_id": identity, "result": result}

    def step(self, think: str | None, calls: list[dict[str, Any]], response: str | None = None) -> None:
        """Close a step now; keys of the message stand only where used."""
        self._pass(self.rng.uniform(1, 3))
        message: dict[str, Any] = {"think": think} if think else {}
        message |= {"tool_call": calls} if calls else {}
        message |= {"response": response} if response else {}
        completion = {"reasoning_content": "", "content": render(think, calls, response), "message": message}
        extra = {
            "step": len(self.steps) + 1,
            "query": self.problem["query"],
            "timestamp": self._stamp(),
            "problem_id": self.problem["problem_id"],
        }
        self.steps.append({"completion": completion, "extra_info": extra})
        self._pass(1.0)

    def envelope(
        self, status: str = "SUCCESS", error: dict[str, str] | None = None, dialogue: bool = True
    ) -> dict[str, Any]:
        """The finished run. With `dialogue` false the steps are lost, as in crashes and time-outs."""
        seconds = round(self.now / 1000 + 0.31, 6)
        if dialogue and self.steps:
            self.steps[0]["extra_info"]["execution_time"] = seconds
            self._assign_log()
        return {
            "problem_id": self.problem["problem_id"],
            "status": status,
            "execution_time": seconds,
            "inference_failure_count": 0,
            "inference_total": self.inferences,
            "error": error,
            "dialogue": self.steps if dialogue else None,
        }

    def _assign_log(self) -> None:
        """Store each call in the last step whose time stamp is not after the call's end: mostly one step early."""
        for entry in self.log:
            earlier = [s for s in self.steps if s["extra_info"]["timestamp"] <= entry["timestamp"]]
            extra = (earlier[-1] if earlier else self.steps[0])["extra_info"]
            extra.setdefault("proxy_calls", []).append(entry)

    def _pass(self, milliseconds: float) -> float:
        """Let time go by; returns the milliseconds, rounded as the log rounds them."""
        duration = round(milliseconds, 1)
        self.now += duration
        return duration

    def _stamp(self) -> int:
        return self.start + int(self.now)

    def _log(self, path: str, duration: float, request: dict[str, Any], response: Any, ids: list[str] | None) -> None:
        entry: dict[str, Any] = {"kind": "summary", "method": "POST" if "json_data" in request else "GET", "path": path}
        entry |= {"timestamp": self._stamp(), "duration_ms": duration, "status_code": 200} | request
        length = len(json.dumps(response))
        kept = self.runtime == NEW or length <= KEPT_CHARACTERS
        entry |= {"response": response} if kept else {"response_truncated": True, "response_length": length}
        if ids is not None and (self.runtime == NEW or not kept):
            entry["result_product_ids"] = ids
        self.log.append(entry)
