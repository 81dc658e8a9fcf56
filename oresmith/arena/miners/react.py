"""The ReAct loop of the agentic miners: the model's reply names the calls, the program executes exactly these.

The model is the policy's script; what a real one would be sent and would answer is written out all the same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from oresmith.arena.miners.policy import Action, Call, Policy, Results
from oresmith.arena.miners.prompts import system_prompt
from oresmith.arena.miners.session import DEFAULT_MODEL, Session
from oresmith.arena.toolschema import tools as declared_tools
from oresmith.arena.views import render
from oresmith.records import Record

AUTO_THINK = "Auto-recommending best available candidates."
_MODELS = (
    DEFAULT_MODEL,
    "open-model/shopper-8b",
    "open-model/reason-70b",
    "fable-labs/quarry-24b-instruct",
    "fable-labs/quarry-120b",
    "northwind/chat-v3",
)


class Harness(Record, frozen=True):
    """How one agent version talks to its model."""

    system: str
    model: str = DEFAULT_MODEL
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    """Parameters of each request."""
    layout: Literal["line", "lines", "native"] = "line"
    """Calls on one line, a line each, or as native `tool_calls`."""
    view: str = "raw/1"
    """Observation view of the results in the prompt."""
    single: bool = False
    """One user message holds the whole history, instead of a chat."""
    label: str = "Observation"
    turns: int = 30


def make_harness(draws: random.Random, *, wordy: bool = False) -> Harness:
    """An agent version's habits.

    Args:
        draws: fixes them.
        wordy: leaves more turns.
    """
    layout: Literal["line", "lines", "native"] = draws.choice(("line", "line", "lines", "lines", "native"))
    temperature = draws.choice((0.0, 0.0, 0.2, 0.6, 0.7))
    options: dict[str, Any] = {"temperature": temperature} if temperature else {}
    if draws.random() < 0.4:
        options["max_tokens"] = draws.choice((1024, 2048, 4096))
    if layout == "native":
        options["tools"] = declared_tools()
    return Harness(
        system=system_prompt(draws.randrange(6), draws.randrange(3), draws.randrange(3), layout == "native"),
        model=draws.choice(_MODELS),
        options=options,
        layout=layout,
        view=draws.choice(("raw/1", "compact/1")),
        single=layout != "native" and draws.random() < 0.35,
        label=draws.choice(("Observation", "Tool results", "Results", "The tools answered")),
        turns=draws.choice((24, 30, 40)) + (10 if wordy else 0),
    )


def react(
    session: Session,
    policy: Policy,
    harness: Harness,
    *,
    adorn: Callable[[Action], Action] | None = None,
    fallback: Callable[[], list[str]] | None = None,
) -> None:
    """Drive a policy to its end, or to the harness's last turn.

    Args:
        session: the run.
        policy: what the model would answer.
        harness: how the agent talks to it.
        adorn: changes each action before the model utters it.
        fallback: ids that the program itself recommends when the turns are used up; without it the run just ends.
    """
    chat = _Chat(session, harness)
    results: Results | None = None
    for _ in range(harness.turns):
        action = policy.observe(results)
        if action is None:
            return
        action = action if adorn is None else adorn(action)
        chat.utter(action)
        done = [session.call(name, parameters) for name, parameters in action.calls]
        session.step(action.think, done, action.response)
        results = [entry["result"] for entry in done]
        chat.observe(action, results)
    ids = fallback() if fallback is not None else []
    if ids:
        calls: list[Call] = [
            ("recommend_product", {"product_ids": ",".join(ids)}),
            ("terminate", {"status": "success"}),
        ]
        session.step(AUTO_THINK, [session.call(*call) for call in calls], "Done.")


class _Chat:
    """The messages of one run."""

    def __init__(self, session: Session, harness: Harness) -> None:
        self._session, self._harness = session, harness
        self._messages: list[dict[str, Any]] = [
            {"role": "system", "content": harness.system},
            {"role": "user", "content": session.query},
        ]
        self._replies = 0

    def utter(self, action: Action) -> None:
        """Ask the model, which answers with the action."""
        harness = self._harness
        commands = [{"name": name, "parameters": parameters} for name, parameters in action.calls]
        native = None
        if harness.layout == "native":
            native = [
                {
                    "id": f"call_{self._replies}_{place}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(parameters)},
                }
                for place, (name, parameters) in enumerate(action.calls)
            ]
            reply = f"<think>{action.think}</think>" + (f"\n{action.response}" if action.response else "")
        else:
            inner = json.dumps(commands)
            if harness.layout == "lines":
                inner = "[\n" + ",\n".join(map(json.dumps, commands)) + "\n]"
            reply = f"<think>{action.think}</think>\n<tool_call>{inner}</tool_call>"
            reply += f"\n<response>{action.response}</response>" if action.response else ""
        self._session.infer(reply, self._messages, model=harness.model, options=harness.options, tool_calls=native)
        self._replies += 1
        if not harness.single:
            answer: dict[str, Any] = {"role": "assistant", "content": reply}
            self._messages.append(answer | ({"tool_calls": native} if native else {}))

    def observe(self, action: Action, results: Results) -> None:
        """Show the model the results."""
        harness = self._harness
        texts = [render(harness.view, name, result) for (name, _), result in zip(action.calls, results, strict=True)]
        if harness.layout == "native":
            calls = self._messages[-1]["tool_calls"]
            self._messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": text}
                for call, text in zip(calls, texts, strict=True)
            ]
            return
        shown = f"{harness.label}: " + "\n".join(texts)
        if harness.single:
            history = f"{self._messages[1]['content']}\n\nTurn {self._replies}: {action.think}\n{shown}"
            self._messages = [self._messages[0], {"role": "user", "content": history}]
        else:
            self._messages.append({"role": "user", "content": shown})
