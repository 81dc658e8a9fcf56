"""The world's scripted policies as an engine: they play through the harness as a model does.

So their rollouts have a model's form: each action is written out as a reply, and read back as one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from oresmith.arena.miners.agents import make_teacher
from oresmith.arena.miners.brief import Brief, brief_of
from oresmith.arena.miners.policy import Action, Policy
from oresmith.arena.tools import Toolbox
from oresmith.errors import OresmithError
from oresmith.evaluation.episode import seed_of
from oresmith.evaluation.problems import Case
from oresmith.evaluation.records import ChatReply, ChatRequest, Sampling
from oresmith.models.replies import END, write_reply
from oresmith.records import Problem

VERSION = 1
"""Of the engine; a change that can change a rollout changes it."""
NO_BRIEF = "no_brief"
"""Why a problem is not played: a scripted policy cannot be told what it asks for."""


class Expert:
    """Plays problems by a scripted policy, which is told each problem's constraints, never its gold products.

    Args:
        cases: the problems that it will be asked about (`briefed`).
        toolboxes: the tools, by the shops of the cases: a policy decides by whole results, not by what a view shows.
        seed: picks plans and wording; samples of one problem have different ones.
        style: `terse` for small models, or `expert`.
    """

    name = "expert"
    context = 2**20

    def __init__(
        self, cases: Iterable[Case], toolboxes: Mapping[str, Toolbox], seed: int, style: Literal["expert", "terse"]
    ) -> None:
        self._cases = {case.name: case for case in cases}
        self._toolboxes, self._seed, self._style = toolboxes, seed, style
        self._plays: dict[tuple[str, int], _Play] = {}

    def chat(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[ChatReply]:
        """One reply a request, in their order; nothing is sampled."""
        return [self._reply(request) for request in requests]

    def identity(self) -> dict[str, Any]:
        """The policy and its seed."""
        return {"engine": self.name, "version": VERSION, "style": self._style, "policy_seed": self._seed}

    def close(self) -> None:
        """Forget all plays."""
        self._plays.clear()

    def _reply(self, request: ChatRequest) -> ChatReply:
        name, number, turn = request.key.rsplit("/", 2)
        key = (name, int(number))
        case = self._cases[name]
        play = self._plays.get(key)
        if play is None or play.turn != int(turn):
            seed = seed_of("expert", self._seed, name) + key[1]
            policy = make_teacher(_brief(case), seed, style=self._style)
            play = self._plays[key] = _Play(policy, self._toolboxes[case.shop])
            for _ in range(int(turn)):
                play.act()
        action = play.act()
        if action is None or any(call == "terminate" for call, _ in action.calls):
            del self._plays[key]
        return ChatReply(key=request.key, text=written(action), finish="stop")


class _Play:
    """A policy with the results of its last calls."""

    def __init__(self, policy: Policy, toolbox: Toolbox) -> None:
        self._policy, self._toolbox = policy, toolbox
        self._results: list[Any] | None = None
        self.turn = 0

    def act(self) -> Action | None:
        action = self._policy.observe(self._results)
        self._results = [self._toolbox.call(name, given) for name, given in action.calls] if action else []
        self.turn += 1
        return action


def written(action: Action | None) -> str:
    """The reply of a model that takes this action; an empty one where a policy has nothing more to do."""
    if action is None:
        return ""
    calls = [
        {"function": {"name": name, "arguments": json.dumps(given, ensure_ascii=False)}} for name, given in action.calls
    ]
    message = {"content": action.response or "", "reasoning_content": action.think or None, "tool_calls": calls}
    return write_reply(message).removesuffix(END)


def without_brief(cases: Iterable[Case]) -> dict[str, str]:
    """Names of the cases that a scripted policy cannot play -> why."""
    found = {}
    for case in cases:
        try:
            _brief(case)
        except OresmithError:
            found[case.name] = NO_BRIEF
    return found


def _brief(case: Case) -> Brief:
    known = case.problem
    # A policy needs an id only to draw its words by.
    named = Problem(
        problem_id=known.problem_id or case.name,
        query=known.query,
        category=known.category,
        reward=known.reward,
        voucher=known.voucher,
    )
    return brief_of(named)
