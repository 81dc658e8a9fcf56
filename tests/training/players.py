"""Engines that play the train pool of a project: the terse policy, with what a test makes of its replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from oresmith.arena.search import Searcher
from oresmith.arena.tools import Toolbox
from oresmith.evaluation.problems import Case, problems_of_pool
from oresmith.evaluation.records import ChatReply, ChatRequest, Sampling
from oresmith.param_models import Rollout
from oresmith.stage import DATA
from oresmith.training.expert import Expert
from tests.evaluation.scripted import called

Change = Callable[[str, int, int, str], str]
"""From problem, sample, turn and the policy's reply to the reply; its name says what it does."""
NOTHING = called(("recommend_product", {"product_ids": "404"}), ("terminate", {"status": "success"}))


def as_it_is(problem: str, sample: int, turn: int, text: str) -> str:
    return text


def odd_samples_fail(problem: str, sample: int, turn: int, text: str) -> str:
    return NOTHING if sample % 2 else text


def always_wrong(problem: str, sample: int, turn: int, text: str) -> str:
    return NOTHING


def never_terminating(problem: str, sample: int, turn: int, text: str) -> str:
    return text.partition('\n<tool_call>\n{"name": "terminate"')[0] or "Done."


class Player:
    """An engine over the train pool; it remembers what it was asked, and can be interrupted."""

    name = "player"
    context = 2**20

    def __init__(self, change: Change = as_it_is, *, breaks: int | None = None, seed: int = 1) -> None:
        self.change, self.breaks, self.asked, self.closed = change, breaks, 0, False
        cases = train_cases()
        self._shops = {shop: Searcher.open(DATA / "index" / shop / "catalogue") for shop in {c.shop for c in cases}}
        self._expert = Expert(cases, {shop: Toolbox(one) for shop, one in self._shops.items()}, seed, "terse")

    def chat(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[ChatReply]:
        if self.breaks is not None and self.asked >= self.breaks:
            raise KeyboardInterrupt
        self.asked += len(requests)
        return [self._changed(reply) for reply in self._expert.chat(requests, sampling)]

    def _changed(self, reply: ChatReply) -> ChatReply:
        problem, sample, turn = reply.key.rsplit("/", 2)
        text = self.change(problem, int(sample), int(turn), reply.text)
        return msgspec.structs.replace(reply, text=text, prompt_tokens=9, completion_tokens=3)

    def identity(self) -> dict[str, Any]:
        return {"engine": self.name, "plays": self.change.__name__}

    def close(self) -> None:
        self.closed = True
        for shop in self._shops.values():
            shop.close()


def opening(player: Player) -> Callable[[Rollout, str, Path | None], Player]:
    """What a stage opens its engine with."""
    return lambda settings, name, model: player


def train_cases() -> list[Case]:
    return problems_of_pool(DATA, "train", None, None).cases


TRAIN_STEP: dict[str, Any] = {"batch": 2, "microbatch": 2, "max_steps": 2, "learning_rate": 0.01, "from": "base"}


class StopBeforeTrainingError(Exception):
    """What a step that is killed before its first update ends with."""


def content(folder: Path) -> dict[str, bytes]:
    """The files of a published directory; its manifest names them all."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
