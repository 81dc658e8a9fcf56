"""One sample of one problem: what the model is shown, what its replies do, and when it is over.

A reply's calls are executed in their order, and each gets its result as a tool message in the words of the view. How an
episode ends:

* terminated: a call of `terminate` was executed; the other calls of that reply are executed, too.
* stopped: a reply without a call.
* malformed: `Setup.max_malformed` replies in a row that break the form. Each one before is answered by a user message
  (servers allow no tool message without a call), and none of its calls is made.
* length: a reply that is cut at the limit of new tokens. It stays as text, and none of its calls is made.
* context: prompt and new tokens together could pass the context; nothing is ever cut to make it fit.
* turns: `Setup.max_turns` replies were given.
* error: the engine could not answer.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from msgspec.structs import replace

from oresmith.arena.tools import Toolbox, clean
from oresmith.arena.views import render
from oresmith.evaluation.problems import Case
from oresmith.evaluation.prompts import malformed_answer
from oresmith.evaluation.records import ChatReply, ChatRequest, Rollout, Sampling
from oresmith.models.replies import Reply, native_reply, parse_reply, plain_json
from oresmith.records import Message, Record, ToolCall

TERMINATE = "terminate"
_ERROR_CHARACTERS = 500


class Setup(Record, frozen=True):
    """What all episodes of a run share."""

    model: str
    """Name; part of every seed."""
    system: str
    """Text of the system prompt."""
    tools: list[dict[str, Any]]
    """Definitions, nested OpenAI form."""
    view: str
    sampling: Sampling
    context: int
    """Tokens of prompt and answer together."""
    max_turns: int
    max_malformed: int
    """In a row."""
    seed: int


class Episode:
    """A conversation between a model and the tools.

    Args:
        case: the problem.
        sample: its number, from 0.
        setup: what all episodes share.
        toolbox: the tools over the problem's shop.
    """

    def __init__(self, case: Case, sample: int, setup: Setup, toolbox: Toolbox) -> None:
        self.case, self.sample, self.setup, self.toolbox = case, sample, setup, toolbox
        self.seed = seed_of(setup.seed, setup.model, case.name, sample)
        self.messages = [
            Message(role="system", content=setup.system),
            Message(role="user", content=clean(case.problem.query or "")),
        ]
        self.results: list[Any] = []
        self.replies: list[ChatReply] = []
        self.malformed = 0
        self.ended: str | None = None
        self._in_a_row = 0

    def request(self) -> ChatRequest:
        """The next turn that the model is to write."""
        turn = len(self.replies)
        return ChatRequest(
            key=request_key(self.case.name, self.sample, turn),
            messages=list(self.messages),
            tools=self.setup.tools,
            seed=seed_of(self.seed, turn),
        )

    def take(self, reply: ChatReply) -> None:
        """Take the reply to the last request in, and execute its calls."""
        kept = storable(reply)
        self.replies.append(kept)
        if kept.finish in ("error", "context"):
            self.ended = kept.finish
        elif kept.prompt_tokens is not None and self._too_long(kept.prompt_tokens):
            self.ended = "context"
        elif kept.finish == "length":
            self.messages.append(Message(role="assistant", content=kept.text))
            self.ended = "length"
        else:
            self._read(read_reply(kept))

    def rollout(self) -> Rollout:
        """The finished episode."""
        return Rollout(
            problem=self.case.name,
            problem_id=self.case.problem.problem_id,
            sample=self.sample,
            seed=self.seed,
            messages=self.messages,
            results=self.results,
            replies=self.replies,
            ended=self.ended or "error",
            malformed=self.malformed,
        )

    def _too_long(self, prompt_tokens: int) -> bool:
        return prompt_tokens + self.setup.sampling.max_new_tokens > self.setup.context

    def _read(self, reply: Reply) -> None:
        said = reply.message(len(self.results))
        calls = [ToolCall(id=call["id"], **call["function"]) for call in said.get("tool_calls", ())]
        thought = said.get("reasoning_content")
        self.messages.append(
            Message(role="assistant", content=said["content"], reasoning_content=thought, tool_calls=calls)
        )
        if reply.malformed is not None:
            self.malformed += 1
            self._in_a_row += 1
            if self._in_a_row >= self.setup.max_malformed:
                self.ended = "malformed"
                return
            self.messages.append(Message(role="user", content=malformed_answer(reply.malformed)))
        elif not calls:
            self.ended = "stopped"
        else:
            self._in_a_row = 0
            self._execute(calls)
        if self.ended is None and len(self.replies) >= self.setup.max_turns:
            self.ended = "turns"

    def _execute(self, calls: list[ToolCall]) -> None:
        for call in calls:
            result = self.toolbox.call(call.name, json.loads(call.arguments))
            self.results.append(result)
            shown = render(self.setup.view, call.name, result)
            self.messages.append(Message(role="tool", content=shown, tool_call_id=call.id, name=call.name))
            if call.name == TERMINATE and not str(result).startswith("Error:"):
                self.ended = "terminated"


def request_key(problem: str, sample: int, turn: int) -> str:
    """The name of a request: turns of one sample share what stands before the last slash."""
    return f"{problem}/{sample}/{turn}"


def seed_of(*parts: object) -> int:
    """A seed of 48 bits, which every server and JSON reader takes, from whatever names the thing that it is for."""
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:6])


def read_reply(reply: ChatReply) -> Reply:
    """The thinking, content and calls of a reply, whether a server has parsed it or not. Never raises."""
    if not reply.tool_calls:
        return parse_reply(reply.text)
    said: dict[str, Any] = {"content": reply.text, "tool_calls": reply.tool_calls}
    read = parse_reply(reply.text)
    if read.malformed is None and read.think is not None:
        said |= {"content": read.content, "reasoning_content": read.think}
    return native_reply(said)


def storable(reply: ChatReply) -> ChatReply:
    """A reply as it is kept: without its wall time, and with nothing that JSON readers could take differently."""
    error = None if reply.error is None else clean(reply.error[:_ERROR_CHARACTERS])
    text, calls = reply.text, reply.tool_calls
    if calls is not None and not plain_json(calls):
        # Such calls are malformed whatever they say; their text is what can be kept of them.
        text, calls = text + _spelled(calls), [{"function": None}]
    return replace(reply, text=clean(text), tool_calls=calls, error=error, seconds=None)


def _spelled(calls: object) -> str:
    try:
        return json.dumps(calls, default=str)
    except (ValueError, RecursionError):
        return "(calls that are nested too deep)"
