"""Engines whose every word is written beforehand, and a small shop with problems to play them in.

No engine keeps a state between turns: what it says depends on the request alone, as for a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from oresmith.arena.documents import Document
from oresmith.arena.miners import Action, brief_of, make_teacher
from oresmith.arena.search import Searcher, index_of
from oresmith.arena.tools import Toolbox
from oresmith.arena.world import documents
from oresmith.evaluation.evaluate import Evaluated, publish
from oresmith.evaluation.problems import Case, Chosen
from oresmith.evaluation.records import ChatReply, ChatRequest, Sampling
from oresmith.models.replies import END, write_reply
from oresmith.param_models import Rollout
from oresmith.records import Problem

Write = Callable[[ChatRequest, int], ChatReply | str]
"""The reply to a request of a turn, or its text."""


class Scripted:
    """An engine that answers by a function, and remembers what it was asked."""

    name = "scripted"

    def __init__(
        self, write: Write, *, context: int = 8192, says: str = "scripted/1", breaks: int | None = None
    ) -> None:
        self.write, self.context, self.says, self.breaks = write, context, says, breaks
        self.asked: list[ChatRequest] = []
        self.batches: list[int] = []
        self.closed = False

    def chat(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[ChatReply]:
        if self.breaks is not None and len(self.asked) >= self.breaks:
            raise KeyboardInterrupt
        self.asked += requests
        self.batches.append(len(requests))
        return [self._reply(request) for request in requests]

    def _reply(self, request: ChatRequest) -> ChatReply:
        written = self.write(request, int(request.key.rsplit("/", 1)[1]))
        if isinstance(written, ChatReply):
            return msgspec.structs.replace(written, key=request.key)
        tokens = sum(len((message.content or "").split()) for message in request.messages)
        words = len(written.split())
        return ChatReply(
            key=request.key,
            text=written,
            finish="stop",
            prompt_tokens=tokens,
            completion_tokens=words,
            seconds=words / 7,
        )

    def identity(self) -> dict[str, Any]:
        return {"engine": self.name, "model_sha256": self.says, "template": "hermes/1", "template_sha256": "0" * 64}

    def close(self) -> None:
        self.closed = True


def said(text: str, **more: Any) -> ChatReply:
    """A reply with something out of the ordinary."""
    return ChatReply(key="", text=text, **({"finish": "stop"} | more))


def called(*calls: tuple[str, dict[str, Any]], think: str = "", content: str = "") -> str:
    """The text of a reply that makes these calls."""
    made = [{"function": {"name": name, "arguments": msgspec.json.encode(given).decode()}} for name, given in calls]
    message = {"content": content, "reasoning_content": think or None, "tool_calls": made}
    return write_reply(message).removesuffix(END)


def expert(problems: Sequence[Problem], shop: Searcher, *, errs: int = 0) -> Write:
    """The expert policy; of `errs` + 1 problems it solves one and recommends nothing real for the others."""
    toolbox, by_query = Toolbox(shop), {problem.query: place for place, problem in enumerate(problems)}

    def write(request: ChatRequest, turn: int) -> str:
        place = by_query[request.messages[1].content]
        if errs and place % (errs + 1):
            return called(("recommend_product", {"product_ids": "0"}), ("terminate", {"status": "success"}))
        policy = make_teacher(brief_of(problems[place]), int(request.key.split("/")[-2]))
        action = policy.observe(None)
        for _ in range(turn):
            assert action is not None
            action = policy.observe([toolbox.call(name, given) for name, given in action.calls])
        return written(action)

    return write


def written(action: Action | None) -> str:
    assert action is not None
    return called(*action.calls, think=action.think, content=action.response or "")


def never(request: ChatRequest, turn: int) -> str:
    """Recommends what does not exist."""
    return called(("recommend_product", {"product_ids": "404"}), ("terminate", {"status": "success"}))


def looping(request: ChatRequest, turn: int) -> str:
    """Searches the same thing for ever."""
    return called(("find_product", {"q": "pillow"}))


@cache
def small_shop() -> tuple[Searcher, list[Problem]]:
    """A shop of 400 products, and a problem for each of a few of them."""
    made = list(documents(5, 400))
    return index_of(made), [_problem(number, document) for number, document in enumerate(made[::60])]


def _problem(number: int, document: Document) -> Problem:
    reward = {"product_id": document.product_id, "title": [document.title], "price": [{"less than": [0, 1e6]}]}
    return Problem(
        problem_id=f"p-{number}", query=f"I want: {document.title}", category="product", difficulty="L1", reward=reward
    )


def chosen(problems: Sequence[Problem]) -> Chosen:
    return Chosen([Case(problem.problem_id or "", problem, "") for problem in problems], "given", {})


def run(engine: Scripted, target: Path, problems: Sequence[Problem] | None = None, **settings: Any) -> Evaluated:
    """Play problems of the small shop, quietly."""
    shop, ours = small_shop()
    return publish(
        engine,
        chosen(ours if problems is None else problems),
        {"": shop},
        target,
        name="m",
        settings=Rollout(**settings),
        lock="test",
        observed=target.with_name("observed.json"),
        quiet=True,
    )


SAMPLED: dict[str, Any] = {"temperature": 0.7, "samples": 3}


def the_expert(**more: Any) -> Scripted:
    shop, problems = small_shop()
    return Scripted(expert(problems, shop), context=100_000, **more)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
