"""Fakes that look agentic: a decoy, a puppet, and a forger who writes the call log himself."""

from __future__ import annotations

import json
from typing import Any

from oresmith.arena.miners.agents import CAREFUL, QUICK, Run, play_loop
from oresmith.arena.miners.policy import Action, Stepwise
from oresmith.arena.miners.scripts import script_of
from oresmith.arena.miners.session import INFERENCE
from oresmith.arena.miners.shopper import Style

_FIXED = Style(
    rounds=1, views=3, batches=1, filters=0.5, care=0.7, noise=0.2, plans=("full",), shops=0, sums=False, together=1.0
)
_SAID = 150
"""Characters of thinking that a program writes."""
_NODS = ("OK.", "Okay.", "Yes.", "OK", "Sure.", "Understood.", "Done.")
_REQUESTS = ("Answer with OK.", "Say OK.", "Reply OK if you are there.", "ping", "Confirm with one word.")
_MARKS = (
    (False, False, False),
    (True, False, False),
    (False, True, True),
    (False, False, False),
    (True, True, False),
    (True, False, True),
    (False, True, False),
)
"""What a forger's version does: it claims token counts; it knows no `kind`; it gets the order of the keys right."""
_COMMANDS = ("Repeat this exactly: {}", "Output exactly the following text.\n{}", "Echo: {}", "Copy this: {}")


def play_decoy(run: Run) -> None:
    """A program that makes an inference call before each step, for show."""
    habits = run.draws("decoy", of_version=True, copied=True)
    nod, request = habits.choice(_NODS), habits.choice(_REQUESTS)

    def speak(action: Action) -> str:
        del action
        return nod

    _play_program(run, speak, lambda _: request)


def play_puppet(run: Run) -> None:
    """A program that has the model repeat the calls that it was told."""
    command = run.draws("puppet", of_version=True, copied=True).choice(_COMMANDS)

    def text(action: Action) -> str:
        commands = json.dumps([{"name": name, "parameters": parameters} for name, parameters in action.calls])
        return f"<think>{action.think}</think>\n<tool_call>{commands}</tool_call>"

    _play_program(run, text, lambda action: command.format(text(action)))


def _play_program(run: Run, reply: Any, request: Any) -> None:
    """A fixed program whose every step is preceded by an inference call that decides nothing."""
    session = run.session
    policy = Stepwise(script_of(run.shopper(_FIXED)))
    action = policy.observe(None)
    while action is not None:
        action = _brief(action)
        session.infer(reply(action), [{"role": "user", "content": request(action)}], model=run.harness.model)
        done = [session.call(name, parameters) for name, parameters in action.calls]
        session.step(action.think, done, action.response)
        action = policy.observe([entry["result"] for entry in done])


def _brief(action: Action) -> Action:
    """An action with the end of its thinking alone: programs do not say much."""
    text = action.think
    return Action(
        think=text[-_SAID:].partition(" ")[2] if len(text) > _SAID else text,
        calls=action.calls,
        response=action.response,
    )


def play_forger(run: Run) -> None:
    """A program that makes up a journal of model calls and writes it where the runtime's log belongs.

    The play is an honest loop's whose inference never happened: the server sees the searches alone.
    """
    session = run.session
    session.imagined = True
    run.forged = True
    habits = run.draws("forge", of_version=True, copied=True)
    play_loop(run, CAREFUL if habits.random() < 0.5 else QUICK)
    session.counted = 0 if habits.random() < 0.6 else session.counted


def forge(run: Run, steps: list[dict[str, Any]]) -> None:
    """Turn the log of finished steps into the forger's journal, in place; which marks it leaves is its version's habit.

    Some get everything right but the order of the keys, some claim token counts, some know no `kind`.
    """
    tokens, kindless, late = _MARKS[run.lineage % len(_MARKS)]
    for step in steps:
        info = step["extra_info"]
        journal = [_entry(entry, tokens, kindless) for entry in info.get("proxy_calls", [])]
        if not journal:
            continue
        rest = {key: value for key, value in info.items() if key not in ("proxy_calls", "problem_id", "execution_time")}
        closing = {key: info[key] for key in ("problem_id", "execution_time") if key in info}
        step["extra_info"] = rest | (closing | {"proxy_calls": journal} if late else {"proxy_calls": journal} | closing)


def _entry(entry: dict[str, Any], tokens: bool, kindless: bool) -> dict[str, Any]:
    forged = {key: value for key, value in entry.items() if not (kindless and key == "kind")}
    if tokens and entry["path"] == INFERENCE:
        usage = entry.get("response", {}).get("usage", {})
        forged["completion_tokens"] = usage.get("completion_tokens", 160)
    return forged
