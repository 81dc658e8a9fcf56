"""What goes wrong in real runs, at a low rate in every family: crashes, time-outs, lost dialogues, odd steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from oresmith.arena.miners.policy import Action
from oresmith.records import Record

RATES = {
    "crash": 0.010,
    "no_start": 0.003,
    "timeout": 0.006,
    "null": 0.004,
    "empty": 0.004,
    "numbering": 0.008,
    "many_ids": 0.008,
    "odd_ids": 0.003,
    "odd_step": 0.004,
}
"""Share of the runs that each befalls (some of 47 misbehaving agents in real traces, thinned)."""
LOST = frozenset({"crash", "no_start", "timeout", "null", "empty"})
"""Those after which no dialogue is left."""
_CRASHES = (
    ("TypeError", "unsupported operand type(s) for +: 'NoneType' and 'str'"),
    ("TypeError", "'NoneType' object is not subscriptable"),
    ("AttributeError", "'NoneType' object has no attribute 'get'"),
    ("KeyError", "'dialogue'"),
    ("KeyError", "'product_id'"),
    ("ValueError", ""),
    ("ValueError", "too many values to unpack (expected 2)"),
    ("IndexError", "list index out of range"),
    ("RuntimeError", "Process exited with code 1 but produced no result"),
    ("RuntimeError", "Process exited with code -9 but produced no result"),
    ("RecursionError", "maximum recursion depth exceeded"),
)
_NO_STARTS = (
    ("ModuleNotFoundError", "No module named 'torch'"),
    ("ModuleNotFoundError", "No module named 'agent_utils'"),
    ("ImportError", "Module does not define 'agent_main' function"),
    ("SyntaxError", "invalid syntax (agent.py, line 212)"),
)


class Ending(Record, frozen=True):
    """How a run without a dialogue is reported."""

    status: str
    error: dict[str, str] | None
    empty: bool
    """The dialogue is [] rather than null."""


def draw_mishap(draws: random.Random) -> str | None:
    """What befalls a run, mostly nothing."""
    drawn = draws.random()
    for name, rate in RATES.items():
        if drawn < rate:
            return name
        drawn -= rate
    return None


def ending(mishap: str, draws: random.Random) -> Ending:
    """The report of a run whose dialogue is lost (`LOST`)."""
    if mishap in ("null", "empty"):
        return Ending(status="SUCCESS", error=None, empty=mishap == "empty")
    if mishap == "timeout":
        return Ending(status="TIMED_OUT", error=time_out(), empty=False)
    kind, message = draws.choice(_CRASHES if mishap == "crash" else _NO_STARTS)
    return Ending(status="FAILED", error={"type": kind, "message": message}, empty=False)


def time_out() -> dict[str, str]:
    """The error of a run that took too long."""
    return {"type": "TimeoutError", "message": "Execution exceeded timeout of 300.0s"}


def bend_recommendation(mishap: str | None, draws: random.Random) -> Callable[[Action], Action]:
    """Return what a clumsy model makes of its recommendation: several ids, an id twice, ids of a wrong type."""

    def bend(action: Action) -> Action:
        if mishap not in ("many_ids", "odd_ids"):
            return action
        calls = []
        for name, parameters in action.calls:
            ids = parameters.get("product_ids")
            bent = parameters
            if name == "recommend_product" and isinstance(ids, str):
                several = ids.split(",")
                odd: Any = draws.choice((several, int(several[0]) if several[0].isdigit() else None, None))
                bent = {"product_ids": odd if mishap == "odd_ids" else f"{ids},{draws.choice(several)}"}
            calls.append((name, bent))
        return Action(think=action.think, calls=calls, response=action.response)

    return bend


def spoil(steps: list[dict[str, Any]], mishap: str | None, draws: random.Random) -> None:
    """Make steps odd, in place: without numbers or numbered otherwise, or one of a wrong shape."""
    if mishap == "numbering":
        habit = draws.choice(("none", "zero", "same"))
        for place, step in enumerate(steps):
            if habit == "none":
                del step["extra_info"]["step"]
            else:
                step["extra_info"]["step"] = place if habit == "zero" else 1
    elif mishap == "odd_step" and steps:
        step = draws.choice(steps)
        message = step["completion"]["message"]
        habit = draws.choice(("think", "calls", "message"))
        if habit == "think":
            message["think"] = draws.choice((123, None, ["a", "b"]))
        elif habit == "calls":
            message["tool_call"] = [*message.get("tool_call", [])[:1], "find_product"]
        else:
            step["completion"]["message"] = None
