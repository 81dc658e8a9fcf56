"""A small shop, the tiny model, and policies that play in it: written beforehand, or the model itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from oresmith.arena.search import Searcher
from oresmith.arena.tools import Toolbox
from oresmith.arena.toolschema import tools
from oresmith.evaluation.engines.inprocess import Answer
from oresmith.evaluation.engines.model import prompt_ids
from oresmith.evaluation.episode import Setup
from oresmith.evaluation.problems import Case
from oresmith.evaluation.records import ChatReply, ChatRequest, Sampling
from oresmith.models import Chat
from oresmith.models.replies import TAGS
from oresmith.param_training import Grpo, Train
from oresmith.training.agreement import Teachers
from oresmith.training.grpo import FittedGrpo, fit_grpo
from oresmith.training.grpo_rounds import Arena
from oresmith.training.rewards import Judge
from tests.evaluation.scripted import Write, called, small_shop

TRAIN = Train(rank=4, alpha=8, threads=1, view="compare/1", checkpoint_steps=1)
SETTINGS = Grpo(
    batch=4,
    microbatch=4,
    generations=2,
    steps=2,
    learning_rate=1e-3,
    warmup=0.0,
    schedule="constant",
    max_completion=4096,
)


@cache
def cases() -> list[Case]:
    """Of the small shop, named as the pipeline names them."""
    return [Case(f"{number:064x}", problem, "") for number, problem in enumerate(small_shop()[1])]


@cache
def toolboxes() -> dict[str, Toolbox]:
    return {"": Toolbox(small_shop()[0])}


def judge(teachers: Teachers | None = None, shop: Searcher | None = None) -> Judge:
    return Judge({"": shop or small_shop()[0]}, teachers or Teachers({}, {}), 0.5, None)


def arena(count: int = 2, teachers: Teachers | None = None) -> Arena:
    return Arena(cases()[:count], toolboxes(), judge(teachers))


def setup(**changed: Any) -> Setup:
    told: dict[str, Any] = {
        "model": "",
        "system": "You shop.",
        "tools": tools(),
        "view": "compare/1",
        "sampling": Sampling(temperature=1.0, max_new_tokens=64),
        "context": 16_000,
        "max_turns": 8,
        "max_malformed": 2,
        "seed": 1,
    }
    return Setup(**told | changed)


def ids_of(text: str, chat: Chat) -> list[int]:
    """A reply as a model writes it: tags that are tokens are one token each."""
    tags = "|".join(map(re.escape, (*TAGS, *chat.tokenizer.control))) if chat.tokenizer.control else ""
    ids: list[int] = []
    for piece in re.split(f"({tags})", text):
        known = chat.tokenizer.control.get(piece)
        ids += chat.tokenizer.plain(piece) if known is None else [known]
    return ids


def gold_of(request: ChatRequest) -> str:
    """The product that the problem of a request asks for."""
    reward = cases()[int(request.key.split("/")[0], 16)].problem.reward
    return str(reward["product_id"])


class Written:
    """A policy whose every word is written beforehand: even samples succeed, odd ones recommend nothing real.

    Args:
        chat: of the model that is trained.
        write: says something else.
        context: tokens.
    """

    def __init__(self, chat: Chat, write: Write | None = None, context: int = 16_000) -> None:
        self.chat, self.context, self.write = chat, context, write or self._write
        self.asked: list[ChatRequest] = []
        self.refreshed: list[Any] = []
        self.closed = False

    def answer(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[Answer]:
        self.asked += requests
        return [self._answer(request) for request in requests]

    def refresh(self, model: Any) -> None:
        self.refreshed.append(model)

    def close(self) -> None:
        self.closed = True

    def _write(self, request: ChatRequest, turn: int) -> ChatReply | str:
        if turn == 0:
            return called(("find_product", {"q": "pillow"}), think="I search.")
        good = int(request.key.split("/")[1]) % 2 == 0
        ids = gold_of(request) if good else "404"
        return called(("recommend_product", {"product_ids": ids}), ("terminate", {"status": "success"}))

    def _answer(self, request: ChatRequest) -> Answer:
        said = self.write(request, int(request.key.rsplit("/", 1)[1]))
        reply = said if isinstance(said, ChatReply) else ChatReply(key="", text=said, finish="stop")
        ids = ids_of(reply.text, self.chat)
        if reply.finish == "stop":
            ids = [*ids, self.chat.tokenizer.end]
        told = ChatReply(key=request.key, text=reply.text, finish=reply.finish, error=reply.error)
        return Answer(told, prompt_ids(request, self.chat), ids)


def fit(
    start: Path,
    work: Path,
    settings: Grpo = SETTINGS,
    train: Train = TRAIN,
    *,
    policy: Any = None,
    problems: int = 2,
    teachers: Teachers | None = None,
    **more: Any,
) -> FittedGrpo:
    """Train in the small shop, quietly, by the written policy where none is given."""
    chat = Chat.load(start)
    out = work / "out"
    out.mkdir(parents=True, exist_ok=True)
    return fit_grpo(
        arena(problems, teachers),
        start,
        train,
        settings,
        chat=chat,
        checkpoints=work / "checkpoints",
        out=out,
        quiet=True,
        policy=policy or Written(chat),
        **more,
    )
